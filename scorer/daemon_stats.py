"""Counts of the daemon's own work: scrapes missed, durations, reloads, the state file.

Written from scrape threads and the scheduler, read by exporters. Every method holds
one lock for a few additions and never during I/O.
"""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from scorer.histogram import Histogram, HistogramReading

SCRAPE_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the scrape duration buckets, in seconds."""
SCORING_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0)
"""Upper bounds of the scoring duration buckets, in seconds."""

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class DaemonReading:
    """A copy of all counts.

    ``missed`` is by (pool, target), the others by pool; ``last_scoring`` is
    monotonic seconds, ``reload_success_time`` and ``state_success_time`` Unix seconds. The
    reload fields are None before the first load, ``state_failures`` without a state file.
    """

    missed: Mapping[tuple[str, str], int]
    scrapes: Mapping[str, HistogramReading]
    scorings: Mapping[str, HistogramReading]
    last_scoring: Mapping[str, float]
    reload_ok: bool | None
    reload_success_time: float | None
    state_failures: int | None = None
    state_success_time: float | None = None
    loop_lag: float | None = None
    """Seconds, None before the first timer of the event loop."""


class DaemonStats:
    """Counters and durations of the daemon; every method may be called from any thread."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self._lock = threading.Lock()
        self._missed: dict[tuple[str, str], int] = {}
        self._scrapes: dict[str, Histogram] = {}
        self._scorings: dict[str, Histogram] = {}
        self._last_scoring: dict[str, float] = {}
        self._reload_ok: bool | None = None
        self._reload_success_time: float | None = None
        self._state_failures: int | None = None
        self._state_success_time: float | None = None
        self._loop_lag: float | None = None

    def loop_lagged(self, seconds: float) -> None:
        """Note by how much a timer of the event loop was late."""
        with self._lock:
            self._loop_lag = seconds

    def scrape_done(self, pool: str, seconds: float) -> None:
        """Count one finished scrape, good or failed, that took ``seconds``."""
        with self._lock:
            self._scrapes.setdefault(pool, Histogram(SCRAPE_BOUNDS)).observe(seconds)

    def scrape_missed(self, pool: str, target: str) -> None:
        """Count one scrape that was due and not made."""
        with self._lock:
            self._missed[pool, target] = self._missed.get((pool, target), 0) + 1

    def scoring_done(self, pool: str, seconds: float, at: float) -> None:
        """Count one scoring pass that took ``seconds`` and ended ``at`` monotonic seconds."""
        with self._lock:
            self._scorings.setdefault(pool, Histogram(SCORING_BOUNDS)).observe(seconds)
            self._last_scoring[pool] = at

    def reloaded(self, ok: bool, wall_time: float) -> None:  # noqa: FBT001 - a result, not a switch
        """Note the outcome of a load of the configuration at ``wall_time`` (Unix seconds)."""
        with self._lock:
            self._reload_ok = ok
            if ok:
                self._reload_success_time = wall_time

    def state_kept(self) -> None:
        """Note that there is a state file: from here on its failures are counted."""
        with self._lock:
            self._state_failures = self._state_failures or 0

    def state_written(self, ok: bool, wall_time: float) -> None:  # noqa: FBT001 - a result, not a switch
        """Note the outcome of a write of the state file at ``wall_time`` (Unix seconds)."""
        with self._lock:
            self._state_failures = (self._state_failures or 0) + (not ok)
            if ok:
                self._state_success_time = wall_time

    def keep(self, pools: Collection[str], targets: Collection[tuple[str, str]]) -> None:
        """Forget all pools but ``pools`` and all (pool, target) but ``targets``."""
        with self._lock:
            for by_pool in (self._scrapes, self._scorings, self._last_scoring):
                _drop_others(by_pool, pools)
            _drop_others(self._missed, targets)

    def read(self) -> DaemonReading:
        """Return a copy of everything at one moment."""
        with self._lock:
            return DaemonReading(
                missed=dict(self._missed),
                scrapes={pool: histogram.read() for pool, histogram in self._scrapes.items()},
                scorings={pool: histogram.read() for pool, histogram in self._scorings.items()},
                last_scoring=dict(self._last_scoring),
                reload_ok=self._reload_ok,
                reload_success_time=self._reload_success_time,
                state_failures=self._state_failures,
                state_success_time=self._state_success_time,
                loop_lag=self._loop_lag,
            )


def _drop_others(table: dict[Key, Any], kept: Collection[Key]) -> None:
    for key in [key for key in table if key not in kept]:
        del table[key]
