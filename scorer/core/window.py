"""Error ratio over a sliding window of counts.

Counts, not a time-weighted average: twenty errors within 50 ms are twenty errors.
The ratio is failures / max(outcomes, 20), so one failure of one request is 5 %,
not 100 %.
"""

from collections import deque
from dataclasses import dataclass, field

MIN_OUTCOMES = 20.0


@dataclass(slots=True)
class OutcomeWindow:
    """Failures and outcomes of the last ``length`` seconds, in one-second buckets."""

    length: int = 30
    _buckets: deque[tuple[int, float, float]] = field(default_factory=deque)

    def add(self, failures: float, successes: float, now: float) -> None:
        """Count ``failures`` and ``successes`` (requests, may be fractions) at ``now``."""
        if failures <= 0 and successes <= 0:
            return
        second = int(now)
        if self._buckets and self._buckets[-1][0] == second:
            _, failed, outcomes = self._buckets[-1]
            self._buckets[-1] = (second, failed + failures, outcomes + failures + successes)
        else:
            self._buckets.append((second, failures, failures + successes))
            self._expire(now)

    def ratio(self, now: float) -> float:
        """Return the error ratio 0-1 of the window; 0 when there was no outcome."""
        self._expire(now)
        failures = sum(bucket[1] for bucket in self._buckets)
        outcomes = sum(bucket[2] for bucket in self._buckets)
        return min(1.0, failures / max(outcomes, MIN_OUTCOMES))

    def failures(self, now: float) -> float:
        """Return the number of failures in the window."""
        self._expire(now)
        return sum(bucket[1] for bucket in self._buckets)

    def outcomes(self, now: float) -> float:
        """Return the number of outcomes in the window."""
        self._expire(now)
        return sum(bucket[2] for bucket in self._buckets)

    def clear(self) -> None:
        """Forget every outcome."""
        self._buckets.clear()

    def _expire(self, now: float) -> None:
        oldest = int(now) - self.length
        while self._buckets and self._buckets[0][0] <= oldest:
            self._buckets.popleft()
