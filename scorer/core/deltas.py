"""What cumulative series gained between two scrapes.

Deltas are taken per series before they are summed. The first page is a baseline:
its history is not one interval's traffic. A series that goes backwards starts over
and counts from zero; a series that is new on a later page did not exist before and
counts from zero too. After a restart of the engine everything counts from zero.
"""

from dataclasses import dataclass, field

from scorer.core.samples import Counters, Histogram, Outcomes


@dataclass(slots=True)
class CounterDelta:
    """Last value of each series of one set of counters."""

    _last: Counters | None = None

    def advance(self, counters: Counters, *, restarted: bool = False) -> float:
        """Return the gain summed over series, and remember ``counters``."""
        last = self._last
        self._last = counters if last is None or restarted else remembered(last, counters)
        if last is None:
            return 0.0
        if restarted:
            return sum(counters.values())
        return sum(gain(value, last.get(key)) for key, value in counters.items())

    def went_back(self, counters: Counters) -> bool:
        """Return whether every family's sum is lower than on the last page.

        One series or one family that starts over is no restart of the engine. Only
        series on both pages are compared, and families that had counted anything.
        """
        last = self._last or {}
        families: dict[str, list[float]] = {}
        for key, value in counters.items():
            if key in last:
                sums = families.setdefault(key[0], [0.0, 0.0])
                sums[0] += last[key]
                sums[1] += value
        counted = [(before, after) for before, after in families.values() if before > 0]
        return bool(counted) and all(after < before for before, after in counted)


def gain(value: float, last: float | None) -> float:
    """Return what one series gained; one that went backwards started over."""
    return value if last is None or value < last else value - last


def remembered(last: Counters, counters: Counters) -> Counters:
    """Return the values to compare with next: a series missing from one page keeps its last."""
    return counters if last.keys() <= counters.keys() else {**last, **counters}


@dataclass(slots=True)
class HistogramDelta:
    """Observations and seconds that a histogram gained."""

    _counts: Counters | None = None
    _sums: Counters = field(default_factory=dict)

    def advance(self, histogram: Histogram, *, restarted: bool = False) -> tuple[float, float]:
        """Return (observations, mean in seconds) gained since the last page.

        The mean is 0 when nothing was observed. Sum and count of a series start over
        together, because a restart can leave the sum above its last value.
        """
        counts, sums = self._counts, self._sums
        if counts is None or restarted:
            self._counts, self._sums = histogram.counts, histogram.sums
        else:
            self._counts = remembered(counts, histogram.counts)
            self._sums = remembered(sums, histogram.sums)
        if counts is None:
            return 0.0, 0.0
        gained = total = 0.0
        for key, count in histogram.counts.items():
            before = None if restarted else counts.get(key)
            if before is None or count < before:
                gained, total = gained + count, total + histogram.sums[key]
            else:
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
