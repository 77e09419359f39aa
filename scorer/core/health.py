"""What is remembered of one target between scrapes.

A :class:`TargetHealth` is fed finished scrapes in order and never looks at a clock.
A good page is applied whole; a failed scrape changes nothing but the counts of
failures, so the last values stay until the target is called unreachable. What the
memory means, the score and the state, is decided in :mod:`scorer.core.judge`.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from scorer.core.contact import FALL, Contact
from scorer.core.cooldown import Cooldown, CooldownReason
from scorer.core.deltas import CounterDelta, HistogramDelta, OutcomeDelta
from scorer.core.failing import Failing
from scorer.core.lost import SignalWatch
from scorer.core.outcome import LastError, OutcomeClass
from scorer.core.overrides import Override
from scorer.core.params import ScoreParams
from scorer.core.progress import PartsWatch, ProgressWatch
from scorer.core.samples import EngineSamples, Page, Scrape, ScrapeFailed
from scorer.core.snapshot import ScrapeView, Transition
from scorer.core.sourced import Source, SourcedOutcomes, SourcedTtft
from scorer.core.vocabulary import Reason, ScrapeFailure, State

RESTART_TOLERANCE = 2.0
"""Seconds by which a start time may move without meaning a restart: a host's boot
time, from which it is computed, is adjusted by a second now and then."""
KEPT_TRANSITIONS = 20
KEPT_ERRORS = 20
SCRAPE = "scrape"
"""Source of an error that was met while scraping."""
LIFE_AT_LEAST, LIFE_AT_MOST, LIFE_GAPS = 10.0, 120.0, 3.0
"""Feedback is a sign of life for this many seconds, or this many mean gaps between outcomes."""
BELIEVED_FOR = 60.0
"""Seconds for which a score that was recalled is believed without a scrape."""
LOADING_FOR = 10.0
"""Seconds after which a target that said it was loading is asked again."""


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


@dataclass(frozen=True, slots=True)
class Reported:
    """What an engine said of itself with an answer: requests waiting, KV cache 0-1, when."""

    waiting: float | None
    kv_cache: float | None
    at: float


@dataclass(slots=True)
class TargetHealth:
    """Memory of one target.

    ``known_at`` is when it was first seen; ``late`` whether the daemon was already
    running then, in which case its score starts at 0 and warms up. ``score`` is the
    damped score of the last judgement, None before the first. ``drain`` is an operator's
    decision to take it out; ``leaving`` is whether discovery says that it goes away.
    ``vouched`` is whether picks could return it before the daemon was restarted, None
    when nothing is known of that time; its score and state are those of that time until
    a scrape tells more. ``patience`` is the seconds without the end of any scrape
    after which it is unreachable.
    """

    id: TargetId
    params: ScoreParams
    known_at: float
    late: bool = False

    samples: EngineSamples | None = None
    reported: Reported | None = None
    ttft: SourcedTtft = field(default_factory=SourcedTtft)
    outcomes: SourcedOutcomes = field(default_factory=SourcedOutcomes)
    cooldown: Cooldown = field(default_factory=Cooldown)
    failing: Failing = field(default_factory=Failing)
    contact: Contact = field(default_factory=Contact)
    progress: ProgressWatch = field(default_factory=ProgressWatch)
    watch: SignalWatch = field(default_factory=SignalWatch)
    last_scrape: ScrapeView | None = None
    last_good_at: float | None = None
    good_scrapes: int = 0
    picks_seen: int = 0
    scrapes: int = 0
    failures: dict[ScrapeFailure, int] = field(default_factory=dict)
    restarts: int = 0
    parts: PartsWatch = field(default_factory=PartsWatch)
    last_errors: deque[LastError] = field(default_factory=lambda: deque(maxlen=KEPT_ERRORS))
    loading_at: float | None = None
    outcome_at: float | None = None
    outcome_gap: float = 0.0
    success_at: float | None = None
    drain: Override | None = None
    leaving: bool = False
    vouched: bool | None = None
    patience: float = math.inf

    score: float | None = None
    judged_at: float | None = None
    ramp: Ramp | None = None
    state: State = State.WARMUP
    reason: Reason = Reason.NOT_SCORED
    since: float = 0.0
    transitions: deque[Transition] = field(default_factory=lambda: deque(maxlen=KEPT_TRANSITIONS))
    transition_counts: dict[tuple[State, State], int] = field(default_factory=dict)

    _falling_since: float | None = None
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

    def apply(
        self, scrape: Scrape, *, prior: float | None = None, draw: float = 0.5, allowed: bool = True
    ) -> None:
        """Take one finished scrape; ``prior`` is the pool's median TTFT in seconds.

        ``draw`` in [0, 1) and ``allowed`` are those of :meth:`saturate`: an engine that
        counts refusals under load says with them that it is saturated.
        """
        self.scrapes += 1
        result = scrape.result
        took = scrape.ended_at - scrape.started_at
        if isinstance(result, ScrapeFailed):
            self.last_scrape = ScrapeView(
                ok=False, at=scrape.ended_at, duration=took,
                reason=result.reason, detail=result.detail,
            )  # fmt: skip
            self._failed(result, scrape.ended_at)
            return
        self.last_scrape = ScrapeView(ok=True, at=scrape.ended_at, duration=took)
        refused = self._succeeded(result, scrape, prior)
        if refused > 0:
            self.saturate(scrape.ended_at, draw, allowed=allowed)

    def saturate(
        self,
        now: float,
        draw: float,
        *,
        retry_after: float | None = None,
        picked_at: float | None = None,
        allowed: bool = True,
    ) -> None:
        """Note that the engine is saturated: a penalty at once, and a cooldown if ``allowed``.

        ``draw`` in [0, 1) spreads its length; ``retry_after`` (seconds) replaces it.
        """
        base = retry_after or self.params.cooldown_length(draw)
        self.cooldown.enter(
            now, CooldownReason.ENGINE_SATURATED, base, picked_at=picked_at, allowed=allowed
        )

    @property
    def unreachable(self) -> Reason | None:
        """Return why scrapes do not reach the target, or None when they do."""
        return self.contact.lost(self.patience)

    def alive_by_feedback(self, now: float) -> bool:
        """Return whether feedback shows life that scrapes do not see.

        After a refused connection only a success since then counts.
        """
        if self.success_at is None or self.contact.refused_since(self.success_at):
            return False
        window = min(LIFE_AT_MOST, max(LIFE_AT_LEAST, LIFE_GAPS * self.outcome_gap))
        return now - self.success_at <= window

    def drained(self, now: float) -> Reason | None:
        """Return why the target is being taken out, None when it is not."""
        if self.drain is not None and self.drain.active(now):
            return Reason.MANUAL
        return Reason.DISCOVERY if self.leaving else None

    def awaited(self, now: float) -> bool:
        """Return whether what it was before a restart holds: no scrape has shown it since."""
        unknown = self.good_scrapes == 0 and self.unreachable is None
        fresh = now - (self.judged_at or 0.0) <= BELIEVED_FOR
        return self.vouched is not None and unknown and fresh

    def eligible_before(self, now: float) -> bool:
        """Return whether picks may return it for what it was before a restart.

        One failed scrape ends that: it may have died meanwhile.
        """
        told = self.scrapes - self.failures.get(ScrapeFailure.LOCAL, 0)
        return bool(self.vouched) and told == 0 and self.awaited(now)

    def doubt(self, now: float) -> None:
        """Stop believing a score from before a restart that no scrape bore out."""
        if self.vouched is not None and self.good_scrapes == 0 and not self.awaited(now):
            self.score = self.vouched = self.ramp = None

    @property
    def asleep(self) -> bool:
        """Whether the engine says that it sleeps."""
        return self.samples is not None and self.samples.asleep is True

    @property
    def idle(self) -> bool:
        """Whether the engine itself says that it has nothing to do."""
        samples = self.samples
        return samples is not None and samples.running.value == 0 and samples.waiting.value == 0

    def engine_draining(self) -> bool:
        """Whether it refuses what is new while it finishes what it has."""
        refuses = self.failing.in_row >= FALL and self._falling_since is not None
        return refuses and not self.idle

    def loading(self, now: float) -> bool:
        """Whether the engine said lately that its model is not served yet."""
        return self.loading_at is not None and now - self.loading_at < LOADING_FOR

    def start_ramp(self, now: float, reason: Reason) -> None:
        """Begin a warm-up: the score goes to 0 and climbs from there."""
        self.score, self.judged_at = 0.0, now
        self.ramp = Ramp(now, reason)

    def observe(
        self, source: Source, mean: float, count: float, now: float, prior: float | None
    ) -> None:
        """Take ``count`` observations of ``mean`` seconds to first token from ``source``."""
        clip = 2.0 * self.params.ttft.ceiling
        self.ttft.of(source).observe(mean, count, now, clip=clip, prior=prior)

    def serves(self, now: float) -> None:
        """Note that the engine serves: what it was loading is loaded."""
        if self.loading_at is not None:
            self.loading_at = None
            self.start_ramp(now, Reason.LOADED)

    def erred(self, kind: OutcomeClass, reason: str, at: float) -> None:
        """Remember an outcome, told by feedback, that speaks against the target."""
        self.last_errors.append(LastError(at, Source.FEEDBACK, kind, reason))

    def counted(self, source: Source, kind: OutcomeClass, count: float, at: float) -> None:
        """Remember what a counter of ``source`` told between two scrapes; 0 is nothing."""
        if count > 0:
            self.last_errors.append(LastError(at, source, kind, "counted", times=count))

    def _failed(self, failure: ScrapeFailed, now: float) -> None:
        self._remember(failure, now)
        self.failures[failure.reason] = self.failures.get(failure.reason, 0) + 1
        self.contact.failed(failure, now)

    def _remember(self, failure: ScrapeFailed, now: float) -> None:
        """Remember a failed scrape; one like the error before it is counted with that."""
        error = LastError(now, SCRAPE, "scrape_failed", failure.reason, failure.detail)
        last = self.last_errors[-1] if self.last_errors else None
        if (
            last
            and self.contact.failed_in_row
            and (last.source, last.reason) == (SCRAPE, error.reason)
        ):
            error = error._replace(times=last.times + 1.0)
            self.last_errors.pop()
        self.last_errors.append(error)

    def _succeeded(self, page: Page, scrape: Scrape, prior: float | None) -> float:
        """Apply a good page; return the refusals under load that it tells."""
        now = scrape.ended_at
        was_out = self.unreachable or (self.good_scrapes == 0 and self.state is State.UNREACHABLE)
        was_out = was_out and not self.alive_by_feedback(now)
        was_asleep = self.asleep
        restarted = self._restarted(page.samples)
        if restarted or self.unreachable is Reason.CONNECTION_REFUSED:
            self.watch.renew()
        self.watch.page(page.samples, now)
        self.contact.made()
        self.good_scrapes += 1
        self.last_good_at, self.picks_seen = now, scrape.picks_at_start
        refused = 0.0
        if page.samples is None:
            self.samples = None
        else:
            refused = self._take(page.samples, now, prior, restarted=restarted)
        if restarted:
            self._renew(now)
        elif was_out:
            self.start_ramp(now, Reason.RECOVERED)
        elif was_asleep and not self.asleep:
            self.start_ramp(now, Reason.WOKE_UP)
        elif self.late and self.good_scrapes == 1:
            self.start_ramp(now, Reason.FIRST_SEEN)
        return refused

    def _renew(self, now: float) -> None:
        """Start over with a new process of the engine."""
        self.restarts += 1
        self.failing.reset()
        self.loading_at = self._falling_since = None
        self.start_ramp(now, Reason.RESTARTED)

    def _take(
        self, samples: EngineSamples, now: float, prior: float | None, *, restarted: bool
    ) -> float:
        before, self.samples = self.samples, samples
        self.parts.page(now, samples.parts)
        if restarted:
            self.ttft.forget()
        count, mean = self._ttft_delta.advance(samples.ttft, restarted=restarted)
        if count > 0:
            self.observe(Source.ENGINE, mean, count, now, prior)
        failed, succeeded, refused = self._outcome_delta.advance(
            samples.outcomes, restarted=restarted
        )
        self.outcomes.of(Source.ENGINE).add(failed, succeeded, now)
        self.counted(Source.ENGINE, OutcomeClass.ENGINE_FAULT, failed, now)
        self.counted(Source.ENGINE, OutcomeClass.ENGINE_SATURATED, refused, now)
        moved = self._progress_delta.advance(samples.progress, restarted=restarted) > 0
        busy = (samples.running.value or 0.0) > 0.0 or (samples.waiting.value or 0.0) > 0.0
        if moved or restarted or busy or self.idle or not samples.progress:
            # Any other page does not tell whether there is work: neither still nor alive.
            working = bool(samples.progress) and busy
            self.progress.page(now, moved=moved or restarted, working=working)
        self._watch_fall(before, samples, now)
        if self.loading_at is not None and (moved or (samples.running.value or 0) > 0):
            self.serves(now)
        return refused

    def _watch_fall(self, before: EngineSamples | None, after: EngineSamples, now: float) -> None:
        """Note since when the running requests only fall, with nothing waiting."""
        was = before.running.value if before else None
        running = after.running.value
        if was is None or running is None or running > was or (after.waiting.value or 0.0) > 0.0:
            self._falling_since = None
        elif running < was and self._falling_since is None:
            self._falling_since = now

    def _restarted(self, samples: EngineSamples | None) -> bool:
        """Whether the engine is a new process: its start time moved, or all progress went back."""
        if samples is None or self.samples is None:
            return False
        before, after = self.samples.start_time, samples.start_time
        if before is not None and after is not None and abs(after - before) > RESTART_TOLERANCE:
            return True
        return self._progress_delta.went_back(samples.progress)
