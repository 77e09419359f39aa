"""Whether an engine that has work moves at all.

An engine whose process hangs still serves its last page. Only counters that move
*within* a request tell: with work to do and none of them moving for long, it is frozen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scorer.core.samples import Part

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

    @property
    def still(self) -> bool:
        """Whether it stood still on so many pages that it may be frozen."""
        return self.alive_at is not None and self.still_pages >= STILL_SCRAPES

    def frozen(self, now: float, allowance: float) -> bool:
        """Return whether it stood still for too long.

        ``allowance`` is how long the largest prompt under way may take to prefill, in
        seconds: an engine within one long step prints nothing new.
        """
        if self.alive_at is None or not self.still:
            return False
        return now - self.alive_at >= STILL_SECONDS + allowance


@dataclass(slots=True)
class PartsWatch:
    """Each of several engines behind one target by itself, where the sum would hide one."""

    _known: dict[str, tuple[float, ProgressWatch]] = field(default_factory=dict)

    def page(self, now: float, parts: Mapping[str, Part]) -> None:
        """Take what a page says of each engine; one that is no longer on it is forgotten."""
        known: dict[str, tuple[float, ProgressWatch]] = {}
        for name, part in parts.items():
            last, watch = self._known.get(name, (part.progress, ProgressWatch()))
            watch.page(now, moved=part.progress != last, working=part.working)
            known[name] = part.progress, watch
        self._known = known

    @property
    def still(self) -> bool:
        """Whether one of them may be frozen."""
        return any(watch.still for _, watch in self._known.values())

    def stalled(self, now: float, allowance: float) -> tuple[str, ...]:
        """Return the engines that are frozen, as for a :class:`ProgressWatch`."""
        if not self._known:
            return ()
        known = self._known.items()
        return tuple(name for name, (_, watch) in known if watch.frozen(now, allowance))
