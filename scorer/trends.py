"""The scores of the last quarter of an hour, target by target, for people to look at.

Time is cut into slots of :data:`SLOT` seconds. A slot keeps the lowest score seen in it, so
that a short drop is not lost between two samples; a slot without a judgement, or before the
first score, is missing, which is not 0. Memory is bounded: :data:`SLOTS` slots a target, and a
target that is no longer published is forgotten.

One thread at a time writes; the table of targets is replaced whole and copying a deque is
atomic, so any thread may read.
"""

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

from scorer.core.snapshot import PoolView, Snapshot

SLOT = 15
"""Seconds of a slot."""
SLOTS = 60
"""Slots kept: a quarter of an hour."""

Lowest = deque[tuple[int, float]]
"""Slots, the oldest first, each with the lowest score in it."""


class Trends:
    """Scores of the published targets over the last :data:`SLOTS` slots."""

    def __init__(self) -> None:
        """Start without any."""
        self._seen: Mapping[str, PoolView] = MappingProxyType({})
        self._kept: Mapping[str, Mapping[str, Lowest]] = MappingProxyType({})

    def see(self, snapshot: Snapshot) -> None:
        """Take the scores of the pools that were judged since the last call."""
        seen, kept = self._seen, self._kept
        self._kept = {
            name: kept[name] if seen.get(name) is pool else _taken(pool, kept.get(name, {}))
            for name, pool in snapshot.pools.items()
        }
        self._seen = snapshot.pools

    def lowest(self, pool: str, target: str, now: float) -> tuple[float | None, ...]:
        """Return the lowest score of each slot up to ``now``, None where there was none.

        The last of the :data:`SLOTS` is that of ``now`` (monotonic seconds), under way.
        """
        kept = self._kept.get(pool, {}).get(target)
        scores = {} if kept is None else dict(kept.copy())
        first = int(now // SLOT) - SLOTS + 1
        return tuple(scores.get(first + index) for index in range(SLOTS))


def _taken(pool: PoolView, kept: Mapping[str, Lowest]) -> Mapping[str, Lowest]:
    """Return what is kept of a pool's targets, with the scores that it was judged to have."""
    slot = int(pool.judged_at // SLOT)
    taken = {}
    for view in pool.targets:
        scores = kept.get(view.target)
        taken[view.target] = scores = deque(maxlen=SLOTS) if scores is None else scores
        if view.score is not None:
            _take(scores, slot, view.score)
    return taken


def _take(scores: Lowest, slot: int, score: float) -> None:
    if not scores or scores[-1][0] < slot:
        scores.append((slot, score))
    elif scores[-1][0] == slot and score < scores[-1][1]:
        scores[-1] = (slot, score)
