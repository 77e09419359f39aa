"""What cumulative series gained between two scrapes.

Deltas are taken per series before they are summed. The first page is a baseline:
its history is not one interval's traffic. A series that goes backwards starts over
and counts from zero; a series that is new on a later page did not exist before and
counts from zero too. After a restart of the engine everything counts from zero.

A series that a page lacks keeps its value for a while, so that a gap of some pages is
bridged. What has been forgotten and comes back is a baseline again, because all of its
history would look like one interval's traffic. When so many series were forgotten that
not even their names are known, every unknown series is a baseline: a gain is told a page
late rather than invented.
"""

from dataclasses import dataclass, field

from scorer.core.samples import Counters, Histogram, Outcomes, SeriesKey

FORGOTTEN_AFTER = 30
"""Pages without a series after which its value is forgotten."""
MOST_ABSENT = 1000
"""Series that are not on the page whose values are kept, and of those forgotten the names."""


@dataclass(slots=True)
class SeriesMemory:
    """Last value of each series of one set of counters."""

    _last: Counters | None = None
    _page: int = 0
    _absent: dict[SeriesKey, tuple[float, int]] = field(default_factory=dict)
    _forgotten: dict[SeriesKey, None] = field(default_factory=dict)
    _overflowed: bool = False

    @property
    def lacking(self) -> bool:
        """Whether there were series that are not on the last page."""
        return bool(self._absent or self._forgotten or self._overflowed)

    def start(self, counters: Counters) -> None:
        """Know nothing but ``counters``."""
        self._last = counters
        self._absent.clear()
        self._forgotten.clear()
        self._overflowed = False

    def advance(self, counters: Counters) -> Counters | None:
        """Remember ``counters``; return what to compare them with, None for the first ones.

        A series that did not exist before is not in it.
        """
        last, self._last = self._last, counters
        self._page += 1
        if last is None or (not self._absent and last.keys() == counters.keys()):
            return last
        before = {key: self._before(key, value, last) for key, value in counters.items()}
        for key, value in last.items():
            if key not in counters:
                self._absent[key] = value, self._page
        self._forget()
        return {key: value for key, value in before.items() if value is not None}

    def known(self, key: SeriesKey) -> float | None:
        """Return the last value of a series, None when there is none."""
        value = (self._last or {}).get(key)
        return self._absent[key][0] if value is None and key in self._absent else value

    def _before(self, key: SeriesKey, value: float, last: Counters) -> float | None:
        if key in last:
            return last[key]
        if key in self._absent:
            return self._absent.pop(key)[0]
        if key in self._forgotten:
            del self._forgotten[key]
            return value
        return value if self._overflowed else None

    def _forget(self) -> None:
        """Forget those absent for long, and the longest absent of too many."""
        for key, (_, page) in list(self._absent.items()):
            if self._page - page < FORGOTTEN_AFTER and len(self._absent) <= MOST_ABSENT:
                break
            del self._absent[key]
            if len(self._forgotten) < MOST_ABSENT:
                self._forgotten[key] = None
            else:
                self._overflowed = True


@dataclass(slots=True)
class CounterDelta:
    """What one set of counters gained from page to page."""

    _memory: SeriesMemory = field(default_factory=SeriesMemory)

    def advance(self, counters: Counters, *, restarted: bool = False) -> float:
        """Return the gain summed over series, and remember ``counters``."""
        last = self._memory.advance(counters)
        if last is None:
            return 0.0
        if restarted:
            self._memory.start(counters)
            return sum(counters.values())
        return sum(gain(value, last.get(key)) for key, value in counters.items())

    def went_back(self, counters: Counters) -> bool:
        """Return whether every family's sum is lower than on the last page.

        One series or one family that starts over is no restart of the engine. Only
        series known from before are compared, and families that had counted anything.
        """
        families: dict[str, list[float]] = {}
        for key, value in counters.items():
            last = self._memory.known(key)
            if last is not None:
                sums = families.setdefault(key[0], [0.0, 0.0])
                sums[0] += last
                sums[1] += value
        counted = [(before, after) for before, after in families.values() if before > 0]
        return bool(counted) and all(after < before for before, after in counted)


def gain(value: float, last: float | None) -> float:
    """Return what one series gained; one that went backwards started over."""
    return value if last is None or value < last else value - last


@dataclass(slots=True)
class HistogramDelta:
    """Observations and seconds that a histogram gained."""

    _counts: SeriesMemory = field(default_factory=SeriesMemory)
    _sums: SeriesMemory = field(default_factory=SeriesMemory)

    def advance(self, histogram: Histogram, *, restarted: bool = False) -> tuple[float, float]:
        """Return (observations, mean in seconds) gained since the last page.

        The mean is 0 when nothing was observed. Sum and count of a series start over
        together, because a restart can leave the sum above its last value. A sum that goes
        back while its count does not contradicts itself: that page tells nothing of the series.
        """
        counts = self._counts.advance(histogram.counts)
        sums = self._sums.advance(histogram.sums)
        if counts is None or sums is None:
            return 0.0, 0.0
        if restarted:
            self._counts.start(histogram.counts)
            self._sums.start(histogram.sums)
            counts = {}
        gained = total = 0.0
        for key, count in histogram.counts.items():
            before = counts.get(key)
            if before is None or count < before:
                gained, total = gained + count, total + histogram.sums[key]
            elif histogram.sums[key] >= sums[key]:
                gained, total = gained + count - before, total + histogram.sums[key] - sums[key]
        return (gained, max(0.0, total) / gained) if gained > 0 else (0.0, 0.0)


@dataclass(slots=True)
class OutcomeDelta:
    """Failures and successes that an engine's own counters gained."""

    _failures: dict[int, CounterDelta] = field(default_factory=dict)
    _successes: CounterDelta = field(default_factory=CounterDelta)
    _saturations: CounterDelta = field(default_factory=CounterDelta)

    def advance(self, outcomes: Outcomes, *, restarted: bool = False) -> tuple[float, float, float]:
        """Return (failures, successes, refusals) gained since the last page, in requests.

        The engine reports one failure in several ways, so the largest gain counts;
        refusals under load are no failures and are taken off.
        """
        failed = 0.0
        for way, counters in enumerate(outcomes.failures):
            delta = self._failures.setdefault(way, CounterDelta())
            failed = max(failed, delta.advance(counters, restarted=restarted))
        refused = self._saturations.advance(outcomes.saturations, restarted=restarted)
        succeeded = self._successes.advance(outcomes.successes, restarted=restarted)
        return max(0.0, failed - refused), succeeded, refused
