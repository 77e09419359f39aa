"""A histogram small enough for the path of every request.

One observation is a bisection and two additions, without a lock. Whoever observes
from several threads holds a lock of their own; reading is safe at any time, and the
count of a reading is the sum of its buckets, so the two never disagree.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class HistogramReading:
    """A copy of a histogram: cumulative ``counts``, one for each bound and one for +Inf."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        """Observations in all."""
        return self.counts[-1]


class Histogram:
    """Observations counted by upper bound (inclusive, ascending)."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Start empty with the finite upper ``bounds``; +Inf is implied."""
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one observation; one writer at a time."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> HistogramReading:
        """Return a copy; from any thread."""
        return HistogramReading(self._bounds, tuple(accumulate(tuple(self._counts))), self._sum)
