"""Pick benchmark: ``/pick`` against a no-op route and against Flask, in one run.

The daemon has one core to itself while it scrapes its targets; wrk and the stand-in
for the engines have another. Routes take turns in each round, so that a
noisy machine is noisy for all of them, and medians over the rounds are reported.
Writes ``benchmarks/results/pick.md`` and ``pick.json``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.pick.measure import (
    BenchError,
    Probe,
    Target,
    cpu_seconds,
    scrapes_done,
    wait_until_scraped,
    wrk,
)
from benchmarks.pick.report import environment, markdown

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RESULTS = HERE.parent / "results"
PAGE = ROOT / "tests" / "data" / "expositions" / "vllm" / "v1-latest-saturated.prom"
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, LOAD_CORE = str(CORES[0]), str(CORES[-1])
ROUTES = {"no-op": "/bench/noop", "/pick": "/pick", "pick through Flask": "/bench/flask"}
"""What is compared, in the order of each round."""
LOADED, ALONE = 32, 1
"""Connections: enough to keep the server's core busy, and one request at a time."""
SETTLE = 1.0
"""Seconds each route is warmed up for."""


@dataclass(frozen=True, slots=True)
class Line:
    """Medians of one route in a pool of ``pool`` targets.

    Times in microseconds; ``cpu`` of the whole server per request, ``cpu_net`` without
    what scraping and scoring cost at rest; ``scraping`` is that cost as a share of the
    core. ``scrapes`` a second were done while all routes were loaded.
    """

    pool: int
    route: str
    per_second: float
    per_second_low: float
    per_second_high: float
    p50: float
    p99: float
    cpu: float
    cpu_net: float
    alone_p50: float
    alone_p99: float
    scraping: float
    scrapes: float
    requests: float


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process while the block runs; it is killed afterwards."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def on_core(core: str, script: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a script of this folder on one core."""
    return ("taskset", "-c", core, sys.executable, "-m", f"benchmarks.pick.{script}", *arguments)


def ports_of(pages: subprocess.Popen[str]) -> list[int]:
    """Return the ports that the stand-in listens on, from its first lines."""
    assert pages.stdout is not None  # noqa: S101 - it was opened with a pipe
    return [int(line) for line in iter(pages.stdout.readline, "\n") if line.strip()]


@contextmanager
def daemon(size: int, port: int, page: Path, scrapes: float) -> Iterator[Target]:
    """Run ``size`` stand-ins and the daemon, with at most ``scrapes`` a second, one a target."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(*on_core(LOAD_CORE, "pages", str(page), str(size))) as pages,
    ):
        config = Path(folder) / "scorer.yml"
        targets = [f"127.0.0.1:{each}" for each in ports_of(pages)]
        document = {
            "global": {"scrape_interval": f"{max(1000, round(1000 * size / scrapes))}ms"},
            "web": {"listen_address": f"127.0.0.1:{port}"},
            "pools": [{"name": "chat", "static_configs": [{"targets": targets}]}],
        }
        config.write_text(json.dumps(document))
        with running(*on_core(SERVER_CORE, "server", str(config))) as server:
            target = Target(server.pid, port, LOAD_CORE)
            wait_until_scraped(target, size, lambda: server.poll() is None)
            yield target


def measure(size: int, target: Target, rounds: int, seconds: float) -> list[Line]:
    """Return one line a route for a pool of ``size``."""
    idle = cpu_seconds(target, seconds) / seconds
    for path in ROUTES.values():
        wrk(target, path, LOADED, SETTLE)
    loaded: dict[str, list[Probe]] = {route: [] for route in ROUTES}
    alone: dict[str, list[Probe]] = {route: [] for route in ROUTES}
    before, began = scrapes_done(target), time.monotonic()
    for _ in range(rounds):
        for route, path in ROUTES.items():
            loaded[route].append(wrk(target, path, LOADED, seconds))
            alone[route].append(wrk(target, path, ALONE, seconds))
    scrapes = (scrapes_done(target) - before) / (time.monotonic() - began)
    return [
        Line(pool=size, route=route, scraping=idle, scrapes=scrapes, **medians(*probes, idle))
        for route, *probes in zip(ROUTES, loaded.values(), alone.values(), strict=True)
    ]


def medians(loaded: list[Probe], alone: list[Probe], idle: float) -> dict[str, float]:
    """Return what the rounds of one route say; ``idle`` is the CPU share without requests."""
    rates = [probe.requests / probe.seconds for probe in loaded]
    net = [(probe.cpu - idle * probe.seconds) / probe.requests for probe in loaded]
    return {
        "per_second": statistics.median(rates),
        "per_second_low": min(rates),
        "per_second_high": max(rates),
        "p50": statistics.median(probe.p50 for probe in loaded),
        "p99": statistics.median(probe.p99 for probe in loaded),
        "cpu": 1e6 * statistics.median(probe.cpu / probe.requests for probe in loaded),
        "cpu_net": 1e6 * statistics.median(net),
        "alone_p50": statistics.median(probe.p50 for probe in alone),
        "alone_p99": statistics.median(probe.p99 for probe in alone),
        "requests": sum(probe.requests for probe in (*loaded, *alone)),
    }


def main() -> None:
    """Measure the pools asked for and write the results."""
    parser = argparse.ArgumentParser(prog="make bench-pick", description=__doc__)
    parser.add_argument("--pools", default="8,100,1000", help="sizes, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--port", type=int, default=9809)
    parser.add_argument("--scrapes", type=float, default=100.0, help="at most, a second")
    parser.add_argument("--page", type=Path, default=PAGE, help="what the engines answer")
    options = parser.parse_args()
    if len(CORES) < 2:
        raise BenchError("needs two cores: one for the server, one for the load")
    lines: list[Line] = []
    for size in map(int, options.pools.split(",")):
        with daemon(size, options.port, options.page, options.scrapes) as target:
            lines += measure(size, target, options.rounds, options.seconds)
        print(f"measured a pool of {size}", file=sys.stderr)
    facts = environment(ROOT, options=options)
    table = [asdict(each) for each in lines]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "pick.json").write_text(json.dumps({"environment": facts, "lines": table}, indent=2))
    text = markdown(facts, table)
    (RESULTS / "pick.md").write_text(text)
    print(text)


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"bench-pick: {error}")
