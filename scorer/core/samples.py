"""What one scrape of a target yields: samples with reasons for what is missing.

A scrape is either a :class:`Page` (applied whole) or a :class:`ScrapeFailed`
(nothing of it is applied). Cumulative values stay per series, because deltas are
taken per series before they are summed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from scorer.core.leases import Mark
from scorer.core.vocabulary import Engine, Gap, ScrapeFailure

SeriesKey = tuple[str, tuple[tuple[str, str], ...]]
"""Identity of a series: family name and sorted label pairs."""

Counters = Mapping[SeriesKey, float]
"""Cumulative values by series."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One value at scrape time, or the reason why there is none."""

    value: float | None
    gap: Gap | None = None

    @classmethod
    def missing(cls, gap: Gap) -> "Reading":
        """Return a reading without a value, with the reason."""
        return cls(None, gap)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative histogram without its buckets: ``sums`` (seconds) and ``counts`` by series.

    Both are empty with ``gap`` set when the family cannot be read; both hold zeros
    when it is readable and nothing was observed yet. ``sums`` and ``counts`` share
    their keys.
    """

    sums: Counters = field(default_factory=dict)
    counts: Counters = field(default_factory=dict)
    gap: Gap | None = None

    @property
    def count(self) -> float:
        """Observations over all series since the engine started."""
        return sum(self.counts.values())

    @property
    def sum(self) -> float:
        """Sum of the observations over all series, in seconds."""
        return sum(self.sums.values())


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Cumulative request outcomes as the engine counts them.

    ``failures`` holds one counter set per way the engine reports failures; they
    see the same failures from several sides, so the largest delta counts, never
    their sum. ``saturations`` are refusals under load that the engine also counts
    among its failures.
    """

    failures: tuple[Counters, ...] = ()
    successes: Counters = field(default_factory=dict)
    saturations: Counters = field(default_factory=dict)
    gap: Gap | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One of several engines on a page: whether it has work, and the sum of what moves with it."""

    working: bool
    progress: float


NO_PARTS: Mapping[str, Part] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EngineSamples:
    """All that a mapping reads from one page of an engine.

    ``running`` and ``waiting`` are requests, ``kv_cache`` is a ratio 0-1, ``ttft``
    is in seconds, ``start_time`` is Unix seconds (None when the page has none),
    ``capacity`` is tokens of KV cache, ``paused`` is requests put aside for lack of
    memory. ``progress`` holds every counter that moves while a request is worked on;
    ``lifetime`` further ones, which tell a restart by going back and say nothing of a
    request under way. ``asleep`` is None when the engine does not say. ``loras`` are the
    adapters that it runs or has requests for. ``parts`` are the engines on a page with
    several, by the number that the page gives them.
    """

    engine: Engine
    mapping: str
    version: str
    running: Reading
    waiting: Reading
    kv_cache: Reading
    ttft: Histogram
    outcomes: Outcomes
    progress: Counters = field(default_factory=dict)
    lifetime: Counters = field(default_factory=dict)
    preemptions: Reading = Reading(None, Gap.FAMILY_ABSENT)
    paused: Reading = Reading(None, Gap.NOT_OFFERED)
    capacity: Reading = Reading(None, Gap.FAMILY_ABSENT)
    start_time: float | None = None
    asleep: bool | None = None
    model_names: tuple[str, ...] = ()
    loras: frozenset[str] = frozenset()
    parts: Mapping[str, Part] = field(default_factory=lambda: NO_PARTS)


@dataclass(frozen=True, slots=True)
class Page:
    """A good scrape. ``samples`` is None when the page matches no known engine."""

    samples: EngineSamples | None


@dataclass(frozen=True, slots=True)
class ScrapeFailed:
    """A failed scrape: ``reason`` from the closed set, ``detail`` for people.

    ``refused`` tells a refused connection (observed dead) from every other
    failure (not observed).
    """

    reason: ScrapeFailure
    detail: str
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Scrape:
    """One finished scrape of one target.

    ``started_at`` and ``ended_at`` are monotonic seconds; ``picks_at_start`` is the
    target's pick count when it started, so that a good scrape tells which picks
    the engine's own numbers already contain. ``mark`` holds more of its counts at that
    moment.
    """

    result: Page | ScrapeFailed
    started_at: float
    ended_at: float
    picks_at_start: int = 0
    mark: Mark | None = None
