"""One tick of a pool: collect what was scraped, judge, publish.

Runs on its own schedule, so scores move on even while every scrape hangs. What it
touches is injected: the pool, the time, the in-flight counts and where to publish.
The only I/O is one log line per change, after the pool's lock is released.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import structlog

from scorer.core.gateway import GatewayReading, hear
from scorer.core.health import TargetHealth
from scorer.core.judge import Judgement, judge_pool, pool_ttft
from scorer.core.learn import Circumstances, learn
from scorer.core.outcome import Outcome
from scorer.core.outstanding import Outstanding
from scorer.core.prefill import work
from scorer.core.samples import Page, Scrape
from scorer.core.snapshot import PoolView, TargetView
from scorer.core.view import pool_view, target_view
from scorer.core.vocabulary import State
from scorer.inflight import InFlight
from scorer.pauses import Pauses
from scorer.registry import Pool

logger = structlog.stdlib.get_logger(__name__)

BAD_STATES = (State.UNREACHABLE, State.DEGRADED)


class Cycle:
    """The tick of one pool; any thread may call it, one at a time gets through."""

    def __init__(
        self,
        pool: Pool,
        inflight: InFlight,
        publish: Callable[[PoolView], None],
        draw: Callable[[], float] = random.random,
        pauses: Pauses | None = None,
    ) -> None:
        """Work on ``pool`` and hand each view to ``publish``; ``draw`` gives floats in [0, 1).

        With ``pauses`` others get their turn in the course of a tick.
        """
        self._pool = pool
        self._inflight = inflight
        self._publish = publish
        self._draw = draw
        self._pauses = pauses
        self._between: Callable[[], None] = pauses or _nothing
        self._before: Mapping[str, TargetView] = {}
        self._latest = float("-inf")

    def tick(self, now: float) -> PoolView:
        """Apply what came in, judge every target at ``now``, publish the view.

        Published under the lock, so that a reload in between cannot be undone by a
        view that was computed before it. Whoever waited for the lock judges at the time
        of the one before at least: what has ended by then does not come back.
        """
        pool = self._pool
        if self._pauses is not None:
            self._pauses.begin()
        with pool.lock:
            now = self._latest = max(now, self._latest)
            self._collect(now)
            under_way = partial(self._outstanding, now=now)
            targets = list(pool.targets.values())
            judgements = judge_pool(targets, now, under_way, self._between)
            view = pool_view(pool.facts, list(self._views(judgements, now)), now)
            self._inflight.prepare(view, now)
            self._publish(view)
            before, self._before = self._before, {each.target: each for each in view.targets}
        for target in view.targets:
            _log_changes(before.get(target.target), target)
        return view

    def _views(self, judgements: Iterable[Judgement], now: float) -> Iterator[TargetView]:
        for each in judgements:
            yield target_view(each, now)
            self._between()

    def _collect(self, now: float) -> None:
        """Apply everything in the inbox; what is about targets that left is dropped.

        At most half of a pool may be in cooldown, counted with the one that would enter.
        """
        pool = self._pool
        targets = list(pool.targets.values())
        prior, most = pool_ttft(targets, now), len(targets) // 2
        cooling = sum(each.cooldown.active(now) for each in targets)
        while pool.inbox:
            health, news = pool.inbox.popleft()
            if not pool.owns(health):
                continue
            cooled = health.cooldown.active(now)
            allowed = cooled or cooling < most
            if isinstance(news, Scrape):
                restarts = health.restarts
                health.apply(news, prior=prior, draw=self._draw(), allowed=allowed)
                self._reconcile(health, news, now, restarted=health.restarts > restarts)
            elif isinstance(news, GatewayReading):
                hear(health, news, prior)
            else:
                scale = self._scale(health, news)
                learn(health, news, Circumstances(prior, self._draw(), allowed, scale))
            cooling += health.cooldown.active(now) - cooled
            self._between()

    def _reconcile(
        self, health: TargetHealth, scrape: Scrape, now: float, *, restarted: bool
    ) -> None:
        """Close the leases that a good page says its engine does not have."""
        pool, target = health.id.pool, health.id.target
        if restarted:
            self._inflight.restarted(pool, target, scrape.started_at, now)
        if isinstance(scrape.result, Page) and (samples := scrape.result.samples):
            running, waiting = samples.running.value, samples.waiting.value
            self._inflight.reconcile(
                pool, target, running, waiting, scrape.started_at, now, scrape.mark
            )

    def _scale(self, health: TargetHealth, outcome: Outcome) -> float:
        """Return what takes the length of its prompt out of an outcome's TTFT."""
        speed = self._inflight.speed(health.id.pool, health.id.target)
        if outcome.prompt_tokens is None or speed is None:
            return 1.0
        ceiling = health.params.ttft.ceiling
        return ceiling / (ceiling + work(outcome.prompt_tokens) / speed)

    def _outstanding(self, health: TargetHealth, now: float) -> Outstanding:
        pool, target = health.id.pool, health.id.target
        still = health.progress.still or health.parts.still
        return self._inflight.outstanding(pool, target, health.picks_seen, now, still=still)


def _nothing() -> None:
    """Be no pause."""


def _log_changes(before: TargetView | None, target: TargetView) -> None:
    """Write one line if the state changed, and one per signal that was lost or found."""
    state = target.state
    if before is not None and before.state is not state:
        log = logger.warning if state in BAD_STATES else logger.info
        log(f"Target became {state}", **_facts(target))
    _log_stalled(() if before is None else before.stalled, target)
    for name, reason in _signal_changes(before, target):
        if reason is None:
            logger.info(
                "Signal became readable", pool=target.pool, target=target.target, signal=name
            )
        else:
            logger.warning(
                "Signal became unreadable",
                pool=target.pool, target=target.target, signal=name, reason=reason,
            )  # fmt: skip


def _log_stalled(before: tuple[str, ...], target: TargetView) -> None:
    """Write one line if other engines of a target stand still than did before."""
    if target.stalled != before:
        log = logger.warning if target.stalled else logger.info
        what = "Some engines stand still" if target.stalled else "All engines move again"
        log(what, pool=target.pool, target=target.target, engines=", ".join(target.stalled))


def _facts(target: TargetView) -> dict[str, object]:
    """Return what the log line of a state change says."""
    facts: dict[str, object] = {
        "pool": target.pool,
        "target": target.target,
        "state": str(target.state),
        "reason": str(target.state_reason),
    }
    if target.score is not None:
        facts["score"] = round(target.score, 1)
    if target.state is State.UNREACHABLE and target.last_scrape is not None:
        facts["scrape_failure"] = str(target.last_scrape.reason)
        facts["detail"] = target.last_scrape.detail
    return facts


def _signal_changes(
    before: TargetView | None, target: TargetView
) -> Iterator[tuple[str, str | None]]:
    """Yield (signal, reason) for each signal that changed between readable and not.

    The reason is None for one that became readable. The first page of an engine
    counts as a change from readable: what it lacks is said once.
    """
    if target.last_good_scrape_at is None:
        return
    first = before is None or before.last_good_scrape_at is None
    for name, signal in target.signals.items():
        reason = None if signal.unavailable is None else str(signal.unavailable)
        known = None if first or before is None else before.signals[name].unavailable
        if (reason is None) != (known is None):
            yield str(name), reason
