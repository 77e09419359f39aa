"""Feedback: outcomes of requests, told by gateways, for the targets that served them.

An item is checked, its targets found, its outcome classified and left in the inbox of the
target's pool, where the next judgement takes it; its lease is released at once. All of it
runs on the event loop. Nothing that is sent creates a target, a pool or a series, and
what waits to be applied is bounded.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from scorer.clocks import Clocks
from scorer.config.feedback import FeedbackConfig
from scorer.core.classify import Classifier
from scorer.core.outcome import Outcome, OutcomeClass
from scorer.feedback.fields import ItemError
from scorer.feedback.item import Event, Item, read_item
from scorer.feedback.judging import REFUSED_FROM, Judge
from scorer.feedback.places import Place, Places, Try, canonical
from scorer.feedback.stats import FeedbackStats, Rejection
from scorer.feedback.trust import Trust
from scorer.feedback.usual import UsualEnd, usual_end, usual_record
from scorer.inflight import InFlight, LeaseRef
from scorer.registry import Registry

__all__ = ["Feedback", "Refused", "Taken", "Told"]

MOST_WAITING = 100_000
"""Outcomes and scrapes that may wait in a pool's inbox; beyond, feedback is refused."""
REMEMBERED = 8192
"""Picks whose end is remembered, so that a repeated report counts once."""
SHOWN = 60
AT_FAULT = (OutcomeClass.ENGINE_FAULT, OutcomeClass.ENGINE_SATURATED)


class Told(NamedTuple):
    """One outcome as it was taken: whose, its class, and the rule that decided."""

    target: str
    outcome: OutcomeClass
    reason: str


class Taken(NamedTuple):
    """An accepted item; ``told`` has one outcome per attempt and pool, none for an orphan.

    ``skipped`` says which of its attempts went to nobody that is known, "" for none.
    """

    told: tuple[Told, ...] = ()
    skipped: str = ""


class Refused(NamedTuple):
    """An item that was not accepted: why, and in words."""

    reason: Rejection
    message: str


class Feedback:
    """Takes feedback items for the targets of a registry."""

    def __init__(self, registry: Registry, inflight: InFlight, clocks: Clocks) -> None:
        """Deliver to the pools of ``registry`` and release leases of ``inflight``."""
        self.stats = FeedbackStats()
        self._registry = registry
        self._inflight = inflight
        self._clocks = clocks
        self._places = Places(registry, inflight)
        self._ended: OrderedDict[str, str] = OrderedDict()
        self.use(FeedbackConfig())

    def use(self, config: FeedbackConfig) -> None:
        """Take the rules and the token file of a configuration."""
        classify = Classifier(config.own_rules())
        self._judge = Judge(classify, lambda: self._registry.snapshot, self._clocks)
        self.trust = Trust(config.token_file, self._clocks.monotonic)

    def take(self, raw: object, *, dry_run: bool = False, logged: bool = False) -> Taken | Refused:
        """Apply one decoded item; ``dry_run`` classifies it and changes nothing.

        ``logged``: the item is a proxy's log record, whose targets are those it asked.
        """
        if not dry_run:
            end = usual_record(raw) if logged else usual_end(raw)
            if end and (done := self._usual(end)):
                return done
        taken = self._take(raw, dry_run=dry_run, logged=logged)
        if isinstance(taken, Rejection):
            reason, taken = taken, Taken()
        elif isinstance(taken, Refused):
            reason = taken.reason
        elif taken.skipped:
            reason = Rejection.UNKNOWN_TARGET
        else:
            return taken
        if not dry_run:
            self.stats.reject(reason)
        return taken

    def _usual(self, end: UsualEnd) -> Taken | None:
        """Apply a usual report, as the general way would; None for one that it must take."""
        lease = self._inflight.lease_of(end.pick_id)
        if lease is None:
            return None
        load = lease.load
        name, pool_name = load.target, load.pool
        pool = self._registry.pools.get(pool_name)
        health = pool.targets.get(name) if pool else None
        if (
            pool is None
            or health is None
            or (end.target is not None and end.target != name)
            or (end.pool is not None and end.pool != pool_name)
            or len(pool.inbox) >= MOST_WAITING
        ):
            return None
        now = self._clocks.monotonic()
        outcome = self._judge.good_end(end, lease, pool.params, now)
        if outcome is None:
            return None
        pool.inbox.append((health, outcome))
        self.stats.count(pool_name, name, outcome.outcome)
        self._end(end.pick_id, name, now, fault=False, ttft=outcome.ttft)
        return Taken((Told(name, outcome.outcome, outcome.reason),))

    def _take(self, raw: object, *, dry_run: bool, logged: bool) -> Taken | Refused | Rejection:
        """Return what came of an item; a bare reason for one that there is nothing to do for."""
        try:
            item = read_item(raw, logged=logged)
        except ItemError as error:
            return Refused(Rejection.MALFORMED, str(error))
        if item.pool and not self._places.knows_pool(item.pool):
            message = f"pool: must be a configured pool, got {item.pool[:SHOWN]}"
            return Refused(Rejection.UNKNOWN_POOL, message)
        lease = self._inflight.find(item.pick_id) if item.pick_id else None
        if lease is None and self._is_repeated(item):
            return Rejection.DUPLICATE
        tries = self._tries(item, lease)
        if not isinstance(tries, list):
            return tries
        now = self._clocks.monotonic()
        if item.event is Event.FIRST_TOKEN:
            return self._first_token(item, tries[-1], lease, now, dry_run=dry_run)
        return self._done(item, tries, lease, now, dry_run=dry_run)

    def _tries(self, item: Item, lease: LeaseRef | None) -> list[Try] | Refused | Rejection:
        """Return where each attempt went, or why the item cannot be applied.

        One known target is enough: the other attempts have no place. A first token is about
        the last attempt only.
        """
        tries, known, strangers = [], False, []
        for attempt in item.attempts[-1:] if item.event is Event.FIRST_TOKEN else item.attempts:
            name, found = self._places.find(item, attempt, lease)
            if not found.places:
                strangers += [name] if name else []
            elif max([len(place.pool.inbox) for place in found.places]) >= MOST_WAITING:
                message = "too much feedback is waiting to be applied"
                return Refused(Rejection.OVERFLOW, message)
            else:
                known = True
            tries.append(found)
        if known:
            return tries
        if strangers:
            return Refused(Rejection.UNKNOWN_TARGET, _unknown(strangers))
        return Rejection.ORPHAN

    def _is_repeated(self, item: Item) -> bool:
        """Whether the end of this pick at this target was told before."""
        ended = self._ended.get(item.pick_id) if item.pick_id else None
        if ended is None:
            return False
        target = item.attempts[-1].target
        return target in (None, ended) or canonical(target) == canonical(ended)

    def _first_token(
        self, item: Item, found: Try, lease: LeaseRef | None, now: float, *, dry_run: bool
    ) -> Taken:
        """Note a first token: it teaches the time to it, and is no outcome by itself."""
        told = Taken(
            tuple(Told(place.target, OutcomeClass.SUCCESS, item.event) for place in found.places)
        )
        if dry_run:
            return told
        if lease is not None:
            self._inflight.first_token(item.pick_id, now)
        status = found.attempt.status
        known = lease is not None and lease.first_token_at is not None
        if item.ttft is None or known or (status is not None and status >= REFUSED_FROM):
            return told
        outcome = Outcome(
            OutcomeClass.SUCCESS,
            item.event,
            now,
            picked_at=lease.opened_at if lease else None,
            weight=0.0,
            ttft=item.ttft,
            prompt_tokens=item.prompt_tokens or (lease.tokens if lease else None),
            had_first_token=True,
        )
        for place in found.places:
            place.pool.inbox.append((place.health, outcome))
        return told

    def _done(
        self,
        item: Item,
        tries: Sequence[Try],
        lease: LeaseRef | None,
        now: float,
        *,
        dry_run: bool,
    ) -> Taken:
        judge = self._judge
        outcomes = [
            (place, judge.earlier(item, attempt, place, lease, now))
            for attempt, places in tries[:-1]
            for place in places
        ]
        outcomes += [(place, judge.last(item, place, lease, now)) for place in tries[-1].places]
        told = [self._deliver(place, outcome, dry_run=dry_run) for place, outcome in outcomes]
        if lease is not None and not dry_run:
            self._release(item, tries, lease, outcomes[-1][1])
        unplaced = [each.attempt.target for each in tries if not each.places]
        strangers = [name for name in unplaced if name]
        return Taken(tuple(told), _unknown(strangers) if strangers else "")

    def _deliver(self, place: Place, outcome: Outcome, *, dry_run: bool) -> Told:
        identity = place.health.id
        if not dry_run:
            place.pool.inbox.append((place.health, outcome))
            self.stats.count(identity.pool, identity.target, outcome.outcome)
        return Told(identity.target, outcome.outcome, outcome.reason)

    def _release(self, item: Item, tries: Sequence[Try], lease: LeaseRef, outcome: Outcome) -> None:
        """Move the lease along the attempts, and close it where the last one went."""
        at, now = lease.target, outcome.at
        for each in tries:
            if each.places and each.target != at:
                self._inflight.move(item.pick_id, each.target, now)
                at = each.target
        fault = outcome.outcome in AT_FAULT
        last = at if tries[-1].places else item.attempts[-1].target or at
        self._end(item.pick_id, last, now, fault=fault, ttft=outcome.ttft)

    def _end(
        self, pick_id: str, target: str, now: float, *, fault: bool, ttft: float | None
    ) -> None:
        """Close the lease of a pick, and remember the target at which its request ended."""
        self._inflight.done(pick_id, now, fault=fault, ttft=ttft)
        if len(self._ended) >= REMEMBERED:
            self._ended.popitem(last=False)
        self._ended[pick_id] = target


def _unknown(names: Sequence[str]) -> str:
    shown = ", ".join(dict.fromkeys(names))
    cut = shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 1]}…"
    return f"target: must be a known target, got {cut}"
