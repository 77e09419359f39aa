"""Signals that a target's page had and has no more.

A gap of some pages is bridged with the last good value, whose age grows. After that the
signal is *lost*: what was seen of it says nothing any more, and the target must not look
idle for it. A signal that the page never had is not lost, and neither is one that a new
process, or the mapping of an upgraded engine, does not offer.

Errors are not watched: engines print their counters from the first failure on, so a page
without them has lost nothing.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from scorer.core.samples import EngineSamples, Reading
from scorer.core.vocabulary import Gap, SignalName

HELD_PAGES = 5
"""Good pages without a signal for which its last value stands in."""
LOST_LIMIT = 70.0
"""The most that a target scores while one of its signals is lost, in points."""
WATCHED = (SignalName.TTFT, SignalName.QUEUE, SignalName.KV_CACHE)


@dataclass(frozen=True, slots=True)
class Held:
    """The last good value of a signal and when it was read (monotonic seconds)."""

    value: float
    at: float


@dataclass(slots=True)
class SignalWatch:
    """What the pages of one target had of each signal, and for how many it is missing."""

    _held: dict[SignalName, Held] = field(default_factory=dict)
    _missed: dict[SignalName, int] = field(default_factory=dict)

    def page(self, samples: EngineSamples | None, now: float) -> None:
        """Take a good page; ``samples`` is None when it matches no known engine."""
        for name, reading in _readings(samples):
            if reading.value is not None:
                self._held[name] = Held(reading.value, now)
                self._missed[name] = 0
            elif reading.gap is Gap.NOT_OFFERED:
                self._forget(name)
            elif name in self._held:
                self._missed[name] = self._missed.get(name, 0) + 1

    def renew(self) -> None:
        """Forget what the pages of an earlier process had."""
        for name in WATCHED:
            self._forget(name)

    def held(self, name: SignalName) -> Held | None:
        """Return the last good value of a signal; None without one, and once it is lost."""
        return self._held.get(name) if self._missed.get(name, 0) <= HELD_PAGES else None

    def lost(self) -> Collection[SignalName]:
        """Return the signals that are lost."""
        return [name for name, missed in self._missed.items() if missed > HELD_PAGES]

    def _forget(self, name: SignalName) -> None:
        self._held.pop(name, None)
        self._missed.pop(name, None)


def _readings(samples: EngineSamples | None) -> Iterator[tuple[SignalName, Reading]]:
    """Yield each signal; that of TTFT, which is judged elsewhere, has its count as value."""
    if samples is None:
        yield from ((name, Reading.missing(Gap.NO_MAPPING)) for name in WATCHED)
        return
    ttft = samples.ttft
    yield SignalName.TTFT, Reading(ttft.count) if ttft.gap is None else Reading.missing(ttft.gap)
    yield SignalName.QUEUE, samples.waiting
    yield SignalName.KV_CACHE, samples.kv_cache
