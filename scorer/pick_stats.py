"""Counts of pick requests, written on the event loop only and read from any thread.

Pool names come from the configuration; a request that names an unknown pool, or
fails before its pool is known, counts under the empty name, so no client can make
up a series.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from scorer.histogram import Histogram, HistogramReading

PICK_BOUNDS = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0,
)  # fmt: skip
"""Upper bounds of the pick duration buckets, in seconds."""

NO_POOL = ""
"""The pool of a request whose pool is not known."""


class PickFailure(StrEnum):
    """Why a pick request returned no target."""

    NO_TARGET = "no_target"
    UNKNOWN_POOL = "unknown_pool"
    UNKNOWN_MODEL = "unknown_model"
    BAD_REQUEST = "bad_request"
    INTERNAL = "internal"
    """A fault of the daemon itself."""


@dataclass(frozen=True, slots=True)
class PickReading:
    """A copy of one pool's counts; ``failures`` has every :class:`PickFailure`."""

    requests: int
    failures: Mapping[PickFailure, int]
    duration: HistogramReading


class _PoolCounts:
    """The counts of one pool."""

    __slots__ = ("duration", "failures")

    def __init__(self) -> None:
        self.failures = dict.fromkeys(PickFailure, 0)
        self.duration = Histogram(PICK_BOUNDS)

    def read(self) -> PickReading:
        """Return a copy; every request has one duration, so their count is the requests'."""
        duration = self.duration.read()
        return PickReading(duration.count, dict(self.failures), duration)


class PickStats:
    """Pick requests, their failures by reason and their durations, by pool."""

    def __init__(self) -> None:
        """Start with no request."""
        self._pools: dict[str, _PoolCounts] = {}

    def record(self, pool: str, seconds: float, failure: PickFailure | None = None) -> None:
        """Count one answered request of a known ``pool``, or of :data:`NO_POOL`."""
        counts = self._pools.get(pool)
        if counts is None:
            counts = self._pools[pool] = _PoolCounts()
        counts.duration.observe(seconds)
        if failure is not None:
            counts.failures[failure] += 1

    def read(self, pool: str) -> PickReading:
        """Return a copy of the pool's counts, all zero for a pool without requests."""
        return (self._pools.get(pool) or _PoolCounts()).read()

    def keep(self, pools: Collection[str]) -> None:
        """Forget every pool but ``pools`` and :data:`NO_POOL`."""
        kept = {*pools, NO_POOL}
        self._pools = {name: counts for name, counts in self._pools.items() if name in kept}
