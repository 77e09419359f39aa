"""Measuring one server process from outside: wrk for requests, ``/proc`` for CPU."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPORT = Path(__file__).with_name("report.lua")
FEEDBACK = Path(__file__).with_name("feedback.lua")
TICKS = os.sysconf("SC_CLK_TCK")
START_WITHIN = 60.0
"""Seconds the daemon gets to start and to score every target."""


class BenchError(Exception):
    """The measurement would be worthless; says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """The server under test: process, port on loopback, and the core that wrk runs on."""

    pid: int
    port: int
    load_core: str


@dataclass(frozen=True, slots=True)
class Probe:
    """One run of wrk: latencies in microseconds, CPU of the server in seconds."""

    requests: int
    seconds: float
    p50: float
    p99: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Paced:
    """One run at a fixed rate: picks a second, microseconds of picks and of reports, CPU seconds.

    Those of reports are 0 when none were made. ``unanswered`` were still waiting two
    seconds after the last was sent.
    """

    requests: int
    unanswered: int
    per_second: float
    p50: float
    p99: float
    p999: float
    report_p50: float
    report_p99: float
    report_p999: float
    cpu: float


def cpu_used(pid: int) -> float:
    """Return the CPU seconds that a process has used, in user and kernel mode."""
    # The command name is in parentheses and may hold blanks: count fields after it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cpu_seconds(target: Target, seconds: float) -> float:
    """Return the CPU seconds that the server uses in ``seconds`` without requests."""
    before = cpu_used(target.pid)
    time.sleep(seconds)
    return cpu_used(target.pid) - before


def wrk(
    target: Target, path: str, connections: int, seconds: float, script: Path = REPORT
) -> Probe:
    """Load one route; BenchError when any answer is not a success.

    ``script`` may decide what is asked; it ends by running :data:`REPORT`.
    """
    check(target, path)
    url = f"http://127.0.0.1:{target.port}{path}"
    command = ["taskset", "-c", target.load_core, "wrk", "-t1", f"-c{connections}"]
    command += [f"-d{max(1, round(seconds))}s", "--latency", "-s", str(script), url]
    before = cpu_used(target.pid)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False,
        env={**os.environ, "WRK_REPORT": str(REPORT)},
    )  # fmt: skip
    cpu = cpu_used(target.pid) - before
    if done.returncode:
        raise BenchError(f"wrk failed: {done.stderr.strip() or done.stdout.strip()}")
    told = json.loads(done.stdout.strip().rpartition("\n")[2])
    if told["bad_status"] or told["socket_errors"] or "Non-2xx" in done.stdout:
        raise BenchError(f"{path}: not every answer was a success: {told}")
    return Probe(told["requests"], told["seconds"], told["p50"], told["p99"], cpu)


def paced(target: Target, path: str, rate: float, seconds: float, *, feedback: bool) -> Paced:
    """Ask for one route ``rate`` times a second; BenchError when an answer is not a success."""
    command = ["taskset", "-c", target.load_core, sys.executable, "-m", "benchmarks.pick.paced"]
    command += [str(target.port), path, str(rate), str(seconds)]
    command += ["--feedback"] if feedback else []
    before = cpu_used(target.pid)
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    cpu = cpu_used(target.pid) - before
    if done.returncode:
        raise BenchError(f"{path} at {rate:g}/s: {done.stderr.strip().rpartition(chr(10))[2]}")
    return Paced(**json.loads(done.stdout), cpu=cpu)


def get(target: Target, path: str) -> tuple[int, bytes]:
    """Return status and body of one request; status 0 when there is no connection."""
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=5)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    except OSError as error:
        return 0, str(error).encode()
    finally:
        connection.close()


def scrapes_done(target: Target) -> float:
    """Return how many scrapes the daemon has finished."""
    name = "scorer_scrape_duration_seconds"
    _, body = get(target, f"/metrics?name[]={name}")
    counts = [line for line in body.decode().splitlines() if line.startswith(f"{name}_count")]
    if not counts:
        raise BenchError(f"/metrics: must have {name}, got {body[:200]!r}")
    return sum(float(line.rpartition(" ")[2]) for line in counts)


def check(target: Target, path: str) -> None:
    """Raise BenchError unless the route answers 200."""
    status, body = get(target, path)
    if status != 200:
        raise BenchError(f"{path}: must answer 200, got {status}: {body.decode(errors='replace')}")


def wait_until_scraped(target: Target, size: int, alive: Callable[[], bool]) -> None:
    """Return when all ``size`` targets have been scraped and are eligible.

    BenchError when that takes too long or the server is no longer ``alive``.
    """
    end = time.monotonic() + START_WITHIN
    told = "no answer"
    while time.monotonic() < end:
        status, body = get(target, "/api/v1/pools")
        if status == 200:
            pool = json.loads(body)["data"][0]
            if pool["scored"] and pool["targets"] == pool["eligible"] == size:
                return
            told = body.decode()
        if not alive():
            raise BenchError("the server ended; what it said is above")
        time.sleep(0.2)
    raise BenchError(f"{size} targets must be scored within {START_WITHIN:.0f} s, got {told}")
