"""Readers of /metrics and clients of /pick and /feedback, in a process of their own each.

``python hammer.py read URL SECONDS FOLDER`` or ``python hammer.py ask URL SECONDS TARGET``;
prints what happened as JSON. Apart from the tests' process, so that one does not slow the
other down.
"""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import requests

READERS, READS_A_SECOND = 20, 2
ASKED_A_SECOND = 50
KEPT_EVERY = 40


def paced(rate: float, seconds: float) -> Iterator[int]:
    """Yield 0, 1, … at a rate, for so many seconds."""
    began = time.monotonic()
    for index in range(int(rate * seconds)):
        time.sleep(max(0.0, began + index / rate - time.monotonic()))
        yield index


def session() -> requests.Session:
    made = requests.Session()
    made.trust_env = False
    return made


def read(url: str, seconds: float, folder: Path) -> dict[str, object]:
    """Read the page again and again in parallel; keep some of them in a folder."""
    statuses, types, les = Counter[int](), Counter[str](), set[str]()
    lock = threading.Lock()

    def reader(number: int) -> None:
        http = session()
        for index in paced(READS_A_SECOND, seconds):
            answer = http.get(f"{url}/metrics", timeout=10)
            with lock:
                statuses[answer.status_code] += 1
                types[answer.headers["Content-Type"]] += 1
                if (index * READERS + number) % KEPT_EVERY == 0:
                    (folder / f"page-{number}-{index}.prom").write_text(answer.text)
                les.update(part.partition('"')[0] for part in answer.text.split('le="')[1:])

    threads = [threading.Thread(target=reader, args=(number,)) for number in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"statuses": statuses, "types": types, "le": sorted(les)}


def ask(url: str, seconds: float, target: str) -> dict[str, object]:
    """Pick and report at a fixed rate."""
    http, statuses, took = session(), Counter[int](), []
    for _ in paced(ASKED_A_SECOND, seconds):
        began = time.monotonic()
        statuses[http.get(f"{url}/pick", timeout=10).status_code] += 1
        took.append(time.monotonic() - began)
        told = http.post(f"{url}/feedback", json={"target": target, "status": 200}, timeout=10)
        statuses[told.status_code] += 1
    return {"statuses": statuses, "seconds": took}


if __name__ == "__main__":
    _, what, where, length, more = sys.argv
    done = (
        read(where, float(length), Path(more))
        if what == "read"
        else ask(where, float(length), more)
    )
    sys.stdout.write(json.dumps(done))
