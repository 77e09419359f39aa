"""One tick of a pool: collect what was scraped, judge, publish.

Runs on its own schedule, so scores move on even while every scrape hangs. What it
touches is injected: the pool, the time, the in-flight counts and where to publish.
The only I/O is one log line per change, after the pool's lock is released.
"""

from collections.abc import Callable, Iterator, Mapping

import structlog

from scorer.core.health import TargetHealth
from scorer.core.judge import judge_pool, pool_ttft
from scorer.core.snapshot import PoolView, TargetView
from scorer.core.view import pool_view, target_view
from scorer.core.vocabulary import State
from scorer.inflight import InFlight
from scorer.registry import Pool

logger = structlog.stdlib.get_logger(__name__)

BAD_STATES = (State.UNREACHABLE, State.DEGRADED)


class Cycle:
    """The tick of one pool; any thread may call it, one at a time gets through."""

    def __init__(self, pool: Pool, inflight: InFlight, publish: Callable[[PoolView], None]) -> None:
        """Work on ``pool`` and hand each view to ``publish``."""
        self._pool = pool
        self._inflight = inflight
        self._publish = publish
        self._before: Mapping[str, TargetView] = {}

    def tick(self, now: float) -> PoolView:
        """Apply the scrapes that came in, judge every target at ``now``, publish the view.

        Published under the lock, so that a reload in between cannot be undone by a
        view that was computed before it.
        """
        pool = self._pool
        with pool.lock:
            _collect(pool, now)
            judgements = judge_pool(list(pool.targets.values()), now, self._outstanding)
            view = pool_view(pool.facts, [target_view(each) for each in judgements], now)
            self._publish(view)
            before, self._before = self._before, {each.target: each for each in view.targets}
        for target in view.targets:
            _log_changes(before.get(target.target), target)
        return view

    def _outstanding(self, health: TargetHealth) -> int:
        return self._inflight.count(health.id.pool, health.id.target) - health.picks_seen


def _collect(pool: Pool, now: float) -> None:
    """Apply every scrape in the inbox; those of targets that left are dropped."""
    prior = pool_ttft(list(pool.targets.values()), now)
    while pool.inbox:
        health, scrape = pool.inbox.popleft()
        if pool.owns(health):
            health.apply(scrape, prior=prior)


def _log_changes(before: TargetView | None, target: TargetView) -> None:
    """Write one line if the state changed, and one per signal that was lost or found."""
    state = target.state
    if before is not None and before.state is not state:
        log = logger.warning if state in BAD_STATES else logger.info
        log(f"Target became {state}", **_facts(target))
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
