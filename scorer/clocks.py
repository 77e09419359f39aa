"""Monotonic time for decisions, wall-clock time for people, and the way between them.

The offset between the two clocks is kept until it moves by more than
:data:`TOLERANCE`: a time shown twice is the same number both times, although the
clocks are read a microsecond apart and the wall clock is being slewed.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

TOLERANCE = 0.05
"""Seconds by which the offset may move before it is taken anew."""


class Clocks:
    """The two clocks of the process, given as callables that return seconds."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Take both clocks and their offset."""
        self.monotonic = monotonic
        self.wall = wall
        self._offset = wall() - monotonic()

    def unix(self, at: float) -> float:
        """Return the Unix time of the monotonic time ``at``, in seconds."""
        offset = self.wall() - self.monotonic()
        if abs(offset - self._offset) > TOLERANCE:
            self._offset = offset
        return at + self._offset

    def rfc3339(self, at: float) -> str:
        """Return the monotonic time ``at`` as RFC 3339 in UTC with milliseconds."""
        moment = datetime.fromtimestamp(self.unix(at), UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def age(self, at: float) -> float:
        """Return the seconds since the monotonic time ``at``, never negative."""
        return max(0.0, self.monotonic() - at)
