"""Counts of discovery by pool and mechanism; any thread may write and read them."""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scorer.discovered import Mechanism

Key = tuple[str, Mechanism]
"""Pool and mechanism."""


@dataclass(frozen=True, slots=True)
class SdReading:
    """A mechanism of a pool: targets found, refreshes, failed ones, last good (monotonic).

    With several sources ``last_success`` is that of the one that is furthest behind,
    None before each has succeeded once.
    """

    targets: int
    refreshes: int
    failures: int
    last_success: float | None


class SdStats:
    """What each source found, and how often it was asked."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self._lock = threading.Lock()
        self._counts: dict[Key, tuple[int, int]] = {}
        self._sources: dict[tuple[Key, int], tuple[int, float | None]] = {}

    def keep(self, sources: Collection[tuple[Key, int]]) -> None:
        """Know these sources, each a number within its key, and forget all others."""
        with self._lock:
            known = self._sources
            self._sources = {source: known.get(source, (0, None)) for source in sources}
            counts = self._counts
            self._counts = {key: counts.get(key, (0, 0)) for key, _ in sources}

    def refreshed(
        self, key: Key, source: int, *, targets: int, at: float, failures: int = 0
    ) -> None:
        """Count one refresh at ``at`` that left ``targets``; it failed with any ``failures``."""
        with self._lock:
            if (key, source) not in self._sources:
                return
            refreshes, failed = self._counts[key]
            self._counts[key] = refreshes + 1, failed + (failures > 0)
            success = self._sources[key, source][1] if failures else at
            self._sources[key, source] = targets, success

    def read(self) -> Mapping[Key, SdReading]:
        """Return a copy of everything at one moment."""
        with self._lock:
            return {key: self._reading(key) for key in self._counts}

    def _reading(self, key: Key) -> SdReading:
        found = [values for (each, _), values in self._sources.items() if each == key]
        times = [at for _, at in found if at is not None]
        return SdReading(
            targets=sum(targets for targets, _ in found),
            refreshes=self._counts[key][0],
            failures=self._counts[key][1],
            last_success=min(times) if times and len(times) == len(found) else None,
        )
