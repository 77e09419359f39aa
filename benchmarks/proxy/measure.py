"""Measuring a proxy from outside: wrk for requests, ``/proc`` for the CPU of all its processes."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.pick.measure import REPORT, BenchError, Target, cpu_used, get

POST = Path(__file__).with_name("post.lua")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of wrk: latencies in microseconds, CPU of proxy and daemon in µs a request.

    ``picks`` is how many picks the daemon was asked for, for each request.
    """

    requests: int
    per_second: float
    p50: float
    p99: float
    proxy_cpu: float
    daemon_cpu: float
    picks: float


def family(pid: int) -> list[int]:
    """Return a process and all that it started, and those that these started."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").iterdir():
            try:
                found += [int(child) for child in (task / "children").read_text().split()]
            except FileNotFoundError:
                continue
    return found


def cpu_of(pid: int | None) -> float:
    """Return the CPU seconds that a process and its children have used."""
    return sum(cpu_used(each) for each in family(pid)) if pid else 0.0


def picks_of(daemon: Target) -> int:
    """Return how many picks a daemon was asked for."""
    _, body = get(daemon, "/metrics?name[]=scorer_pick_requests_total")
    return int(sum(float(line.rpartition(" ")[2]) for line in body.decode().splitlines()
                   if line and line[0] != "#"))  # fmt: skip


def load(port: int, connections: int, seconds: float, proxy: int | None, daemon: Target) -> Run:
    """Send completions through a port; BenchError when one is not answered with success."""
    command = ["taskset", "-c", daemon.load_core, "wrk", "-t1", f"-c{connections}"]
    command += [f"-d{max(1, round(seconds))}s", "--latency", "-s", str(POST)]
    picked = picks_of(daemon)
    before = cpu_of(proxy), cpu_used(daemon.pid)
    done = subprocess.run(
        [*command, f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=False,
        env={**os.environ, "WRK_REPORT": str(REPORT)},
    )  # fmt: skip
    used = cpu_of(proxy) - before[0], cpu_used(daemon.pid) - before[1]
    if done.returncode:
        raise BenchError(f"wrk failed: {done.stderr.strip() or done.stdout.strip()}")
    told = json.loads(done.stdout.strip().rpartition("\n")[2])
    count = told["requests"]
    if told["bad_status"] or told["socket_errors"] or not count:
        raise BenchError(f"not every answer was a success: {told}")
    each = [1e6 * seconds / count for seconds in used]
    picked = picks_of(daemon) - picked
    return Run(count, count / told["seconds"], told["p50"], told["p99"], *each, picked / count)
