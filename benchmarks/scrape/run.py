"""What scraping costs: by engine page, over a socket, and for a daemon with many targets.

The daemon has one core to itself; the stand-in for the engines and the picks have
another. Writes ``benchmarks/results/scrape.md`` and ``scrape.json``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks.pick.measure import BenchError, Target, wait_until_scraped
from benchmarks.pick.report import environment, keep
from benchmarks.pick.run import (
    CORES,
    LOAD_CORE,
    RESULTS,
    ROOT,
    SERVER_CORE,
    on_core,
    ports_of,
    running,
)
from benchmarks.scrape.live import Load, measure
from benchmarks.scrape.parts import Cost, reading, scraping
from benchmarks.scrape.report import markdown

PAGES = ROOT / "tests" / "data" / "expositions"
ENGINES = (
    "vllm/v1-latest-saturated.prom", "vllm/v1-dp2.prom", "vllm/v0-0.8.prom", "ray/ray-vllm.prom",
    "dynamo/worker-mocker.prom", "tensorrt_llm/prometheus.prom",
    "tensorrt_llm/iterstats-saturated.json", "triton/trtllm-histogram.prom",
    "sglang/latest-dp2.prom", "tgi/tgi.prom", "llamacpp/llamacpp.prom", "lmdeploy/lmdeploy.prom",
    "nim/nim.prom",
)  # fmt: skip
IDLE = PAGES / "vllm" / "v1-latest-idle.prom"
"""What the daemon's targets serve: as long as any other, and not frozen when it stands still."""
SELDOM = "5m"
"""An interval so long that practically nothing is scraped: what the rest costs."""


def costs() -> Iterator[Cost]:
    """Yield what each engine's page costs."""
    for name in ENGINES:
        page = PAGES / name
        read, mapping = reading(page)
        with running(*on_core(LOAD_CORE, "pages", str(page), "1")) as pages:
            whole = scraping(ports_of(pages)[0])
        yield Cost(name, page.stat().st_size / 1024, mapping, read, whole)
        print(f"measured {name}", file=sys.stderr)


@contextmanager
def daemon(
    size: int, port: int, page: Path, interval: str
) -> Iterator[tuple[Target, subprocess.Popen[str]]]:
    """Run the daemon and what stands for ``size`` engines, each scraped every ``interval``."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(*on_core(LOAD_CORE, "pages", str(page), str(size))) as pages,
    ):
        config = Path(folder) / "scorer.yml"
        targets = [f"127.0.0.1:{each}" for each in ports_of(pages)]
        pool = {"name": "chat", "static_configs": [{"targets": targets}]}
        document = {
            "global": {"scrape_interval": interval},
            "web": {"listen_address": f"127.0.0.1:{port}"},
            "pools": [pool],
        }
        config.write_text(json.dumps(document))
        with running(*on_core(SERVER_CORE, "server", str(config))) as server:
            target = Target(server.pid, port, LOAD_CORE)
            if interval != SELDOM:
                wait_until_scraped(target, size, lambda: server.poll() is None)
            yield target, pages


def loads(options: argparse.Namespace) -> Iterator[Load]:
    """Yield what each number of targets costs the daemon, first with hardly any scrape."""
    sizes = [int(size) for size in options.targets.split(",")]
    for size, interval in [(sizes[0], SELDOM), *((size, "1s") for size in sizes)]:
        with daemon(size, options.port, options.page, interval) as (target, pages):
            time.sleep(options.settle)
            yield measure(target, pages, size, 1.0 if interval == "1s" else 0.0, options.seconds)
        print(f"measured {size} targets every {interval}", file=sys.stderr)


def main() -> None:
    """Measure what is asked for and write the results."""
    parser = argparse.ArgumentParser(prog="make bench-scrape", description=__doc__)
    parser.add_argument("--targets", default="100,500,1000", help="sizes, separated by commas")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each daemon")
    parser.add_argument("--settle", type=float, default=5.0, help="seconds before it is watched")
    parser.add_argument("--port", type=int, default=9810)
    parser.add_argument("--rounds", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--scrapes", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--page", type=Path, default=IDLE, help="what the engines answer")
    options = parser.parse_args()
    if len(CORES) < 2:
        raise BenchError("needs two cores: one for the daemon, one for the engines")
    os.sched_setaffinity(0, {int(SERVER_CORE)})
    pages = [asdict(cost) for cost in costs()]
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    daemons = [asdict(load) for load in loads(options)]
    facts = {**environment(ROOT, options=options), "command": "make bench-scrape"}
    told = {"environment": facts, "pages": pages, "daemons": daemons}
    keep(RESULTS / "scrape", told, markdown(told))


if __name__ == "__main__":
    try:
        main()
    except BenchError as error:
        sys.exit(f"bench-scrape: {error}")
