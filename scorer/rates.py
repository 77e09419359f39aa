"""Picks a second, target by target, over the last minute, for people to look at.

Counts are noted every :data:`EVERY` seconds when a snapshot is published, never by a pick.
The rate is what was added since the oldest note of the last minute. A target that left and came
back counts from anew: notes from before that say nothing of it.

One thread at a time writes; notes are never changed and copying a deque is atomic, so any
thread may read.
"""

from collections import deque
from collections.abc import Callable, Mapping

from scorer.core.snapshot import Snapshot

EVERY = 5.0
"""Seconds between two notes, and the shortest time that a rate is told of."""
WINDOW = 60.0
"""Seconds that a rate is over, once there are so many."""

Count = Callable[[str, str], int]
Note = tuple[float, Mapping[tuple[str, str], int]]


class PickRates:
    """Rates of what ``count`` counts of a target, by pool and name."""

    def __init__(self, count: Count, clock: Callable[[], float]) -> None:
        """Start without any; ``clock`` returns monotonic seconds."""
        self._count = count
        self._clock = clock
        self._notes: deque[Note] = deque(maxlen=int(WINDOW / EVERY))

    def see(self, snapshot: Snapshot) -> None:
        """Note the counts of the published targets, when it is time for that."""
        now = self._clock()
        if self._notes and now - self._notes[-1][0] < EVERY:
            return
        counts = {
            (pool.name, view.target): self._count(pool.name, view.target)
            for pool in snapshot.pools.values()
            for view in pool.targets
        }
        self._notes.append((now, counts))

    def rate(self, pool: str, target: str) -> float | None:
        """Return picks a second of a target, None while that is not known."""
        now = self._clock()
        latest = lowest = self._count(pool, target)
        since = now
        for at, counts in reversed(self._notes.copy()):
            noted = counts.get((pool, target))
            if noted is None or noted > lowest or now - at > WINDOW + EVERY:
                break
            since, lowest = at, noted
        elapsed = now - since
        return (latest - lowest) / elapsed if elapsed >= EVERY else None
