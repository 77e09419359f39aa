"""The published view: immutable, swapped whole, read without a lock.

Times are monotonic seconds (``*_at``); whoever shows them converts to wall-clock
time, so a step of the wall clock never changes a decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from scorer.core.vocabulary import Cause, Reason, ScrapeFailure, SignalName, State


@dataclass(frozen=True, slots=True)
class SignalView:
    """A signal as judged.

    ``value`` in the signal's unit (ttft seconds, errors ratio, queue requests,
    kv_cache ratio) and ``source`` when available. Available with ``value`` None
    means that there is no traffic to measure and nothing is lost for it;
    ``unavailable`` holds the reason otherwise. ``at`` is when it was measured.
    """

    value: float | None
    at: float | None = None
    source: str = ""
    unavailable: str | None = None

    @property
    def available(self) -> bool:
        """Whether the score may rest on this signal."""
        return self.unavailable is None


@dataclass(frozen=True, slots=True)
class ScrapeView:
    """The last scrape: when it ended, how long it took (seconds), how it went."""

    ok: bool
    at: float
    duration: float
    reason: ScrapeFailure | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Transition:
    """One state change. ``at`` is monotonic seconds."""

    at: float
    before: State
    after: State
    reason: Reason


@dataclass(frozen=True, slots=True)
class TargetView:
    """Everything published about one target of one pool.

    ``score`` and ``raw_score`` are 0-100, None before the target was judged once.
    ``points_lost`` has every :class:`Cause`; 100 minus its sum is ``score``.
    ``weight`` is 0-1. ``eligible`` says whether picks may return it outside panic;
    ``observed_dead`` whether it was seen to be down rather than merely not seen.
    ``picks_seen`` is the pick count that the last good scrape contains.
    """

    target: str
    pool: str
    url: str
    engine: str
    mapping: str
    engine_version: str
    model_names: tuple[str, ...]
    state: State
    state_reason: Reason
    state_since: float
    score: float | None
    raw_score: float | None
    weight: float
    warmup_ratio: float
    confidence: float
    eligible: bool
    observed_dead: bool
    points_lost: Mapping[Cause, float]
    signals: Mapping[SignalName, SignalView]
    running: float | None
    preemptions: float | None
    picks_seen: int
    last_scrape: ScrapeView | None
    last_good_scrape_at: float | None
    scrapes: int
    scrape_failures: Mapping[ScrapeFailure, int]
    restarts: int
    transitions: tuple[Transition, ...]
    transition_counts: Mapping[tuple[State, State], int]


@dataclass(frozen=True, slots=True)
class PoolView:
    """One pool: its targets in a stable order, and who may be picked.

    ``candidates`` are the targets that picks draw from: the eligible ones, or in
    ``panic`` (too few eligible) those not observed dead, or failing that all that
    are not draining. It is empty only when the pool has no such target at all.
    """

    name: str
    models: tuple[str, ...]
    targets: tuple[TargetView, ...]
    candidates: tuple[TargetView, ...]
    eligible: int
    panic: bool
    judged_at: float
    scored: bool
    """Whether every target had its chance to be scored once."""
    score_thresholds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All pools by name, in file order; ``version`` grows by one with each publication."""

    version: int
    pools: Mapping[str, PoolView]


EMPTY = Snapshot(0, MappingProxyType({}))
"""What is published before the first judgement."""
