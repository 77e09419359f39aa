"""From an attempt to its outcome: what the classifier is told, and what is learned.

Only a success has a time to first token, and it is told once: by the event of the first
token, or at the end. What the classifier cannot tell is decided by the target's own last
numbers: a refusal by a target that is under pressure is saturation.
"""

from collections.abc import Callable

from scorer.clocks import Clocks
from scorer.core.classify import Classifier, Context, Verdict, facts_of
from scorer.core.leases import Lease
from scorer.core.outcome import Outcome, OutcomeClass
from scorer.core.params import ScoreParams
from scorer.core.retry_after import asked_pause
from scorer.core.rules import Fact
from scorer.core.snapshot import Snapshot
from scorer.core.vocabulary import SignalName
from scorer.feedback.item import Attempt, Item
from scorer.feedback.places import Place
from scorer.feedback.usual import UsualEnd
from scorer.inflight import LeaseRef

REFUSED_FROM = 400
"""Lowest status that may be a refusal under pressure."""

STATUS_UNKNOWN = Verdict(OutcomeClass.UNKNOWN, "no_status", 1.0)
FIRST_TOKEN_SEEN = Verdict(OutcomeClass.SUCCESS, "first_token_seen", 1.0)


class Judge:
    """Turns attempts into outcomes, with the rules of one configuration."""

    def __init__(
        self, classify: Classifier, snapshot: Callable[[], Snapshot], clocks: Clocks
    ) -> None:
        """Classify with ``classify``; ``snapshot`` returns the published view."""
        self._classify = classify
        self._snapshot = snapshot
        self._clocks = clocks

    def last(self, item: Item, place: Place, lease: LeaseRef | None, now: float) -> Outcome:
        """Return the outcome of an item's last attempt, which all of its fields are about."""
        attempt, facts = item.attempts[-1], item.facts
        told_before = lease is not None and lease.first_token_at is not None
        if told_before:
            facts |= Fact.FIRST_TOKEN
        verdict = self._verdict(item, attempt, place, facts)
        succeeded = verdict.outcome is OutcomeClass.SUCCESS
        return Outcome(
            verdict.outcome,
            verdict.reason,
            now,
            picked_at=lease.opened_at if lease else None,
            weight=verdict.weight,
            ttft=item.ttft if succeeded and not told_before else None,
            prompt_tokens=item.prompt_tokens or (lease.tokens if lease else None),
            duration=_known_wait(attempt, facts),
            had_first_token=bool(facts & Fact.FIRST_TOKEN),
            retry_after=self._pause(item),
            waiting=item.waiting,
            kv_cache=item.kv_cache,
        )

    def good_end(
        self, end: UsualEnd, lease: Lease, params: ScoreParams, now: float
    ) -> Outcome | None:
        """Return what :meth:`last` does for a usual report, None when it is no success."""
        told_before = lease.told_at is not None
        facts = end.facts | Fact.FIRST_TOKEN if told_before else end.facts
        waited = end.waited
        verdict = self._classify.plain(end.status, facts_of(facts, waited, params.ttft.ceiling))
        if verdict.outcome is not OutcomeClass.SUCCESS:
            return None
        known = facts & Fact.FIRST_TOKEN
        return Outcome(
            verdict.outcome,
            verdict.reason,
            now,
            lease.opened_at,
            verdict.weight,
            None if told_before else end.ttft,
            end.prompt_tokens or lease.tokens,
            waited if known else None,
            known > 0,
        )

    def earlier(
        self, item: Item, attempt: Attempt, place: Place, lease: LeaseRef | None, now: float
    ) -> Outcome:
        """Return the outcome of an attempt that was repeated: only its status is known."""
        bare = Item(item.pick_id, item.pool, item.event, (attempt,), Fact.UPSTREAM)
        verdict = self._verdict(bare, attempt, place, bare.facts)
        return Outcome(
            verdict.outcome,
            verdict.reason,
            now,
            picked_at=lease.opened_at if lease else None,
            weight=verdict.weight,
            prompt_tokens=item.prompt_tokens or (lease.tokens if lease else None),
            duration=attempt.waited,
        )

    def _pause(self, item: Item) -> float | None:
        return asked_pause(item.headers, self._clocks.wall()) if item.headers else None

    def _verdict(self, item: Item, attempt: Attempt, place: Place, facts: int) -> Verdict:
        status, params = attempt.status, place.pool.params
        if status is None:
            if not (facts & Fact.STREAM_ERROR or item.body or item.termination.strip("-")):
                return FIRST_TOKEN_SEEN if facts & Fact.FIRST_TOKEN else STATUS_UNKNOWN
            status = 200
        context = Context(facts, item.termination, attempt.waited, params.ttft.ceiling)
        verdict = self._classify(status, item.headers, item.body, context)
        if (
            verdict.outcome is OutcomeClass.UNKNOWN
            and status >= REFUSED_FROM
            and self._under_pressure(item, place)
        ):
            reason = f"{verdict.reason}_under_pressure"
            return Verdict(OutcomeClass.ENGINE_SATURATED, reason, verdict.weight)
        return verdict

    def _under_pressure(self, item: Item, place: Place) -> bool:
        """Whether requests wait or the cache is full: by the answer, or by the last scrape."""
        knee = place.pool.params.kv_cache.knee
        if _presses(item.waiting, item.kv_cache, knee):
            return True
        view = self._snapshot().pools.get(place.health.id.pool)
        for target in view.targets if view else ():
            if target.target == place.target:
                signals = target.signals
                queue, cache = signals[SignalName.QUEUE], signals[SignalName.KV_CACHE]
                return _presses(queue.value, cache.value, knee)
        return False


def _presses(waiting: float | None, kv_cache: float | None, knee: float) -> bool:
    return (waiting or 0.0) > 0 or (kv_cache or 0.0) >= knee


def _known_wait(attempt: Attempt, facts: int) -> float | None:
    """Return how long the attempt took where that bounds the time to a first token.

    Nobody waited for a target that was not asked, and a 2xx that is not known to have
    carried no token may have carried many.
    """
    if facts & Fact.NO_UPSTREAM:
        return None
    answered = attempt.status is not None and 200 <= attempt.status < 300
    if answered and not facts & (Fact.FIRST_TOKEN | Fact.NO_TOKEN):
        return None
    return attempt.waited
