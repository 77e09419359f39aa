"""The results as a page: what was measured, where, with which versions, and a table."""

import argparse
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

PACKAGES = (
    "scorer", "uvicorn", "httptools", "uvloop", "flask", "a2wsgi", "apscheduler", "requests",
    "prometheus-client",
)  # fmt: skip
HEAD = """\
# Pick benchmark

`make bench-pick` on {date}, commit {commit}.

{cpu}, {cores} cores, Linux {kernel}, Python {python}, wrk {wrk}.
{packages}.

The daemon runs on one core and scrapes a vLLM page of {page_kib} KiB from every target once a
second, in larger pools from {scrapes_limit:g} of them a second; wrk and the stand-in for the
engines run on another core. Medians of {rounds} rounds of {seconds:g} s, in which the routes take
turns; each answer was a success.

- **requests/s**, **p50**, **p99**, **CPU**: 32 connections, which keep the server's core busy, so
  that latency is mostly waiting for one's turn. CPU is what the whole daemon used per request;
  *net* is without what it uses at rest.
- **alone**: one connection, one request at a time.
- **scrapes/s** that were done beside the requests, and the share of the core that scraping and
  scoring take **at rest**.

Latencies in milliseconds, CPU in microseconds.

| pool | route | requests/s (min–max) | p50 | p99 | CPU (net) | alone p50 | alone p99 | scrapes/s | at rest |
|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|
"""  # noqa: E501 - the row of a table is one line
ROW = (
    "| {pool} | {route} | {per_second:,.0f} ({per_second_low:,.0f}–{per_second_high:,.0f}) "
    "| {p50} | {p99} | {cpu:.0f} ({cpu_net:.0f}) | {alone_p50} | {alone_p99} "
    "| {scrapes:.0f} | {scraping:.0%} |\n"
)
TIMES = ("p50", "p99", "alone_p50", "alone_p99")

Facts = Mapping[str, object]


def environment(root: Path, *, options: argparse.Namespace) -> dict[str, object]:
    """Return what a reader needs to know about this run; no names of hosts or paths."""
    return {
        "command": "make bench-pick",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(root),
        "cpu": cpu_model(),
        "cores": len(cpu_lines()),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
        "wrk": said("wrk", "--version").split(" [")[0].removeprefix("wrk ").strip(),
        "packages": {name: version(name) for name in PACKAGES},
        "rounds": options.rounds,
        "seconds": options.seconds,
        "scrapes_limit": options.scrapes,
        "page_kib": round(options.page.stat().st_size / 1024),
    }


def said(*command: str, cwd: Path | None = None) -> str:
    """Return the first words of a command, on whichever stream; some exit non-zero for that."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip()


def commit(root: Path) -> str:
    """Return the commit measured, marked when the tree differs from it."""
    name = said("git", "rev-parse", "--short=12", "HEAD", cwd=root)
    if not name.isalnum():
        return "unknown"
    changed = said("git", "status", "--porcelain", "--", "scorer", "exporters", cwd=root)
    return f"{name} with changes" if changed else name


def cpu_lines() -> list[str]:
    """Return one line a core."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return [line for line in lines if line.startswith("processor")]


def cpu_model() -> str:
    """Return the processor's name, or its architecture where the kernel tells no name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def markdown(facts: Facts, lines: Sequence[Facts]) -> str:
    """Return the page."""
    packages = facts["packages"]
    assert isinstance(packages, Mapping)  # noqa: S101 - as environment() made it
    listed = ", ".join(f"{name} {number}" for name, number in packages.items())
    head = HEAD.format_map({**facts, "packages": listed})
    return head + "".join(ROW.format_map({**each, **milliseconds(each)}) for each in lines)


def milliseconds(line: Facts) -> dict[str, str]:
    """Return the times of a line, which are in microseconds, in milliseconds."""
    return {name: f"{float(str(line[name])) / 1000:.2f}" for name in TIMES}
