"""Picks under way, by pool and target: the shell around :mod:`scorer.core.load`.

Picks and feedback come on the event loop, scrapes from scoring threads. They take turns
with changes, and the loop never waits for its turn. Counts are read at any time.
"""

import random
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from scorer.core import pick_ids
from scorer.core.feedback_mode import FeedbackMode
from scorer.core.leases import Lease, LeaseRef, Mark
from scorer.core.load import HELD_FOR, TargetLoad
from scorer.core.outstanding import NOTHING, Outstanding
from scorer.core.prefill import initial_rate, shared
from scorer.core.prefill import work as work_of
from scorer.core.probe import ProbeTrickle
from scorer.core.prompts import Prompts
from scorer.core.snapshot import PoolView, TargetView
from scorer.core.table import PickTable, pick_table
from scorer.turns import Turns

__all__ = ["InFlight", "LeaseRef", "LoadReading", "Origin", "PoolPicks"]

MOST_LEASES = 262_144
"""Open leases in all; beyond, each pick closes the oldest one of its target."""
SHORT_PROMPT = 250
"""Tokens of the prompt that the expected wait is shown for."""


class Origin(NamedTuple):
    """Where a pick went, as its id alone tells: good for picks of other replicas, too."""

    pool: str
    target: str
    tokens: int


@dataclass(frozen=True, slots=True)
class LoadReading:
    """A target's load for display.

    ``outstanding`` and ``rate`` are in token-equivalents, ``wait`` is that of a short
    prompt in seconds, ``resident`` and ``fresh`` are tokens.
    """

    picks: int = 0
    in_flight: int = 0
    outstanding: float = 0.0
    resident: int = 0
    fresh: int = 0
    wait: float | None = None
    rate: float | None = None
    probes: int = 0
    lost: int = 0


NO_LOAD = LoadReading()


class PoolPicks:
    """What the picker remembers of one pool."""

    __slots__ = ("loads", "mode", "probes", "prompts", "table")

    def __init__(self) -> None:
        """Start with nothing remembered."""
        self.loads: dict[str, TargetLoad] = {}
        self.mode = FeedbackMode()
        self.prompts = Prompts()
        self.probes = ProbeTrickle()
        self.table: PickTable | None = None


class InFlight:
    """Leases and loads by pool and target. Unknown pick ids are nobody's: None."""

    def __init__(self) -> None:
        """Start with no pick."""
        self._turns = Turns()
        self._leases: dict[str, Lease] = {}
        self._pools: dict[str, PoolPicks] = {}
        self._tags: dict[str, tuple[str, str]] = {}
        self.releases: deque[tuple[float, TargetLoad]] = deque()
        """When loads have work to let go of; a pick looks whether the first is due."""

    def pool(self, name: str) -> PoolPicks:
        """Return what is remembered of a pool."""
        return self._pools.get(name) or self._pools.setdefault(name, PoolPicks())

    def load(self, pool: str, target: str) -> TargetLoad:
        """Return the load of a target."""
        picks = self.pool(pool)
        load = picks.loads.get(target)
        if load is None:
            fresh = TargetLoad(pool, target, self._leases, picks.mode)
            load = picks.loads.setdefault(target, fresh)
            self._tags[load.tag] = (pool, target)
        return load

    def tables(self, view: PoolView) -> tuple[PoolPicks, PickTable]:
        """Return what picks from ``view`` look at; made by :meth:`prepare` as a rule."""
        picks = self._pools.get(view.name)
        if picks is not None:
            table = picks.table
            if table is not None and table.view is view:
                return picks, table
        table = self.prepare(view, view.judged_at)
        return self.pool(view.name), table

    def prepare(self, view: PoolView, now: float) -> PickTable:
        """Make the table of a view that is about to be published, and close expired leases.

        All work that grows with the pool is done here, once per view.
        """
        picks = self.pool(view.name)
        loads = [self.load(view.name, each.target) for each in view.targets]
        before = now - view.pick.lease_ttl
        picks.mode.refresh(now)
        told = picks.mode.told
        for load, speed in zip(loads, shared([load.rate for load in loads]), strict=True):
            if load.in_flight or load.speed != speed or load.told != told:
                with self._turns:
                    load.expire(before, now)
                    load.use(speed, told=told)
        self.release(now)
        picks.table = pick_table(view, loads, picks.probes.picks, now, random.shuffle)
        return picks.table

    def release(self, now: float) -> None:
        """Let go of what failed requests still weigh, a second after they failed."""
        self._turns.do(self._release, now)

    def _release(self, now: float) -> None:
        releases = self.releases
        while releases and releases[0][0] <= now:
            releases.popleft()[1].release(now)

    def opened(self, pool: str, target: str) -> int:
        """Count a pick without a lease and return the target's count with it."""
        load = self.load(pool, target)
        with self._turns:
            load.picks += 1
            return load.picks

    def open(
        self, pool: str, view: TargetView, pick_id: str, work: float, tokens: int, now: float
    ) -> None:
        """Open the lease of a pick that returned the target of ``view``."""
        self.lease(self.load(pool, view.target), pick_id, work, tokens, now)

    def lease(self, load: TargetLoad, pick_id: str, work: float, tokens: int, now: float) -> Lease:
        """Open a lease of ``tokens``, which are ``work`` token-equivalents, and return it."""
        lease = Lease(pick_id, load, tokens, int(work + 0.5), now)
        self._turns.do(self._take, load, lease, now)
        return lease

    def _take(self, load: TargetLoad, lease: Lease, now: float) -> None:
        if len(self._leases) >= MOST_LEASES:
            load.lose_oldest(now)
        load.take(lease, now)

    def lease_of(self, pick_id: str) -> Lease | None:
        """Return the open lease of a pick; only to be read."""
        self._turns.settle()
        return self._leases.get(pick_id)

    def find(self, pick_id: str) -> LeaseRef | None:
        """Return what is told of the open lease of a pick."""
        lease = self.lease_of(pick_id)
        return lease.ref if lease else None

    def first_token(self, pick_id: str, now: float) -> bool:
        """Note that the first token of a pick came ``now``; return whether it has a lease."""
        if self.lease_of(pick_id) is None:
            return False
        self._turns.do(self._tell, pick_id, now)
        return True

    def _tell(self, pick_id: str, now: float) -> None:
        if lease := self._leases.get(pick_id):
            lease.load.tell(lease, now)

    def done(self, pick_id: str, now: float, *, fault: bool, ttft: float | None = None) -> bool:
        """Close the lease of a request that is over; return whether there was one.

        ``fault``: the engine failed or refused it. ``ttft`` is the seconds to its first
        token when no event told that.
        """
        if self.lease_of(pick_id) is None:
            return False
        self._turns.do(self._close, pick_id, now, fault, ttft)
        return True

    def _close(self, pick_id: str, now: float, fault: bool, ttft: float | None) -> None:  # noqa: FBT001 - as it was asked for
        lease = self._leases.get(pick_id)
        if lease is None:
            return
        load = lease.load
        load.close(lease, now, fault=fault, ttft=ttft)
        if load.held:
            self.releases.append((now + HELD_FOR, load))

    def move(self, pick_id: str, target: str, now: float) -> bool:
        """Move a lease to another ``target`` of its pool, where its request was tried next.

        Return whether there was one.
        """
        if self.lease_of(pick_id) is None:
            return False
        self._turns.do(self._move, pick_id, target, now)
        return True

    def _move(self, pick_id: str, target: str, now: float) -> None:
        if lease := self._leases.get(pick_id):
            load = self.pool(lease.load.pool).loads.get(target)
            if load is not None and load is not lease.load:
                load.move(lease, now)

    def origin(self, pick_id: str) -> Origin | None:
        """Return where a pick went, from its id alone."""
        named = pick_ids.read(pick_id)
        known = self._tags.get(named.tag) if named else None
        return Origin(*known, named.tokens) if named and known else None

    def mark(self, pool: str, target: str, now: float) -> Mark:
        """Return the target's counts as a scrape of it begins."""
        load = self.load(pool, target)
        with self._turns:
            return _mark(load, now)

    def reconcile(
        self,
        pool: str,
        target: str,
        running: float | None,
        waiting: float | None,
        scrape_started: float,
        now: float,
        mark: Mark | None = None,
    ) -> None:
        """Take a good scrape of a target: close leases that its engine does not know.

        ``mark`` is what :meth:`mark` said when the scrape began.
        """
        load = self.load(pool, target)
        mean = self.pool(pool).prompts.mean
        with self._turns:
            mark = mark or _mark(load, now)
            strangers = load.reconcile(running, waiting, scrape_started, now, mark)
            load.see_strangers(int(strangers * work_of(mean) + 0.5))

    def restarted(self, pool: str, target: str, scrape_started: float, now: float) -> None:
        """Forget the leases of an engine that is a new process since before a scrape began."""
        with self._turns:
            self.load(pool, target).drop(scrape_started, now)

    def start_rate(self, pool: str, target: str, capacity: float) -> None:
        """Set the rate of a target nothing was learned of, by its relative ``capacity``."""
        load = self.load(pool, target)
        if not (load.picks or load.taught):
            load.rate = load.speed = initial_rate(capacity)

    def outstanding(
        self, pool: str, target: str, seen: int, now: float, *, still: bool = True
    ) -> Outstanding:
        """Return what judging needs to know; ``seen`` is the pick count of the last scrape.

        The largest prefill matters, and is looked for, when the engine stands ``still``.
        """
        load = self._load_of(pool, target)
        if load is None or not (load.in_flight or load.picks > seen or load.lost_in_row):
            return NOTHING
        with self._turns:
            requests = max(load.picks - seen, int(load.waits(now)))
            oldest = load.oldest_waiting()
            largest = load.largest_waiting(now) if still else 0
        return Outstanding(
            requests=requests,
            oldest_wait=now - oldest.opened_at if oldest else 0.0,
            largest_prefill=largest / load.speed,
            lost_in_row=load.lost_in_row if load.mode.feedback else 0,
        )

    def speed(self, pool: str, target: str) -> float | None:
        """Return the token-equivalents a second that picks reckon with; None when unknown."""
        load = self._load_of(pool, target)
        return load.speed if load else None

    def feedback_mode(self, pool: str) -> bool:
        """Return whether the pool's gateway tells how requests end."""
        return pool in self._pools and self._pools[pool].mode.feedback

    def reading(self, pool: str, target: str, now: float) -> LoadReading:
        """Return a target's load for display."""
        load = self._load_of(pool, target)
        if load is None:
            return NO_LOAD
        return LoadReading(
            picks=load.picks,
            in_flight=load.in_flight,
            outstanding=load.outstanding(now),
            resident=load.resident,
            fresh=load.fresh,
            wait=load.wait(SHORT_PROMPT, now),
            rate=load.speed,
            probes=load.probes,
            lost=load.lost,
        )

    def count(self, pool: str, target: str) -> int:
        """Return how often the target was picked."""
        load = self._load_of(pool, target)
        return load.picks if load else 0

    def unseen(self, view: TargetView) -> int:
        """Return the picks that the target's last good scrape does not contain."""
        return self.count(view.pool, view.target) - view.picks_seen

    def forget(self, pool: str, target: str) -> None:
        """Drop a departed target with its leases; picks under way do not bring it back."""
        picks = self._pools.get(pool)
        load = picks.loads.pop(target, None) if picks else None
        if picks is None or load is None:
            return
        with self._turns:
            load.gone = True
            load.drop(float("inf"), 0.0)
            self._tags.pop(load.tag, None)
        if not picks.loads:
            self._pools.pop(pool, None)

    def _load_of(self, pool: str, target: str) -> TargetLoad | None:
        picks = self._pools.get(pool)
        return picks.loads.get(target) if picks else None


def _mark(load: TargetLoad, now: float) -> Mark:
    return Mark(load.picks, load.waiting(now), load.tokens_picked)
