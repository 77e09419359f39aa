"""Pauses in long work of a thread, so that the event loop gets the interpreter meanwhile.

While a thread computes, the loop gets the interpreter for one switch interval in two at
most, and waits one whenever it comes back from its own I/O: at a third of a core's picks
a judgement of 30 ms is a queue of requests. A thread that pauses leaves all of it to them.
"""

import time
from collections.abc import Callable

WORK, PAUSE = 0.001, 0.001
"""Seconds of work after which there is a pause, and of that."""
MOST_PAUSES = 100
"""Pauses in a row of work: a tenth of a second, so that very large pools are judged in time."""


class Pauses:
    """Called again and again in the course of some work, pauses now and then."""

    __slots__ = ("_clock", "_left", "_since", "_sleep")

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take time from ``clock``, in seconds, and pause by ``sleep``."""
        self._clock, self._sleep = clock, sleep
        self.begin()

    def begin(self) -> None:
        """Begin some work."""
        self._since, self._left = self._clock(), MOST_PAUSES

    def __call__(self) -> None:
        """Pause if the last pause is some work ago."""
        if self._left and self._clock() - self._since >= WORK:
            self._left -= 1
            self._sleep(PAUSE)
            self._since = self._clock()
