"""What the status page shows, as words and numbers ready to print.

The template only lays out; every decision about wording is made here, so the page
can be tested without reading HTML.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from scorer.clocks import Clocks
from scorer.core.snapshot import PoolView, ScrapeView, SignalView, Snapshot, TargetView
from scorer.core.vocabulary import SignalName, State
from scorer.http import words
from scorer.http.holds import Hold, holds
from scorer.http.ports import Ports
from scorer.http.selection import UNHEALTHY, Selection
from scorer.http.sorting import KEYS, next_sort, sorted_selection
from scorer.http.sparkline import Sparkline, sparkline

VISIBLE = 0.05
"""Points below which a loss is not shown."""
VISIBLE_WEIGHT = 0.005
"""Difference of a weight from the score below which it is not shown."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value in words; ``note`` explains what is not a number."""

    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the score bar: ``start`` and ``width`` in points, cause and words."""

    kind: str
    start: float
    width: float
    label: str


@dataclass(frozen=True, slots=True)
class LastScrape:
    """The last scrape in words; ``error`` is empty when it was good."""

    age: str
    duration: str
    error: str
    detail: str


@dataclass(frozen=True, slots=True)
class Row:
    """One target.

    ``share`` is its weight and warm-up where they say more than the score, ``rate`` that of its
    picks, ``cooling`` the time in ``cooldowns``, empty without any.
    """

    view: TargetView
    engine: str
    since: str
    since_time: str
    reason: str
    holds: tuple[Hold, ...]
    score: str
    bar: tuple[Segment, ...]
    bar_label: str
    losses: tuple[Segment, ...]
    trend: Sparkline
    waiting: Cell
    running: Cell
    kv_cache: Cell
    ttft: Cell
    errors: Cell
    scrape: LastScrape | None
    picks: str
    rate: str
    cooldowns: str
    cooling: str
    share: str


@dataclass(frozen=True, slots=True)
class Section:
    """One pool: its summary counts the whole pool, its rows are those asked for."""

    pool: PoolView
    summary: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A filter: what it shows, how many targets it has, and whether it is in force."""

    text: str
    href: str
    count: int
    active: bool
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column to sort by; ``direction`` is its ``aria-sort``, empty without one."""

    label: str
    href: str
    direction: str


@dataclass(frozen=True, slots=True)
class Page:
    """The whole page.

    ``kept`` are the parameters that a search keeps, ``refresh`` aside: the page does not reload
    while somebody types.
    """

    time: str
    sections: tuple[Section, ...]
    pool_links: tuple[Link, ...]
    state_links: tuple[Link, ...]
    columns: Mapping[str, Column]
    search: str
    everything_href: str
    kept: Mapping[str, str]
    json_href: str
    csv_href: str
    still_href: str
    live_href: str
    root: str = ""
    """Leads to the page of all targets: this one."""


def status_page(
    snapshot: Snapshot, selection: Selection, sort: str, refresh: str, ports: Ports
) -> Page:
    """Return the page of ``selection``; every link of it keeps all that was asked for."""
    chosen = {
        "pool": selection.pool, "state": selection.state, "search": selection.search,
        "sort": sort, "refresh": refresh,
    }  # fmt: skip
    clocks = ports.clocks
    ordered = sorted_selection(selection, sort, ports.inflight)
    return Page(
        time=clocks.rfc3339(clocks.monotonic()),
        sections=tuple(
            Section(pool, summary(pool), tuple(row(view, ports) for view in views))
            for pool, views in ordered.pools
        ),
        pool_links=pool_links(snapshot, chosen),
        state_links=state_links(selection, chosen),
        columns={name: column(name, chosen) for name in KEYS},
        search=selection.search,
        everything_href=href(chosen | {"search": ""}),
        kept={name: chosen[name] for name in ("pool", "state", "sort") if chosen[name]},
        json_href=href(chosen | {"refresh": "", "format": "json"}),
        csv_href=href(chosen | {"refresh": "", "format": "csv"}),
        still_href=href(chosen | {"refresh": "0"}),
        live_href=href(chosen | {"refresh": ""}),
    )


def href(query: Mapping[str, str]) -> str:
    """Return the address of the page with the parameters of ``query`` that are not empty."""
    return "./?" + urlencode({name: value for name, value in query.items() if value})


def column(name: str, chosen: Mapping[str, str]) -> Column:
    """Return the head of a column: where it leads, and the order in force if it is by it."""
    sort = chosen["sort"]
    direction = {name: "ascending", f"-{name}": "descending"}.get(sort, "")
    return Column(words.COLUMNS[name], href({**chosen, "sort": next_sort(name, sort)}), direction)


def pool_links(snapshot: Snapshot, chosen: Mapping[str, str]) -> tuple[Link, ...]:
    """Return a filter a pool, and one for all; none when there is no choice."""
    if len(snapshot.pools) < 2:
        return ()
    sizes = {name: len(pool.targets) for name, pool in snapshot.pools.items()}
    every = Link("all pools", href({**chosen, "pool": ""}), sum(sizes.values()), not chosen["pool"])
    return (
        every,
        *(
            Link(name, href({**chosen, "pool": name}), size, name == chosen["pool"])
            for name, size in sizes.items()
        ),
    )


def state_links(selection: Selection, chosen: Mapping[str, str]) -> tuple[Link, ...]:
    """Return a filter a state that any target of the selected pools is in, and one for all."""
    counts = Counter(view.state for pool, _ in selection.pools for view in pool.targets)
    every = Link("all states", href({**chosen, "state": ""}), counts.total(), not chosen["state"])
    bad, asked = counts.total() - counts[State.HEALTHY], chosen["state"] == UNHEALTHY
    unhealthy = Link(UNHEALTHY, href({**chosen, "state": UNHEALTHY}), bad, asked)
    return (
        every,
        *([unhealthy] if bad or asked else []),
        *(
            Link(
                state, href({**chosen, "state": state}), counts[state], state == chosen["state"],
                kind=state,
            )
            for state in State
            if counts[state] or state == chosen["state"]
        ),
    )  # fmt: skip


def summary(pool: PoolView) -> str:
    """Return how many targets the pool has and how many picks may return, in words."""
    size = len(pool.targets)
    targets = "1 target" if size == 1 else f"{words.count(size)} targets"
    return f"{targets}, {words.count(pool.eligible)} eligible"


def row(view: TargetView, ports: Ports) -> Row:
    """Return one target as the page shows it."""
    clocks = ports.clocks
    bar, losses = score_bar(view)
    signals = view.signals
    return Row(
        view=view,
        engine=" ".join(filter(None, (view.engine, view.engine_version))),
        since=words.span(clocks.age(view.state_since)),
        since_time=clocks.rfc3339(view.state_since),
        reason=words.said(words.REASONS, view.state_reason),
        holds=holds(view, clocks),
        score="–" if view.score is None else f"{view.score:.1f}",
        bar=bar,
        bar_label=", ".join(segment.label for segment in bar),
        losses=losses,
        trend=sparkline(view, ports.trends, clocks),
        waiting=signal_cell(signals[SignalName.QUEUE], words.count),
        running=Cell("–" if view.running is None else words.count(view.running)),
        kv_cache=signal_cell(signals[SignalName.KV_CACHE], words.percent),
        ttft=signal_cell(signals[SignalName.TTFT], words.latency),
        errors=signal_cell(signals[SignalName.ERRORS], words.percent),
        scrape=last_scrape(view.last_scrape, clocks),
        picks=words.count(ports.inflight.count(view.pool, view.target)),
        rate=words.rate(ports.rates.rate(view.pool, view.target)),
        cooldowns=words.count(view.cooldown.count),
        cooling=words.span(view.cooldown.spent) if view.cooldown.count else "",
        share=share(view),
    )


def share(view: TargetView) -> str:
    """Return the weight where it is not what the score says, and how far the ramp has come."""
    said = []
    if view.score is not None and abs(view.weight - view.score / 100) >= VISIBLE_WEIGHT:
        said.append(f"weight {view.weight:.2f}")
    if view.warmup_ratio < 1.0:
        said.append(f"warm-up {words.percent(view.warmup_ratio)}")
    return ", ".join(said)


def score_bar(view: TargetView) -> tuple[tuple[Segment, ...], tuple[Segment, ...]]:
    """Return the bar of the score and what it lost, which fill 100 points, and the losses alone.

    The bar keeps the order of the causes, so that it is steady from one reload to the
    next; the losses come largest first.
    """
    if view.score is None:
        return (), ()
    bar = [Segment(view.state, 0.0, round(view.score, 2), f"score {view.score:.1f}")]
    for cause, points in view.points_lost.items():
        if points >= VISIBLE:
            start = bar[-1].start + bar[-1].width
            label = f"{words.said(words.CAUSES, cause)} −{points:.1f}"
            bar.append(Segment(cause, round(start, 2), round(points, 2), label))
    return tuple(bar), tuple(sorted(bar[1:], key=lambda segment: -segment.width))


def signal_cell(signal: SignalView, shown: Callable[[float], str]) -> Cell:
    """Return a signal in words: its value, a dash without traffic, n/a with the reason."""
    if signal.unavailable is not None:
        return Cell("n/a", words.said(words.GAPS, signal.unavailable))
    if signal.value is None:
        return Cell("–", "no traffic to measure")
    return Cell(shown(signal.value))


def last_scrape(scrape: ScrapeView | None, clocks: Clocks) -> LastScrape | None:
    """Return how the last scrape went, in words; None before the first one ended."""
    if scrape is None:
        return None
    error = words.said(words.FAILURES, scrape.reason) if scrape.reason else ""
    return LastScrape(
        age=f"{clocks.age(scrape.at):.1f} s",
        duration=words.latency(scrape.duration),
        error="" if scrape.ok else error or "failed",
        detail=scrape.detail,
    )
