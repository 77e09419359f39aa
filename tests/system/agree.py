"""Whether the daemon scores two engines alike, scraped by itself and by a real Prometheus.

``python -m tests.system.agree [--seconds 60]`` prints the scores of both ways every few
seconds, and ends with 1 if they ever were more than a point apart.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import requests
import yaml

from tests.system.conftest import DaemonProcess, FakeEngine, free_port, page, send

POINT = 1.0
EVERY = 5.0
"""Seconds between two lines of the table; the scores are compared five times a second."""

Scores = dict[str, float]


def works(engine: FakeEngine, ttft: float, **load: object) -> None:
    """Serve ten requests a second, each with the same TTFT, under a load."""
    began = time.monotonic()

    def answer(handler: Any) -> None:
        count = int(10 * (time.monotonic() - began)) + 10
        body = page(count=count, sum=count * ttft, tokens=100 * count, **load)
        send(handler, body.encode())

    engine.answer = answer


@contextmanager
def prometheus(folder: Path, **jobs: list[str]) -> Iterator[str]:
    """Run a Prometheus that scrapes the addresses of each job, yield its URL once it has."""
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "900ms"},
        "scrape_configs": [
            {"job_name": name, "static_configs": [{"targets": targets}]}
            for name, targets in jobs.items()
        ],
    }
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={path}", f"--web.listen-address={address}",
             f"--storage.tsdb.path={folder / 'tsdb'}", "--log.level=warn"],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 30.0
        while _scraped(f"http://{address}") < sum(map(len, jobs.values())):
            assert time.monotonic() < deadline, (folder / "prometheus.log").read_text()
            time.sleep(0.1)
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait(5)


def _scraped(url: str) -> int:
    try:
        answer = requests.get(f"{url}/api/v1/query?query=up==1", timeout=5)
        return len(answer.json()["data"]["result"])
    except (requests.ConnectionError, ValueError, KeyError):
        return 0


def both_ways(url: str, *engines: FakeEngine) -> dict[str, Any]:
    """Return a configuration with the engines in the pools ``scraped`` and ``asked``."""
    targets = [{"targets": [engine.target for engine in engines]}]
    asked = {"source": "prometheus", "engine": "vllm", "prometheus": {"selector": 'job="vllm"'}}
    return {
        "prometheus": {"url": url},
        "pools": [
            {"name": "scraped", "static_configs": targets},
            {"name": "asked", "static_configs": targets, **asked},
        ],
    }


def scores(daemon: DaemonProcess, pool: str) -> Scores:
    """Return the scores of a pool's targets, 0 for none yet."""
    data = daemon.get(f"/api/v1/targets?pool={pool}").json()["data"]
    return {row["target"]: row["score"] or 0.0 for row in data}


def apart(one: Scores, other: Scores) -> float:
    """Return the points by which two ways differ at most."""
    return max(abs(one[name] - other[name]) for name in one)


def settled(daemon: DaemonProcess) -> bool:
    """Whether both ways have left the ramp and agree."""
    one, other = scores(daemon, "scraped"), scores(daemon, "asked")
    return min(other.values()) > 50 and apart(one, other) <= POINT


def watch(daemon: DaemonProcess, names: dict[str, str], seconds: float) -> float:
    """Print the scores of both ways for ``seconds``, and return how far apart they ever were."""
    click.echo(
        f"{'s':>4}" + "".join(f"{f'{name}: scraped':>17}{'asked':>8}" for name in names.values())
    )
    worst, began, told = 0.0, time.monotonic(), 0.0
    while (now := time.monotonic() - began) < seconds:
        one, other = scores(daemon, "scraped"), scores(daemon, "asked")
        worst = max(worst, apart(one, other))
        if now >= told:
            cells = "".join(f"{one[target]:>17.1f}{other[target]:>8.1f}" for target in names)
            click.echo(f"{now:>4.0f}{cells}")
            told += EVERY
        time.sleep(0.2)
    return worst


def main() -> int:
    """Run all of it for as long as is asked for."""
    parser = argparse.ArgumentParser(prog="tests.system.agree", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        busy, calm = FakeEngine(), FakeEngine()
        stack.callback(busy.close)
        stack.callback(calm.close)
        works(busy, 1.0, running=8, waiting=15, kv_cache=0.9)
        works(calm, 0.2, running=2)
        url = stack.enter_context(prometheus(folder, vllm=[busy.target, calm.target]))
        daemon = DaemonProcess(folder, both_ways(url, busy, calm))
        stack.callback(daemon.process.wait, 15)
        stack.callback(daemon.process.terminate)
        daemon.until(lambda: settled(daemon), 30)
        names = {busy.target: "busy", calm.target: "calm"}
        worst = watch(daemon, names, options.seconds)
    click.echo(f"at most {worst:.2f} points apart in {options.seconds:.0f} s")
    return int(worst > POINT)


if __name__ == "__main__":
    sys.exit(main())
