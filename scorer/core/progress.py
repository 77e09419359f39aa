"""Whether an engine that has work moves at all.

An engine whose process hangs still serves its last page. Only counters that move
*within* a request tell: with work to do and none of them moving for long, it is frozen.
"""

from dataclasses import dataclass

STILL_SCRAPES = 5
STILL_SECONDS = 10.0


@dataclass(slots=True)
class ProgressWatch:
    """When the engine was last seen to move or to have nothing to do, and the pages since."""

    alive_at: float | None = None
    still_pages: int = 0

    def page(self, now: float, *, moved: bool, working: bool) -> None:
        """Take what a page shows: whether a progress counter moved, whether there is work."""
        if moved or not working or self.alive_at is None:
            self.alive_at, self.still_pages = now, 0
        else:
            self.still_pages += 1

    def frozen(self, now: float, allowance: float) -> bool:
        """Return whether it stood still for too long.

        ``allowance`` is how long the largest prompt under way may take to prefill, in
        seconds: an engine within one long step prints nothing new.
        """
        if self.alive_at is None or self.still_pages < STILL_SCRAPES:
            return False
        return now - self.alive_at >= STILL_SECONDS + allowance
