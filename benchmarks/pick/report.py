"""The results as a page: what was measured, where, with which versions, and a table."""

import argparse
import json
import platform
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

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
second, in larger pools {scrapes_limit:g} of them a second; the load and the stand-in for the
engines run on the other core. Each answer was a success.

"""
GOALS = """\
## Aims

| aim | measured | |
|---|--:|---|
"""
CLOSED = """
## Clients that wait for their answer

wrk, medians of {rounds} rounds of {seconds:g} s in which the routes take turns. With 32 or more
connections the server's core is busy, so that latency is mostly waiting for one's turn. *no-op* is
70 fixed bytes from the same server by way of ASGI, *pick through Flask* the same pick from a Flask
view. *{both}* asks for picks and reports their ends in turn; it is counted in pairs.
CPU is what the whole daemon used per request, *net* without what it used **at rest**, before
anything was asked of it, which is a
share of the core. Latencies in milliseconds, CPU in microseconds.

| pool | route | connections | requests/s (min–max) | p50 | p99 | CPU (net) | scrapes/s | at rest |
|--:|---|--:|--:|--:|--:|--:|--:|--:|
"""
CLOSED_ROW = (
    "| {pool} | {route} | {connections} "
    "| {per_second:,.0f} ({per_second_low:,.0f}–{per_second_high:,.0f}) "
    "| {p50} | {p99} | {cpu:.0f} ({cpu_net:.0f}) | {scrapes:.0f} | {scraping:.0%} |\n"
)
PACED = """
## Clients that come at a fixed rate

{paced_seconds:g} s each, beside scrapes of every target each second; a request is sent when it is
due, whatever has become of those before. Latencies in milliseconds; *core* is the share of the
server's core in use, scrapes included, and *net* the CPU microseconds per request, or per pick with
its report, without what scraping and scoring take at **rest**.

| pool | route | asked/s | done/s | p50 | p99 | p99.9 | report p50 | p99 | net | scrapes/s | core | rest |
|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""  # noqa: E501 - the row of a table is one line
PACED_ROW = (
    "| {pool} | {route} | {asked:,.0f} | {per_second:,.0f} | {p50} | {p99} | {p999} "
    "| {report_p50} | {report_p99} | {cpu_net:.0f} "
    "| {scrapes:.0f} | {core:.0%} | {scraping:.0%} |\n"
)
INSIDE = """
## Inside one process

A pick from the bytes of its request to the bytes of its answer, without kernel, event loop and load
generator: CPU microseconds, the lowest of several batches of picks without feedback. Which function
takes how much of it is printed by `python -m benchmarks.pick.profile`.

| pool | µs |
|--:|--:|
"""
INSIDE_ROW = "| {pool} | {cpu:.1f} |\n"
TIMES = ("p50", "p99", "p999", "report_p50", "report_p99", "report_p999")
BOTH = "/pick and /feedback"

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
        "paced_seconds": getattr(options, "paced_seconds", 0.0),
        "scrapes_limit": options.scrapes,
        "page_kib": round(options.page.stat().st_size / 1024),
    }


def keep(results: Path, told: Mapping[str, object], page: str) -> None:
    """Write results as JSON and as a page, in files of that name, and print the page."""
    results.parent.mkdir(exist_ok=True)
    results.with_suffix(".json").write_text(json.dumps(told, indent=2))
    results.with_suffix(".md").write_text(page)
    print(page)


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


def markdown(told: Mapping[str, Any]) -> str:
    """Return the page."""
    facts = told["environment"]
    listed = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    facts = {**facts, "packages": listed, "both": BOTH}
    parts = [HEAD.format_map(facts), GOALS, *map(_goal, goals(told))]
    for title, row, name in (
        (CLOSED, CLOSED_ROW, "lines"), (PACED, PACED_ROW, "paced"), (INSIDE, INSIDE_ROW, "inside"),
    ):  # fmt: skip
        parts.append(title.format_map(facts))
        parts += [row.format_map({**each, **milliseconds(each)}) for each in told[name]]
    return "".join(parts)


def milliseconds(line: Facts) -> dict[str, str]:
    """Return the times of a line, which are in microseconds, in milliseconds."""
    return {name: _time(float(str(line[name]))) for name in TIMES if name in line}


def _time(microseconds: float) -> str:
    return f"{microseconds / 1000:.2f}" if microseconds else ""


class Goal(NamedTuple):
    """Something to reach: in words, what was measured, and whether that reaches it."""

    aim: str
    measured: str
    reached: bool


def goals(told: Mapping[str, Any]) -> Iterator[Goal]:
    """Yield how the numbers compare with what was to be reached, as far as they were measured."""
    lines = {(e["pool"], e["route"], e["connections"]): e for e in told["lines"]}
    paced = {(e["pool"], e["route"]): e for e in told["paced"]}
    small, large = lines.get((8, "/pick", 32)), lines.get((1000, "/pick", 32))
    alone, both = paced.get((100, "/pick")), paced.get((100, BOTH))
    if small:
        rate = small["per_second"]
        yield Goal("30,000 picks/s on one core, 8 targets", f"{rate:,.0f}/s", rate >= 30_000)
    if small and large:
        ratio = small["cpu_net"] / large["cpu_net"]
        aim = "0.9 of that with 1,000 targets, by net CPU per pick"
        yield Goal(aim, f"{ratio:.2f}", ratio >= 0.9)
    if alone and both:
        ratio = both["cpu_net"] / alone["cpu_net"]
        aim = "a pick with its report costs at most twice a pick, by net CPU at a fixed rate"
        yield Goal(aim, f"{ratio:.2f}", ratio <= 2.0)
    for pool, most in ((100, 2.0), (500, 5.0)):
        if line := paced.get((pool, "/pick")):
            p99 = line["p99"] / 1000
            aim = f"p99 < {most:g} ms at {line['asked']:,.0f}/s beside {pool} scraped targets"
            yield Goal(aim, f"{p99:.2f} ms", p99 < most)


def _goal(goal: Goal) -> str:
    word = "reached" if goal.reached else "not reached"
    return f"| {goal.aim} | {goal.measured} | {word} |\n"
