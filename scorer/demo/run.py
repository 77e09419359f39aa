"""``scorer demo``: emulated engines, a load and the real daemon, in one command.

The engines, the client, the scenario and the narrator share one event loop; the daemon
is a process of its own, so that it is what users run.
"""

import asyncio
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import click
import yaml

from scorer.demo import process
from scorer.demo.client import LoadClient
from scorer.demo.cost import A100_8B
from scorer.demo.engine import Limits
from scorer.demo.narrator import Narrator
from scorer.demo.scenario import Scenario
from scorer.demo.server import EngineServer
from scorer.demo.wire import KeepAlive

MODEL_NAME = "demo-8b"
LIMITS = Limits(kv_blocks=4096, block_size=16)
"""64K tokens of KV cache: four or five long documents fill it."""
ANY_HOST = ("", "0.0.0.0", "[::]")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the demo is asked to do: ``duration`` in seconds (None: until stopped)."""

    listen: str
    duration: float | None
    rate: float
    engines: int


class AddressTakenError(Exception):
    """The daemon's address cannot be listened on."""


class OutputError(Exception):
    """Nothing can be printed; its cause is the OSError."""


def run_demo(
    listen: str, duration: float | None, rate: float, engines: int, out: TextIO | None = None
) -> int:
    """Run the demo and return its exit code: 0 when stopped, 1 when it could not go on.

    The daemon listens on ``listen`` (``host:port``; port 0 takes a free one); ``rate`` is
    requests a second; ``duration`` is seconds, None until SIGINT or SIGTERM; ``out`` is
    standard output by default.
    """
    settings = Settings(listen, duration, rate, engines)
    sink = out or sys.stdout
    if isinstance(sink, TextIOWrapper):
        # The bars are worth less than the demo where the locale cannot print them.
        sink.reconfigure(errors="replace")
    try:
        return asyncio.run(_run(settings, sink))
    except (AddressTakenError, process.DaemonDiedError) as error:
        click.echo(f"scorer: {error}", err=True)
        return 1
    except OutputError as error:
        # The interpreter would try once more at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error.__cause__, BrokenPipeError):  # the reader of the output left
            return 0
        click.echo(f"scorer: cannot write to standard output: {error}", err=True)
        return 1


async def _run(settings: Settings, out: TextIO) -> int:
    def write(line: str) -> None:
        try:
            click.echo(line, file=out)
        except OSError as error:
            raise OutputError(error.strerror) from error

    host, port = _claim(settings.listen)
    address = f"{'127.0.0.1' if host in ANY_HOST else host}:{port}"
    stopped = _stop_event()
    write(f"starting {settings.engines} emulated engines and the daemon ...")
    with TemporaryDirectory(prefix="scorer-demo-") as folder:
        async with _engines(settings.engines) as servers:
            config = _write_config(Path(folder), [server.address for server in servers])
            log = Path(folder, "daemon.log")
            arguments = ["run", "--config.file", str(config)]
            arguments += ["--web.listen-address", f"{host}:{port}"]
            async with process.running(arguments, log) as daemon, KeepAlive(address) as api:
                if await _first(stopped.wait(), daemon.ready(api)):
                    return 0
                for line in welcome(address, [server.address for server in servers], log):
                    write(line)
                story = _story(settings, servers, api, write)
                await _first(_elapsed(stopped, settings.duration), daemon.watch(), *story)
                write("stopping ...")
    return 0


def _story(
    settings: Settings,
    servers: list[EngineServer],
    api: KeepAlive,
    write: Callable[[str], None],
) -> list[Coroutine[Any, Any, None]]:
    """Return what goes on until stopped: load on the pool, events in it, reports of it."""
    rng = random.Random()
    client = LoadClient(api, settings.rate, rng)
    names = {server.address: f"engine {number}" for number, server in enumerate(servers, 1)}
    narrator = Narrator(api, names, client.take, write)
    scenario = Scenario(servers, narrator.say, rng)
    return [client.run(), narrator.run(), scenario.run()]


def _write_config(folder: Path, addresses: Iterable[str]) -> Path:
    path = folder / "scorer.yml"
    path.write_text(config_text(addresses))
    return path


def config_text(addresses: Iterable[str]) -> str:
    """Return the daemon's configuration: one pool of the engines at ``addresses``.

    Envoy may have its endpoints, so that docs/integrations/envoy.md can be tried with it.
    """
    pool = {
        "name": "demo",
        "models": [MODEL_NAME],
        "static_configs": [{"targets": list(addresses)}],
    }
    exporters = {"envoy_eds": {"enabled": True}}
    return yaml.safe_dump({"exporters": exporters, "pools": [pool]}, sort_keys=False)


def welcome(address: str, engines: Iterable[str], log: Path) -> list[str]:
    """Return the lines that say where to look."""
    return [
        "",
        f"  status page   http://{address}/",
        f"  metrics       curl -s http://{address}/metrics",
        f"  a pick        curl -s 'http://{address}/pick?prompt_tokens=1000'",
        f"  why           curl -s http://{address}/api/v1/targets",
        *(
            f"  {f'engine {number}':<13} http://{engine}/metrics"
            for number, engine in enumerate(engines, 1)
        ),
        f"  daemon's log  {log}",
        "",
        "Ctrl-C stops everything.",
        "",
    ]


def _claim(listen: str) -> tuple[str, int]:
    """Return host and port of ``listen`` after trying to listen there."""
    host, _, port = listen.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host.strip("[]"), int(port)))
            trial.listen()
        except (OSError, UnicodeError) as error:  # the latter for a host that cannot be one
            why = getattr(error, "strerror", None) or str(error)
            raise AddressTakenError(
                f"cannot listen on {listen}: {why}; stop what listens there or give"
                " another address with --web.listen-address or SCORER_WEB_LISTEN_ADDRESS"
            ) from None
        return host, trial.getsockname()[1]


@asynccontextmanager
async def _engines(count: int) -> AsyncIterator[list[EngineServer]]:
    servers = [EngineServer(MODEL_NAME, A100_8B, LIMITS) for _ in range(count)]
    try:
        for server in servers:
            await server.start()
        yield servers
    finally:
        await asyncio.gather(*(server.close() for server in servers))


def _stop_event() -> asyncio.Event:
    """Return an event that the signals which end a foreground program set."""
    stopped = asyncio.Event()
    for number in STOP_SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped


async def _elapsed(stopped: asyncio.Event, seconds: float | None) -> None:
    """Wait for ``stopped``, at most ``seconds``."""
    try:
        async with asyncio.timeout(seconds):
            await stopped.wait()
    except TimeoutError:
        return


async def _first(stop: Coroutine[Any, Any, Any], *others: Coroutine[Any, Any, Any]) -> bool:
    """Run all until one ends, and cancel the rest; return whether that was ``stop``.

    An exception of the one that ended is raised.
    """
    tasks = [asyncio.ensure_future(each) for each in (stop, *others)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
    return tasks[0] in done
