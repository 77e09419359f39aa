"""What clients saw while the daemon was away: the figures of each phase, and the page of them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

PAGE = """\
# The daemon is killed under load

Made by `make bench-outage` on {date}, commit {commit}: {cpu}, {cores} cores, Python {python};
{programs}.

Chat requests of all lengths come at random, {rate:g} a second whatever the answers take, through
each Lua way with its shipped example, to {count} emulated engines, of which {slow} takes twice as
long for everything. The daemon gets SIGKILL after {third:g} s, and a new one is started after
{two_thirds:g} s. *Before* and *after* the daemon picks, *without* is from the kill until the new
one is ready. Engines answer with their head at once, so the time to the *head* is what connection,
pick and proxy take. The load average before was {load:.1f}.

{table}

![Time to head, time to first token and shares of the engines over time](outage.png)
"""
HEAD = (
    "way", "phase", "requests", "failed", "head p50, ms", "head p99, ms", "TTFT p50, ms",
    "TTFT p99, ms", "share of each engine, %",
)  # fmt: skip


@dataclass(slots=True)
class Asked:
    """One request: ``at`` seconds, ``head`` and ``ttft`` later; ``failed`` is why, "" for not."""

    at: float
    head: float = 0.0
    ttft: float = 0.0
    engine: str = ""
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Outage:
    """The requests through one way, and when the daemon was killed, started again and ready."""

    way: str
    killed: float
    started: float
    ready: float
    requests: Sequence[Asked]


def summary(outage: Outage, engines: Sequence[str]) -> dict[str, Any]:
    """Return the figures of each phase."""
    bounds = {
        "before": (0.0, outage.killed),
        "without": (outage.killed, outage.ready),
        "after": (outage.ready, float("inf")),
    }
    return {
        "way": outage.way,
        "killed": round(outage.killed, 2),
        "started": round(outage.started, 2),
        "ready": round(outage.ready, 2),
        "phases": {
            name: _phase([each for each in outage.requests if start <= each.at < end], engines)
            for name, (start, end) in bounds.items()
        },
    }


def _phase(requests: Sequence[Asked], engines: Sequence[str]) -> dict[str, Any]:
    served = [each for each in requests if not each.failed]
    counts = Counter(each.engine for each in served)
    return {
        "requests": len(requests),
        "failed": len(requests) - len(served),
        "head": _milliseconds(each.head for each in served),
        "ttft": _milliseconds(each.ttft for each in served),
        "shares": [round(100 * counts[name] / max(1, len(served)), 1) for name in engines],
    }


def _milliseconds(seconds: Iterable[float]) -> list[float]:
    """Return median and 99th percentile."""
    values = sorted(seconds)
    if len(values) < 2:
        return [0.0, 0.0]
    cuts = quantiles(values, n=100)
    return [round(1000 * cuts[49], 2), round(1000 * cuts[98], 2)]


def markdown(told: Mapping[str, Any]) -> str:
    """Return the page."""
    facts = told["environment"]
    rows = [
        f"| {' | '.join(_cells(way['way'], name, phase))} |"
        for way in told["ways"]
        for name, phase in way["phases"].items()
    ]
    table = [f"| {' | '.join(HEAD)} |", f"| --- | --- |{' ---: |' * (len(HEAD) - 2)}", *rows]
    return PAGE.format(
        **{**facts, "programs": ", ".join(facts["programs"])},
        count=len(told["engines"]),
        slow=told["engines"][-1],
        third=facts["seconds"] / 3,
        two_thirds=2 * facts["seconds"] / 3,
        table="\n".join(table),
    )


def _cells(way: str, name: str, phase: Mapping[str, Any]) -> list[str]:
    return [
        way, name, f"{phase['requests']:,}", str(phase["failed"]),
        *(f"{value:.1f}" for value in phase["head"]), *(f"{value:.0f}" for value in phase["ttft"]),
        " · ".join(f"{share:.0f}" for share in phase["shares"]),
    ]  # fmt: skip
