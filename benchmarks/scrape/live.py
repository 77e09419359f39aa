"""What scraping costs the whole daemon: CPU, lateness, and the picks beside it."""

import http.client
import json
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.pick.measure import Target, cpu_used, get, scrapes_done

PICKS = 100
"""Picks a second, one at a time on a kept connection."""


@dataclass(frozen=True, slots=True)
class Load:
    """One run: ``targets`` scraped every ``interval`` seconds, 0 for practically never.

    ``cpu`` is the daemon's share of a core, ``scrapes`` a second were done, ``missed``
    were skipped. As the engines saw it, ``longest`` is the longest time between two scrapes
    of a target in seconds, and ``late`` how many times it was above one and a half
    intervals. Pick latencies in milliseconds.
    """

    targets: int
    interval: float
    cpu: float
    scrapes: float
    missed: float
    longest: float
    late: int
    pick_p50: float
    pick_p99: float


def measure(
    target: Target, pages: subprocess.Popen[str], size: int, interval: float, seconds: float
) -> Load:
    """Watch a daemon that scrapes ``size`` targets, which ``pages`` stands for, for ``seconds``."""
    gaps_of(pages)
    missed, scrapes, cpu = missed_so_far(target), scrapes_done(target), cpu_used(target.pid)
    began = time.monotonic()
    latencies = list(picks(target, seconds))
    took = time.monotonic() - began
    cpu = cpu_used(target.pid) - cpu
    gaps = gaps_of(pages)
    done, lost = scrapes_done(target) - scrapes, missed_so_far(target) - missed
    return Load(
        targets=size,
        interval=interval,
        cpu=cpu / took,
        scrapes=done / took,
        missed=lost,
        longest=gaps["longest"] if interval else 0.0,
        late=int(gaps["late"]) if interval else 0,
        pick_p50=statistics.median(latencies),
        pick_p99=statistics.quantiles(latencies, n=100)[98],
    )


def picks(target: Target, seconds: float) -> Iterator[float]:
    """Pick at a steady rate for ``seconds`` and yield each latency in milliseconds."""
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=60)
    began = time.monotonic()
    for number in range(int(seconds * PICKS)):
        time.sleep(max(0.0, began + number / PICKS - time.monotonic()))
        asked = time.perf_counter()
        connection.request("GET", "/pick?format=text")
        connection.getresponse().read()
        yield (time.perf_counter() - asked) * 1e3
    connection.close()


def missed_so_far(target: Target) -> float:
    """Return how many scrapes the daemon has skipped."""
    name = "scorer_scrapes_missed_total"
    _, body = get(target, f"/metrics?name[]={name}")
    lines = [line for line in body.decode().splitlines() if line.startswith(name)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def gaps_of(pages: subprocess.Popen[str]) -> dict[str, float]:
    """Return what the stand-in says of the times between scrapes since it was asked last."""
    assert pages.stdout is not None  # noqa: S101 - it was opened with a pipe
    pages.send_signal(signal.SIGUSR1)
    told: dict[str, float] = json.loads(pages.stdout.readline())
    return told
