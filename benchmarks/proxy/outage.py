"""The daemon is killed under load, and started again: what clients see through each Lua way.

    make bench-outage

Emulated engines, the real proxies with the shipped examples, an open-loop load of chat
requests. After a third of the time the daemon gets SIGKILL, after two thirds a new one is
started. Writes ``benchmarks/results/outage.md``, ``outage.json`` and ``outage.png``.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.pick.run import RESULTS, ports_of, running
from benchmarks.proxy.emulated import names
from benchmarks.proxy.outage_plot import draw
from benchmarks.proxy.outage_report import Asked, Outage, markdown, summary
from benchmarks.proxy.run import EXAMPLE_PORTS, daemon, environment, free_port, proxy
from benchmarks.proxy.ways import WAYS, Site, Way
from scorer.demo.client import CHAT_PATH, Shape, draw_shape
from scorer.demo.openai import BYTES_PER_TOKEN
from scorer.demo.wire import connected

LUA = ", Lua with feedback"
"""At the end of the name of each way that picks by itself while the daemon is away."""
SEED = 7
WARM_UP = 5.0
"""Seconds of load before anything is counted."""
PATIENCE = 60.0


async def ask(address: str, shape: Shape, clock: Callable[[], float]) -> Asked:
    """Send one request and read its answer to the end."""
    text = "word".ljust(BYTES_PER_TOKEN) * shape.prompt
    body = {"messages": [{"role": "user", "content": text}],
            "max_tokens": shape.output, "stream": True}  # fmt: skip
    asked, answer = Asked(clock()), b""
    try:
        async with asyncio.timeout(PATIENCE), connected(address) as connection:
            status = await connection.request("POST", CHAT_PATH, json.dumps(body).encode())
            asked.head = clock() - asked.at
            async for part in connection.body():
                asked.ttft = asked.ttft or clock() - asked.at
                answer += part
    except OSError as error:
        asked.failed = repr(error)
        return asked
    if status != 200 or not answer.endswith(b"data: [DONE]\n\n"):
        asked.failed = f"{status} {answer[-200:]!r}"
    else:
        asked.engine = json.loads(answer[len(b"data: ") : answer.index(b"\n")])["model"]
    return asked


async def load(address: str, rate: float, until: float, clock: Callable[[], float]) -> list[Asked]:
    """Send requests at random times, whatever the answers take, and return what became of them."""
    rng, tasks = random.Random(SEED), []
    due = clock()
    while due < until:
        due += rng.expovariate(rate)
        await asyncio.sleep(due - clock())
        tasks.append(asyncio.create_task(ask(address, draw_shape(rng), clock)))
    return list(await asyncio.gather(*tasks))


@contextmanager
def readable_folder() -> Iterator[Path]:
    """Make a folder that also workers of another user may read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


async def through(way: Way, options: argparse.Namespace) -> Outage:
    """Return what happened to the requests through one way."""
    with ExitStack() as stack:
        folder = stack.enter_context(readable_folder())
        engines = stack.enter_context(running(sys.executable, "-m", "benchmarks.proxy.emulated"))
        targets = tuple(f"127.0.0.1:{port}" for port in ports_of(engines))
        ports = {port: free_port() for port in EXAMPLE_PORTS}
        old = stack.enter_context(daemon(folder, targets, ports))
        listed = (targets[0], targets[1])
        site = Site(folder, ports[8080], f"127.0.0.1:{ports[9808]}", listed, ports)
        stack.enter_context(proxy(way, site))
        began = time.monotonic() + WARM_UP

        def clock() -> float:
            return time.monotonic() - began

        third = options.seconds / 3
        requests = asyncio.create_task(
            load(f"127.0.0.1:{site.port}", options.rate, options.seconds, clock)
        )
        await asyncio.sleep(third - clock())
        os.kill(old.pid, signal.SIGKILL)
        killed = clock()
        await asyncio.sleep(2 * third - clock())
        started = clock()
        new = daemon(folder, targets, ports)
        await asyncio.to_thread(stack.enter_context, new)  # it waits, and the load goes on
        ready = clock()
        counted = [each for each in await requests if each.at >= 0]
        return Outage(way.name, killed, started, ready, counted)


def main() -> None:
    """Measure each way, and write figures, page and plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=20.0, help="requests a second")
    parser.add_argument("--only", default="", help="ways whose name contains this")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.rounds = 1
    outages = []
    for way in WAYS:
        if way.name.endswith(LUA) and options.only in way.name:
            outages.append(asyncio.run(through(way, options)))
            print(f"{way.name}: {len(outages[-1].requests)} requests", file=sys.stderr)
    told = {
        "environment": {**environment(options), "rate": options.rate},
        "engines": names(),
        "ways": [summary(outage, names()) for outage in outages],
    }
    (options.results / "outage.json").write_text(json.dumps(told, indent=1) + "\n")
    page = markdown(told)
    (options.results / "outage.md").write_text(page)
    draw(outages, names(), options.results / "outage.png")
    print(page)


if __name__ == "__main__":
    main()
