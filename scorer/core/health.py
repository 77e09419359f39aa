"""What is remembered of one target between scrapes.

A :class:`TargetHealth` is fed finished scrapes in order and never looks at a clock.
A good page is applied whole; a failed scrape changes nothing but the counts of
failures, so the last values stay until the target is called unreachable. What the
memory means, the score and the state, is decided in :mod:`scorer.core.judge`.
"""

from collections import deque
from dataclasses import dataclass, field

from scorer.core.deltas import CounterDelta, HistogramDelta, OutcomeDelta
from scorer.core.ewma import TtftEwma
from scorer.core.params import ScoreParams
from scorer.core.samples import EngineSamples, Page, Scrape, ScrapeFailed
from scorer.core.snapshot import ScrapeView, Transition
from scorer.core.vocabulary import Reason, ScrapeFailure, State
from scorer.core.window import OutcomeWindow

FALL = 3
"""Failed scrapes in a row after which a target is unreachable."""
REFUSED = 2
"""Refused connections without a success since, after which a target is unreachable."""
RESTART_TOLERANCE = 2.0
"""Seconds by which a start time may move without meaning a restart: a host's boot
time, from which it is computed, is adjusted by a second now and then."""
KEPT_TRANSITIONS = 20


@dataclass(frozen=True, slots=True)
class TargetId:
    """Who a target is: its address within a pool, and the URL that gateways use."""

    pool: str
    target: str
    url: str


@dataclass(slots=True)
class Ramp:
    """A warm-up: when it began (monotonic seconds) and why."""

    began_at: float
    reason: Reason


@dataclass(slots=True)
class TargetHealth:
    """Memory of one target.

    ``known_at`` is when it was first seen; ``late`` whether the daemon was already
    running then, in which case its score starts at 0 and warms up. ``score`` is the
    damped score of the last judgement, None before the first.
    """

    id: TargetId
    params: ScoreParams
    known_at: float
    late: bool = False

    samples: EngineSamples | None = None
    ttft: TtftEwma = field(default_factory=TtftEwma)
    outcomes: OutcomeWindow = field(default_factory=OutcomeWindow)
    last_scrape: ScrapeView | None = None
    last_good_at: float | None = None
    good_scrapes: int = 0
    picks_seen: int = 0
    scrapes: int = 0
    failures: dict[ScrapeFailure, int] = field(default_factory=dict)
    restarts: int = 0

    score: float | None = None
    judged_at: float | None = None
    ramp: Ramp | None = None
    state: State = State.WARMUP
    reason: Reason = Reason.NOT_SCORED
    since: float = 0.0
    transitions: deque[Transition] = field(default_factory=lambda: deque(maxlen=KEPT_TRANSITIONS))
    transition_counts: dict[tuple[State, State], int] = field(default_factory=dict)

    _failed_in_row: int = 0
    _refused: int = 0
    _ttft_delta: HistogramDelta = field(default_factory=HistogramDelta)
    _outcome_delta: OutcomeDelta = field(default_factory=OutcomeDelta)
    _progress_delta: CounterDelta = field(default_factory=CounterDelta)

    def __post_init__(self) -> None:
        """Start the memory where the target was first seen."""
        self.since = self.known_at
        self.use(self.params)
        if self.late:
            self.score, self.reason = 0.0, Reason.FIRST_SEEN

    def use(self, params: ScoreParams) -> None:
        """Go on with other parameters; everything remembered is kept."""
        self.params = params
        self.outcomes.length = params.errors_window

    def apply(self, scrape: Scrape, *, prior: float | None = None) -> None:
        """Take one finished scrape; ``prior`` is the pool's median TTFT in seconds."""
        self.scrapes += 1
        result = scrape.result
        took = scrape.ended_at - scrape.started_at
        if isinstance(result, ScrapeFailed):
            self.last_scrape = ScrapeView(
                ok=False, at=scrape.ended_at, duration=took,
                reason=result.reason, detail=result.detail,
            )  # fmt: skip
            self._failed(result)
            return
        self.last_scrape = ScrapeView(ok=True, at=scrape.ended_at, duration=took)
        self._succeeded(result, scrape, prior)

    @property
    def unreachable(self) -> Reason | None:
        """Return why the target counts as unreachable, or None when it does not."""
        if self._refused >= REFUSED:
            return Reason.CONNECTION_REFUSED
        return Reason.SCRAPES_FAILED if self._failed_in_row >= FALL else None

    @property
    def asleep(self) -> bool:
        """Whether the engine says that it sleeps."""
        return self.samples is not None and self.samples.asleep is True

    @property
    def idle(self) -> bool:
        """Whether the engine itself says that it has nothing to do."""
        samples = self.samples
        return samples is not None and samples.running.value == 0 and samples.waiting.value == 0

    def start_ramp(self, now: float, reason: Reason) -> None:
        """Begin a warm-up: the score goes to 0 and climbs from there."""
        self.score, self.judged_at = 0.0, now
        self.ramp = Ramp(now, reason)

    def _failed(self, failure: ScrapeFailed) -> None:
        self.failures[failure.reason] = self.failures.get(failure.reason, 0) + 1
        self._failed_in_row += 1
        self._refused += failure.refused

    def _succeeded(self, page: Page, scrape: Scrape, prior: float | None) -> None:
        now = scrape.ended_at
        was_unreachable, was_asleep = self.unreachable, self.asleep
        restarted = self._restarted(page.samples)
        self._failed_in_row = self._refused = 0
        self.good_scrapes += 1
        self.last_good_at, self.picks_seen = now, scrape.picks_at_start
        if page.samples is None:
            self.samples = None
        else:
            self._take(page.samples, now, prior, restarted=restarted)
        if restarted:
            self.restarts += 1
            self.start_ramp(now, Reason.RESTARTED)
        elif was_unreachable:
            self.start_ramp(now, Reason.RECOVERED)
        elif was_asleep and not self.asleep:
            self.start_ramp(now, Reason.WOKE_UP)
        elif self.late and self.good_scrapes == 1:
            self.start_ramp(now, Reason.FIRST_SEEN)

    def _take(
        self, samples: EngineSamples, now: float, prior: float | None, *, restarted: bool
    ) -> None:
        self.samples = samples
        if restarted:
            self.ttft = TtftEwma()
        count, mean = self._ttft_delta.advance(samples.ttft, restarted=restarted)
        if count > 0:
            clip = 2.0 * self.params.ttft.ceiling
            self.ttft.observe(mean, count, now, clip=clip, prior=prior)
        failed, succeeded = self._outcome_delta.advance(samples.outcomes, restarted=restarted)
        self.outcomes.add(failed, succeeded, now)
        self._progress_delta.advance(samples.progress, restarted=restarted)

    def _restarted(self, samples: EngineSamples | None) -> bool:
        """Whether the engine is a new process: its start time moved, or all progress went back."""
        if samples is None or self.samples is None:
            return False
        before, after = self.samples.start_time, samples.start_time
        if before is not None and after is not None and abs(after - before) > RESTART_TOLERANCE:
            return True
        return self._progress_delta.went_back(samples.progress)
