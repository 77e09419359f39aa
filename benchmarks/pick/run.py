"""Pick benchmark: ``/pick`` against a no-op route and against Flask, in one run.

The daemon has one core to itself while it scrapes its targets; the load and the stand-in
for the engines have another. Routes take turns in each round, so that a noisy machine is
noisy for all of them, and medians over the rounds are reported. Then picks come at fixed
rates, with and without a report of each, beside many scrapes; and picks are timed inside
one process, where neither kernel nor load generator is measured with them.
Writes ``benchmarks/results/pick.md`` and ``pick.json``.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.pick.inside import PAGE, Inside, cost, get
from benchmarks.pick.measure import (
    FEEDBACK,
    REPORT,
    ROOT,
    BenchError,
    Paced,
    Probe,
    Target,
    cpu_seconds,
    paced,
    scrapes_done,
    wait_until_scraped,
    wrk,
)
from benchmarks.pick.report import environment, keep, markdown
from scorer.serving import GC_THRESHOLDS

RESULTS = Path(__file__).parents[1] / "results"
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE, LOAD_CORE = str(CORES[0]), str(CORES[-1])
ROUTES = {"no-op": "/bench/noop", "/pick": "/pick", "pick through Flask": "/bench/flask"}
"""What is compared, in the order of each round."""
WITH_FEEDBACK = "/pick and /feedback"
"""Picks and reports of their ends in turn; counted in pairs."""
LOADED = 32
"""Connections that keep the server's core busy."""
CONNECTIONS = (1, LOADED, 256)
PACES = ((100, 5000.0), (500, 1000.0))
"""Targets scraped each second, and picks a second beside them."""
SETTLE = 1.0
"""Seconds each route is warmed up for."""
STARTED, REST = 2.0, 3.0
"""Seconds after the start until the daemon is at rest, and for which its use of CPU is measured."""
INSIDE_BATCH, INSIDE_BATCHES = 10_000, 8


@dataclass(frozen=True, slots=True)
class Line:
    """Medians of one route over some connections, in a pool of ``pool`` targets.

    Times in microseconds; ``cpu`` of the whole server per request, ``cpu_net`` without
    what scraping and scoring cost at rest; ``scraping`` is that cost as a share of the
    core. ``scrapes`` a second were done while all routes were loaded.
    """

    pool: int
    route: str
    connections: int
    per_second: float
    per_second_low: float
    per_second_high: float
    p50: float
    p99: float
    cpu: float
    cpu_net: float
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


def jobs() -> Iterator[tuple[str, str, int, Path]]:
    """Yield what each round measures: the route's name, its path, connections, wrk's script."""
    for route, path in ROUTES.items():
        yield route, path, LOADED, REPORT
    yield WITH_FEEDBACK, ROUTES["/pick"], LOADED, FEEDBACK
    for connections in CONNECTIONS:
        if connections != LOADED:
            for route in ("no-op", "/pick"):
                yield route, ROUTES[route], connections, REPORT


def measure(size: int, target: Target, rounds: int, seconds: float) -> list[Line]:
    """Return the lines of a pool of ``size``, loaded by clients that wait for their answers."""
    idle = at_rest(target)
    for _, path, connections, script in jobs():
        if connections == LOADED:
            wrk(target, path, LOADED, SETTLE, script)
    probes: dict[tuple[str, int], list[Probe]] = {}
    before, began = scrapes_done(target), time.monotonic()
    for _ in range(rounds):
        for route, path, connections, script in jobs():
            probe = wrk(target, path, connections, seconds, script)
            if route == WITH_FEEDBACK:
                probe = replace(probe, requests=probe.requests // 2)
            probes.setdefault((route, connections), []).append(probe)
    scrapes = (scrapes_done(target) - before) / (time.monotonic() - began)
    return [
        Line(pool=size, route=route, connections=connections, scraping=idle, scrapes=scrapes,
             **medians(found, idle))
        for (route, connections), found in probes.items()
    ]  # fmt: skip


def at_rest(target: Target) -> float:
    """Return the share of a core that scraping and scoring take of a daemon that was never asked.

    After a load it would be more: leases, and reports that wait to be learned from, are worked
    off for seconds, which belongs to the requests.
    """
    time.sleep(STARTED)
    return cpu_seconds(target, REST) / REST


def medians(probes: list[Probe], idle: float) -> dict[str, float]:
    """Return what the rounds of one route say; ``idle`` is the CPU share without requests."""
    rates = [probe.requests / probe.seconds for probe in probes]
    net = [(probe.cpu - idle * probe.seconds) / probe.requests for probe in probes]
    return {
        "per_second": statistics.median(rates),
        "per_second_low": min(rates),
        "per_second_high": max(rates),
        "p50": statistics.median(probe.p50 for probe in probes),
        "p99": statistics.median(probe.p99 for probe in probes),
        "cpu": 1e6 * statistics.median(probe.cpu / probe.requests for probe in probes),
        "cpu_net": 1e6 * statistics.median(net),
        "requests": sum(probe.requests for probe in probes),
    }


def pace(target: Target, size: int, rate: float, seconds: float) -> Iterator[dict[str, object]]:
    """Yield what clients see that come at ``rate``: of a no-op, of picks, of picks and reports."""
    idle = at_rest(target)
    for route, path, feedback in (
        ("no-op", ROUTES["no-op"], False),
        ("/pick", ROUTES["/pick"], False),
        (WITH_FEEDBACK, ROUTES["/pick"], True),
    ):
        before, began = scrapes_done(target), time.monotonic()
        told: Paced = paced(target, path, rate, seconds, feedback=feedback)
        scrapes = (scrapes_done(target) - before) / (time.monotonic() - began)
        yield {
            "pool": size,
            "route": route,
            "asked": rate,
            "scrapes": scrapes,
            **asdict(told),
            "core": told.cpu / seconds,
            "cpu_net": 1e6 * (told.cpu - idle * seconds) / told.requests,
            "scraping": idle,
        }


def inside(sizes: Iterable[int]) -> list[dict[str, float]]:
    """Return the microseconds of a pick inside one process: the lowest of several batches.

    Pools take turns, so that all of them meet the same machine.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    pools = [(size, Inside(size), []) for size in sizes]  # type: ignore[var-annotated]
    for _ in range(INSIDE_BATCHES):
        for _, each, found in pools:
            each.judge()
            found.append(cost(each, [get(ROUTES["/pick"])] * INSIDE_BATCH))
    return [{"pool": size, "cpu": min(found)} for size, _, found in pools]


def main() -> None:
    """Measure the pools asked for and write the results."""
    parser = argparse.ArgumentParser(prog="make bench-pick", description=__doc__)
    parser.add_argument("--pools", default="8,100,1000", help="sizes, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--paced-seconds", type=float, default=5.0, help="of each at a fixed rate")
    parser.add_argument("--port", type=int, default=9809)
    parser.add_argument("--scrapes", type=float, default=100.0, help="at most, a second")
    parser.add_argument("--page", type=Path, default=PAGE, help="what the engines answer")
    options = parser.parse_args()
    if len(CORES) < 2:
        raise BenchError("needs two cores: one for the server, one for the load")
    sizes = [int(size) for size in options.pools.split(",")]
    told: dict[str, object] = {"lines": [], "paced": [], "inside": inside(sizes)}
    for size in sizes:
        with daemon(size, options.port, options.page, options.scrapes) as target:
            told["lines"] += map(asdict, measure(size, target, options.rounds, options.seconds))
        print(f"measured a pool of {size}", file=sys.stderr)
    for size, rate in PACES:
        with daemon(size, options.port, options.page, float(size)) as target:
            told["paced"] += pace(target, size, rate, options.paced_seconds)
        print(f"measured {rate:g} picks a second beside {size} targets", file=sys.stderr)
    told = {"environment": environment(ROOT, options=options)} | told
    keep(RESULTS / "pick", told, markdown(told))


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"bench-pick: {error}")
