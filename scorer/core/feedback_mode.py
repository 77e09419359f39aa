"""Whether a pool's gateway tells how requests go, from the leases closed in the last minute.

In *feedback mode* at least half of them were closed by feedback. First tokens are
*told* when, besides, at least half of those that feedback closed without a fault had
theirs reported before: a gateway that reports finished requests only does not say when
a prompt was through, so that is estimated as without feedback.
"""

from collections import deque

BUCKET = 5.0
BUCKETS = 12
"""A minute of closed leases, in buckets of so many seconds."""


class FeedbackMode:
    """Counts closed leases; ``feedback`` and ``told`` are as of the last refresh."""

    __slots__ = ("_buckets", "feedback", "told")

    def __init__(self) -> None:
        """Start without any closed lease: nothing is told."""
        self.feedback = False
        self.told = False
        self._buckets: deque[list[int]] = deque()

    def closed(self, now: float, *, heard: bool, good: bool = False, told: bool = False) -> None:
        """Count one closed lease: ``heard`` by feedback, without a fault, first token ``told``."""
        number = int(now / BUCKET)
        if not self._buckets or self._buckets[-1][0] < number:
            self._buckets.append([number, 0, 0, 0, 0])
        bucket = self._buckets[-1]
        bucket[1] += 1
        if heard:
            bucket[2] += 1
            if good:
                bucket[3] += 1
                bucket[4] += told

    def refresh(self, now: float) -> None:
        """Forget what is older than a minute, and say what the rest means."""
        oldest = int(now / BUCKET) - BUCKETS
        while self._buckets and self._buckets[0][0] <= oldest:
            self._buckets.popleft()
        _, closed, heard, good, told = map(sum, zip((0, 0, 0, 0, 0), *self._buckets, strict=True))
        self.feedback = closed > 0 and 2 * heard >= closed
        self.told = self.feedback and 2 * told >= good
