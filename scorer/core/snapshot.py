"""The published view: immutable, swapped whole, read without a lock.

Times are monotonic seconds (``*_at``); whoever shows them converts to wall-clock
time, so a step of the wall clock never changes a decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from scorer.core.cooldown import CooldownReason
from scorer.core.outcome import LastError
from scorer.core.overrides import Override
from scorer.core.params import PickParams, ScoreParams
from scorer.core.score import Signals
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
class CooldownView:
    """The current or last cooldown, and all of them by reason.

    ``began_at`` and ``until`` are monotonic seconds, None before the first;
    ``entered`` counts cooldowns, ``seconds`` the time spent in them. ``note`` is what an
    operator who started it said.
    """

    active: bool = False
    began_at: float | None = None
    until: float | None = None
    reason: CooldownReason | None = None
    entered: Mapping[CooldownReason, int] = field(default_factory=lambda: MappingProxyType({}))
    seconds: Mapping[CooldownReason, float] = field(default_factory=lambda: MappingProxyType({}))
    note: str = ""

    @property
    def count(self) -> int:
        """How many cooldowns there were, whatever caused them."""
        return sum(self.entered.values())

    @property
    def spent(self) -> float:
        """Seconds spent in cooldown, whatever caused it."""
        return sum(self.seconds.values(), 0.0)


@dataclass(frozen=True, slots=True)
class CapView:
    """The most that the target can score, in points, and why."""

    reason: Reason
    limit: float


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
    cooldown: CooldownView = CooldownView()
    cooling: bool = False
    """In a saturation cooldown: long prompts go elsewhere."""
    probe_only: bool = False
    """Out of the draw; single requests find out whether it works again."""
    refused_cooldown_at: float | None = None
    last_errors: tuple[LastError, ...] = ()
    kv_capacity: float | None = None
    """Tokens of KV cache that the engine says it has."""
    loras: frozenset[str] = frozenset()
    """Adapters that the engine runs."""
    caps: tuple[CapView, ...] = ()
    """The lowest first."""
    drain: Override | None = None
    """The operator's decision to take it out, while it applies."""
    frozen: bool = False
    """It has work, by its page or by ours, and nothing moves, whatever its state says."""
    stalled: tuple[str, ...] = ()
    """Those of several engines on its page that have work and do not move, by number."""
    read: Signals | None = None
    """The signals as the formula took them, None for a target out of reach."""
    params: ScoreParams = field(default_factory=ScoreParams)
    penalty: float = 0.0
    """Share 0-1 of what errors can cost that saturation takes."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on alerts apply, by severity.

    ``score`` below these points, ``kv_cache`` above these shares 0-1, ``ttft`` above these
    seconds.
    """

    score: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    kv_cache: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    ttft: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


NO_THRESHOLDS = Thresholds()


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
    thresholds: Thresholds = NO_THRESHOLDS
    overloaded: bool = False
    """Whether every eligible target is, or should be, in cooldown: a gateway may shed."""
    pick: PickParams = field(default_factory=PickParams)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All pools by name, in file order; ``version`` grows by one with each publication."""

    version: int
    pools: Mapping[str, PoolView]


EMPTY = Snapshot(0, MappingProxyType({}))
"""What is published before the first judgement."""
