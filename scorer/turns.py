"""Changes by several threads, one at a time, where one of the threads may not wait.

A thread that waits for a lock gives the interpreter away, and gets it back a switch
interval after the lock is free at the soonest, if the other thread has not taken both
again by then. On the event loop that was the tail of pick latency. So what the loop
wants to change while another thread is at it is left to that thread, which makes it
before anybody else has a turn.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

Change = Callable[..., object]


class Turns:
    """A lock for whoever may wait (``with``), and :meth:`do` for whoever may not.

    Changes take effect in the order in which they were asked for.
    """

    __slots__ = ("_left", "_lock")

    def __init__(self) -> None:
        """Start with nobody at it."""
        self._lock = threading.Lock()
        self._left: deque[tuple[Change, tuple[Any, ...]]] = deque()

    def do(self, change: Change, *args: Any) -> None:  # noqa: ANN401 - whatever the change takes
        """Make a change now or, while another thread has its turn, leave it to that one."""
        if self._left or not self._lock.acquire(blocking=False):
            self._left.append((change, args))
            self._catch_up()
            return
        try:
            change(*args)
        finally:
            self._lock.release()
        if self._left:
            self._catch_up()

    def settle(self) -> None:
        """Wait until every change that was left to others is made."""
        if self._left:
            with self:
                pass

    def __enter__(self) -> None:
        """Wait for one's turn."""
        self._lock.acquire()
        self._make()

    def __exit__(self, *_: object) -> None:
        """End the turn, and make what was left to it."""
        try:
            self._make()
        finally:
            self._lock.release()
        self._catch_up()

    def _catch_up(self) -> None:
        """Make what was left to a turn just as that ended."""
        while self._left and self._lock.acquire(blocking=False):
            try:
                self._make()
            finally:
                self._lock.release()

    def _make(self) -> None:
        left = self._left
        while left:
            change, args = left.popleft()
            change(*args)
