"""Recorded scrapes through the shipped code, on a virtual clock.

    make replay

Reads captures of real engines in tests/data/replay, feeds them through the mapping,
the registry and the cycle that the daemon runs, and writes a plot of each to
benchmarks/results: score, waiting, kv_cache and state over the labelled phases.
"""

import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scorer.addresses import parse_address
from scorer.config import parse_config
from scorer.core.outcome import Outcome, OutcomeClass
from scorer.core.samples import Page, Scrape, ScrapeFailed
from scorer.core.snapshot import TargetView
from scorer.core.vocabulary import ScrapeFailure
from scorer.cycle import Cycle
from scorer.discovered import DiscoveredTarget, Found
from scorer.inflight import InFlight
from scorer.mappings.shipped import engine_mappings
from scorer.registry import Registry
from scorer.sources.mapping import PageReader

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "replay"
PAGES = ROOT / "tests" / "data" / "expositions" / "vllm-0.32-real"
REFUSED = ScrapeFailed(ScrapeFailure.CONNECT, "connection refused", refused=True)
TOKENS = re.compile(r"^(vllm:generation_tokens_total\{[^}]*\}) (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Event:
    """Something the daemon learns at ``at`` seconds about ``target``, within a ``phase``."""

    at: float
    target: str
    news: Page | ScrapeFailed | Outcome
    phase: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """What the daemon published about a target at ``at`` seconds."""

    at: float
    phase: str
    view: TargetView


def replay(events: Iterable[Event], targets: Iterable[str]) -> list[Point]:
    """Feed events in order to a pool of ``targets``; return what was published after each."""
    listed = ", ".join(f"'{target}'" for target in targets)
    text = f"pools: [{{name: replay, static_configs: [{{targets: [{listed}]}}]}}]"
    named = tuple(DiscoveredTarget(parse_address(target)) for target in targets)
    registry = Registry()
    registry.apply(parse_config(text).pools, {"replay": Found(named)}, 0.0)
    pool = registry.pools["replay"]
    cycle = Cycle(pool, InFlight(), registry.publish, draw=lambda: 0.5)
    points = []
    for event in events:
        news = event.news
        if not isinstance(news, Outcome):
            news = Scrape(news, event.at - 0.005, event.at)
        pool.inbox.append((pool.targets[event.target], news))
        view = cycle.tick(event.at)
        points += [
            Point(event.at, event.phase, each)
            for each in view.targets
            if each.target == event.target
        ]
    return points


def page_of(text: str) -> Page | ScrapeFailed:
    """Return what the daemon reads from the text of a page."""
    return PageReader(engine_mappings()).read(
        text.encode(), "text/plain; version=0.0.4", complete=True
    )


def two_engines() -> Iterator[Event]:
    """Two real engines under load: one is flooded, its KV cache fills, clients go away."""
    with gzip.open(DATA / "two_engines.jsonl.gz", "rt") as lines:
        for line in lines:
            row = json.loads(line)
            target = f"127.0.0.1:{row['port']}"
            yield Event(10.0 + row["t"], target, page_of(row["body"]), row["phase"])


def crash(capture: str, page: str, *, seconds: int, outcomes: bool) -> Iterator[Event]:
    """One engine that works for ten seconds and is then killed or stopped, scraped each second.

    ``capture`` tells what every request got from the moment of the signal on; ``page`` is
    what the engine printed last. With ``outcomes`` the gateway reports its requests too.
    """
    text = (PAGES / page).read_text()
    rows = [json.loads(line) for line in (DATA / capture).read_text().splitlines()]
    scrapes = [row for row in rows if row.get("path") == "/metrics"]
    events = [
        Event(float(second), "a:1", page_of(_earlier(text, 10 - second)), "working")
        for second in range(1, 10)
    ]
    for second in range(10, 10 + seconds):
        answers = [row for row in scrapes if row["t"] <= second - 10 + 0.1]
        alive = answers[-1]["status"] == 200
        events.append(Event(float(second), "a:1", page_of(text) if alive else REFUSED, "signal"))
    if outcomes:
        events += [_outcome(row) for row in rows if row.get("path") == "/v1/completions"]
    yield from sorted(events, key=lambda event: event.at)


def _earlier(text: str, seconds: int) -> str:
    """Return the page as it was ``seconds`` earlier: with fewer tokens."""
    return TOKENS.sub(lambda match: f"{match[1]} {float(match[2]) - 100 * seconds}", text)


def _outcome(row: dict[str, object]) -> Event:
    """Return what a gateway would tell of one request of the capture."""
    at = 10.0 + float(str(row["t"]))
    kind = OutcomeClass.SUCCESS if row["status"] == 200 else OutcomeClass.ENGINE_FAULT
    return Event(at, "a:1", Outcome(kind, "replayed", at), "signal")


def captures() -> dict[str, tuple[list[Event], tuple[str, ...]]]:
    """Return the events and the targets of each capture, by name."""
    killed = crash("engine_killed.jsonl", "08_engine_core_killed.prom", seconds=10, outcomes=True)
    hung = crash("engine_hung.jsonl", "09_engine_core_stopped.prom", seconds=11, outcomes=False)
    return {
        "two-engines": (list(two_engines()), ("127.0.0.1:8111", "127.0.0.1:8112")),
        "engine-killed": (list(killed), ("a:1",)),
        "engine-hung": (list(hung), ("a:1",)),
    }


def main() -> int:
    """Replay every capture, print what happened and write the plots."""
    from benchmarks.replay.plot import plot  # noqa: PLC0415 - matplotlib is only needed to draw

    for name, (events, targets) in captures().items():
        points = replay(events, targets)
        path = ROOT / "benchmarks" / "results" / f"replay-{name}.png"
        path.parent.mkdir(exist_ok=True)
        plot(points, name, path)
        print(f"{name}: {len(points)} scrapes")
        for target in targets:
            changes = [point for point in points if point.view.target == target]
            print(f"  {target}: {_told(changes)}")
    return 0


def _told(points: list[Point]) -> str:
    """Return the states a target went through, with the time and score of each change."""
    parts, before = [], ""
    for point in points:
        state = f"{point.view.state} ({point.view.state_reason})"
        if state != before:
            score = "-" if point.view.score is None else f"{point.view.score:.0f}"
            parts.append(f"{point.at:.1f}s {state} {score}")
            before = state
    return "; ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
