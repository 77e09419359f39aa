"""The load of one target: what the picks under way add up to.

Whoever is told of neither first tokens nor ends of requests relies on estimates and on
scrapes, which say how many requests the engine has at all. So nothing leaks: leases are
bounded per target and in time, with full, lossy or no feedback.

The wait for a first token is kept as three numbers, so that a pick reads it with hardly
any arithmetic: ``max(end - now, floor) + extra`` seconds before the own prompt. Where
first tokens are told, the prompts that wait are known, and ``floor`` bounds the estimated
progress on the first of them. Where they are not, prompts are taken to be worked off one
after the other at the target's speed, the last of them until ``end``.

Invariant: ``in_flight``, ``resident``, ``pending`` and ``work`` are sums over the open
leases. Work is kept in whole token-equivalents, so that no rounding error adds up.
"""

from collections import deque
from collections.abc import Iterator

from scorer.core.feedback_mode import FeedbackMode
from scorer.core.leases import Lease, Mark
from scorer.core.pick_ids import tag_of
from scorer.core.prefill import INITIAL, LEARNS_ABOVE, learned
from scorer.core.prefill import work as work_of

MOST_LEASES = 4096
"""Open leases of one target; no engine has more requests under way."""
SETTLES_AFTER = 2.0
"""Seconds before a scrape began from which a pick must have reached its engine."""
HELD_FOR = 1.0
"""Seconds for which a failed request's work still counts: failing fast is not being idle."""
HEAD_PROGRESS = 0.9
"""The most of the first prompt that counts as done before its first token is told."""
DECODE_WORK, RESIDENT_WORK = 32.0, 0.05
"""Token-equivalents that a request under way, and a token of its prompt, cost a new one."""
SLACK = 64
"""Closed leases that a queue may hold beyond the open ones before it is rebuilt."""


class TargetLoad:
    """What the picker knows of one target's load; ``index`` holds the open leases by id.

    ``rate`` is what was learned of the target itself, ``speed`` what picks reckon with,
    both in token-equivalents a second; ``taught`` is whether anything was learned, ``row`` how
    many observations in a row were not below the rate. ``fresh``
    are the tokens picked since the last scrape, ``strangers`` the work of prompts that others
    sent, ``held`` that of requests that just failed. ``picked_at`` and ``last_pick`` are when
    the target was last picked, or first could have been, in seconds and as the pool's number
    of picks; ``picked_at`` is None before that.
    """

    __slots__ = (
        "_busy_until",
        "_held",
        "_index",
        "_old",
        "_old_open",
        "_queue",
        "_young",
        "end",
        "extra",
        "floor",
        "fresh",
        "gone",
        "head_at",
        "head_work",
        "held",
        "in_flight",
        "last_pick",
        "lost",
        "lost_in_row",
        "mode",
        "passed_at",
        "pending",
        "picked_at",
        "picks",
        "pool",
        "probe_since",
        "probed_at",
        "probes",
        "rate",
        "resident",
        "row",
        "speed",
        "strangers",
        "tag",
        "target",
        "taught",
        "tokens_picked",
        "told",
        "work",
    )  # fmt: skip

    def __init__(self, pool: str, target: str, index: dict[str, Lease], mode: FeedbackMode) -> None:
        """Start without load."""
        self.pool, self.target, self.tag = pool, target, tag_of(pool, target)
        self.mode, self.told, self.gone = mode, mode.told, False
        self.rate = self.speed = INITIAL
        self.taught = False
        self.row = 0
        self.in_flight = self.resident = self.pending = self.work = 0
        self.strangers = self.held = 0
        self.end = self.floor = self.extra = 0.0
        self.head_work, self.head_at = 0, 0.0
        self.picks = self.tokens_picked = self.fresh = self.last_pick = 0
        self.picked_at: float | None = None
        self.passed_at = float("-inf")
        self.lost = self.lost_in_row = self.probes = 0
        self.probed_at: float | None = None
        self.probe_since: float | None = None
        self._busy_until = 0.0
        self._index = index
        self._held: deque[tuple[float, int]] = deque()
        self._young: deque[Lease] = deque()
        self._old: deque[Lease] = deque()
        self._old_open = 0
        self._queue: deque[Lease] = deque()

    def due_from(self, pool_picks: int, now: float) -> float:
        """Return when it was last picked, or since when it could have been.

        That is the first time this is asked, when the pool had so many picks.
        """
        if self.picked_at is None:
            self.picked_at, self.last_pick = now, pool_picks
        return self.picked_at

    def wait(self, tokens: int, now: float) -> float:
        """Return the seconds until the first token of a prompt of ``tokens`` picked ``now``."""
        return max(self.end - now, self.floor) + self.extra + work_of(tokens) / self.speed

    def outstanding(self, now: float) -> float:
        """Return the token-equivalents that a prompt picked ``now`` has to wait for."""
        return max(self.end - now, self.floor) * self.speed + self.strangers + self.held

    def waiting(self, now: float) -> int:
        """Return how many leases wait for their first token, as told or estimated."""
        return self.pending if self.told else sum(1 for _ in self._estimated(now))

    def waits(self, now: float) -> bool:
        """Return whether any lease waits for its first token."""
        return self.pending > 0 if self.told else next(self._estimated(now), None) is not None

    def oldest_waiting(self) -> Lease | None:
        """Return the oldest lease that waits for its first token, where those are told.

        One that later requests have overtaken was not reported, rather than still waiting.
        """
        if self.told and self.pending:
            for lease in self._queue:
                if lease.waits and lease.placed_at > self.passed_at:
                    return lease
        return None

    def largest_waiting(self, now: float) -> int:
        """Return the largest work that waits for its first token, 0 without any."""
        waiting = self._queue if self.told else self._estimated(now)
        return max((lease.work for lease in waiting if lease.waits), default=0)

    def _estimated(self, now: float) -> Iterator[Lease]:
        """Yield the leases whose first token is estimated for later, the latest first."""
        for lease in reversed(self._queue):
            if lease.due <= now:
                return
            if lease.waits:
                yield lease

    def use(self, speed: float, *, told: bool) -> None:
        """Reckon with a ``speed``, and with first tokens being ``told`` or not."""
        self.speed, self.told = speed, told
        self._derive()

    def open(self, lease_id: str, tokens: int, work: float, now: float) -> Lease:
        """Open a lease of ``tokens`` and ``work`` token-equivalents, which is a pick."""
        lease = Lease(lease_id, self, tokens, int(work + 0.5), now)
        self.take(lease, now)
        return lease

    def take(self, lease: Lease, now: float) -> None:
        """Open a lease that was made for this target, which is a pick."""
        tokens = lease.tokens
        if tokens > LEARNS_ABOVE:
            lease.ahead = self.outstanding(now) + lease.work
        self.picks += 1
        self.tokens_picked += tokens
        self.fresh += tokens
        if not self.gone:
            self._place(lease, now)

    def tell(self, lease: Lease, now: float) -> None:
        """Note that the first token of a lease came."""
        if lease.told_at is None:
            self._learn(lease, now - lease.opened_at)
            lease.told_at = now
            self.passed_at = max(self.passed_at, lease.placed_at)
            self._through(lease, now)
            self._derive()
        self._answered(lease)

    def close(
        self, lease: Lease, now: float, *, fault: bool = False, ttft: float | None = None
    ) -> None:
        """Close a lease that feedback says is over.

        The work of a ``fault`` before the first token is held. ``ttft`` is the seconds to
        a first token of which nothing was told before.
        """
        waited = lease.told_at is None
        if waited and fault:
            self._held.append((now + HELD_FOR, lease.work))
            self.held += lease.work
        if waited and ttft is not None:
            self._learn(lease, ttft)
            lease.told_at = lease.opened_at + ttft
            self.passed_at = max(self.passed_at, lease.placed_at)
            self._through(lease, now)
        self.mode.closed(now, heard=True, good=not fault, told=not waited)
        self._answered(lease)
        self._end(lease, now)
        self._derive()

    def release(self, now: float) -> None:
        """Let go of the work of requests that failed a second ago."""
        held = self._held
        while held and held[0][0] <= now:
            self.held -= held.popleft()[1]
        self._derive()

    def move(self, lease: Lease, now: float) -> None:
        """Take over a lease from another target of the pool; it teaches no rate any more."""
        lease.load._leave(lease, now)  # noqa: SLF001 - of the same class
        lease.load, lease.open, lease.settled, lease.told_at = self, True, False, None
        lease.waits = True
        lease.placed_at, lease.ahead = now, 0.0
        if not self.gone:
            self._place(lease, now)

    def reconcile(
        self, running: float | None, waiting: float | None, started: float, now: float, mark: Mark
    ) -> float:
        """Take a good scrape that ``started`` when the counts stood at ``mark``.

        Of the leases old enough to be known to the engine at most ``running`` +
        ``waiting`` stay open; the oldest beyond that are lost. Returns how many requests
        wait there that are not ours.
        """
        self.fresh = self.tokens_picked - mark.tokens
        while self._young and self._young[0].placed_at < started - SETTLES_AFTER:
            lease = self._young.popleft()
            if lease.open:
                lease.settled = True
                self._old_open += 1
                self._old.append(lease)
        if running is not None and waiting is not None:
            while self._old_open > running + waiting and (oldest := self.oldest()):
                self._lose(oldest, now)
            self._derive()
        return max(0.0, (waiting or 0.0) - mark.pending)

    def see_strangers(self, work: int) -> None:
        """Take over the work of prompts that others sent."""
        self.strangers = work
        self._derive()

    def expire(self, before: float, now: float) -> None:
        """Close every lease placed ``before`` a moment: nothing was heard of it."""
        while (oldest := self.oldest()) and oldest.placed_at < before:
            self._lose(oldest, now)
        self._derive()

    def drop(self, before: float, now: float) -> None:
        """Forget the leases placed ``before`` a moment, and all estimates: the engine is gone."""
        while (oldest := self.oldest()) and oldest.placed_at < before:
            self._end(oldest, now)
        self._held.clear()
        self.strangers = self.held = 0
        if not self.in_flight:
            self._busy_until = now
        self._derive()

    def lose_oldest(self, now: float) -> None:
        """Close the oldest lease to make room; it counts as lost."""
        if oldest := self.oldest():
            self._lose(oldest, now)
            self._derive()

    def oldest(self) -> Lease | None:
        """Return the lease that was placed first, None without any."""
        for queue in (self._old, self._young):
            while queue:
                if queue[0].open:
                    return queue[0]
                queue.popleft()
        return None

    def _place(self, lease: Lease, now: float) -> None:
        if self.in_flight >= MOST_LEASES and (oldest := self.oldest()):
            self._lose(oldest, now)
        work, busy_until = lease.work, self._busy_until
        if busy_until < now:  # noqa: PLR1730 - max() takes three times as long
            busy_until = now
        self._busy_until = lease.due = busy_until + work / self.speed
        self.in_flight += 1
        self.resident += lease.tokens
        self.pending += 1
        self.work += work
        if self.pending == 1:
            self.head_work, self.head_at = work, now
        self._young.append(lease)
        self._queue.append(lease)
        self._index[lease.id] = lease
        self._derive()

    def _derive(self) -> None:
        """Work out what picks read."""
        speed = self.speed
        if self.told:
            self.end = self.head_at + self.work / speed
            self.floor = (self.work - HEAD_PROGRESS * self.head_work) / speed
        else:
            self.end, self.floor = self._busy_until, 0.0
        ahead = self.strangers + self.held
        decode = DECODE_WORK * self.in_flight + RESIDENT_WORK * self.resident
        self.extra = (ahead + decode) / speed

    def _through(self, lease: Lease, now: float) -> None:
        """Take the work of a lease out: its first token came, or never will."""
        lease.waits = False
        self.pending -= 1
        self.work -= lease.work
        if lease.due > now:
            busy_until = self._busy_until - lease.work / self.speed
            if busy_until < now:  # noqa: PLR1730 - max() takes three times as long
                busy_until = now
            self._busy_until = busy_until
        queue = self._queue
        if queue and queue[0].waits:
            if len(queue) > 2 * self.pending + SLACK:
                self._queue = deque(each for each in queue if each.waits)
            return
        while queue and not queue[0].waits:
            queue.popleft()
        self.head_work = queue[0].work if queue else 0
        self.head_at = max(now, queue[0].placed_at) if queue else now

    def _leave(self, lease: Lease, now: float) -> None:
        self._end(lease, now)
        self._derive()

    def _end(self, lease: Lease, now: float) -> None:
        """Take an open lease out; what picks read has to be worked out after the last one."""
        if not lease.open:
            return
        lease.open = False
        self._index.pop(lease.id, None)
        self.in_flight -= 1
        self.resident -= lease.tokens
        self._old_open -= lease.settled
        if lease.waits:
            self._through(lease, now)
        if len(self._young) + len(self._old) > 2 * self.in_flight + SLACK:
            self._young = deque(each for each in self._young if each.open)
            self._old = deque(each for each in self._old if each.open)

    def _lose(self, lease: Lease, now: float) -> None:
        self.lost += 1
        self.lost_in_row += 1
        self.mode.closed(now, heard=False)
        self._end(lease, now)

    def _answered(self, lease: Lease) -> None:
        self.lost_in_row = 0
        if lease.probe:
            self.probe_since = None

    def _learn(self, lease: Lease, seconds: float) -> None:
        if lease.ahead > 0.0 and seconds > 0.0:
            seen = lease.ahead / seconds
            self.row = self.row + 1 if seen >= self.rate else 0
            self.rate = learned(self.rate, seen, row=self.row)
            self.taught = True
