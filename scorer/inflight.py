"""Picks that the engines' own numbers do not contain yet.

A pick count per target, and with each good scrape the count when that scrape
started: the difference is what was picked since. Counts are written on the event
loop only and read from any thread; reading an integer needs no lock.
"""

from scorer.core.snapshot import TargetView


class InFlight:
    """Pick counts by (pool, target)."""

    def __init__(self) -> None:
        """Start with no pick."""
        self._counts: dict[tuple[str, str], int] = {}

    def opened(self, pool: str, target: str) -> int:
        """Count a pick and return the target's count with it."""
        key = (pool, target)
        count = self._counts.get(key, 0) + 1
        self._counts[key] = count
        return count

    def count(self, pool: str, target: str) -> int:
        """Return how often the target was picked."""
        return self._counts.get((pool, target), 0)

    def unseen(self, view: TargetView) -> int:
        """Return the picks that the target's last good scrape does not contain."""
        return self._counts.get((view.pool, view.target), 0) - view.picks_seen

    def forget(self, pool: str, target: str) -> None:
        """Drop a departed target's count."""
        self._counts.pop((pool, target), None)
