"""Reading values from the rows of one page: alternatives, aggregation, value rules.

Missing is not zero. A value that is NaN, negative or out of range is a gap with a
reason. A sum needs every one of its series; a maximum serves from those that can be
read, because it is a lower bound either way.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scorer.core.samples import Counters, Histogram, Reading, SeriesKey
from scorer.core.vocabulary import Gap
from scorer.sources.exposition import Row
from scorer.sources.schema import Condition, CounterSource, HistogramSource, SignalSource

ROUNDING = 1.05
"""A ratio up to here is a full one with rounding errors; beyond, it is no ratio."""

_PROCESS_LABEL = "pid"


@dataclass(frozen=True, slots=True)
class View:
    """The rows of a page that count, and the families that it declares."""

    rows: Mapping[str, Sequence[Row]]
    declared: frozenset[str]

    def mentions(self, family: str) -> bool:
        """Return whether the page has the family, with rows or without."""
        return family in self.declared or family in self.rows

    def shows(self, condition: Condition) -> bool:
        """Return whether a row of the family has all labels of ``condition``."""
        rows = self.rows.get(condition.family, ())
        return any(all(label in row.labels for label in condition.labels) for row in rows)

    def meets(self, condition: Condition) -> bool:
        """As :meth:`shows`, but a condition without labels holds for a bare declaration too."""
        return self.shows(condition) or (not condition.labels and self.mentions(condition.family))

    def chosen(self, source: SignalSource | CounterSource) -> list[Row]:
        """Return the rows of the source's family that its ``where`` selects."""
        where = source.where.items()
        return [
            row
            for row in self.rows.get(source.family, ())
            if all(row.labels.get(label, "") in values for label, values in where)
        ]

    def nothing(self, family: str) -> Gap:
        """Return why there is no row to read."""
        return Gap.NO_SAMPLES if self.mentions(family) else Gap.FAMILY_ABSENT


def checked(value: float, unit: str = "number") -> float | Gap:
    """Return ``value`` when it means something, otherwise the reason why not."""
    if not math.isfinite(value):
        return Gap.NOT_A_NUMBER
    if value < 0:
        return Gap.NEGATIVE
    if unit == "ratio" and value > 1:
        return 1.0 if value <= ROUNDING else Gap.OUT_OF_RANGE
    return value


def reading(view: View, sources: Iterable[SignalSource]) -> Reading:
    """Return the first alternative that can be read, or the gap that says most."""
    best = Gap.FAMILY_ABSENT
    for source in sources:
        value = _value(view, source)
        if not isinstance(value, Gap):
            return Reading(value)
        if best in (Gap.FAMILY_ABSENT, Gap.NO_SAMPLES) and value != Gap.FAMILY_ABSENT:
            best = value
    return Reading.missing(best)


def _value(view: View, source: SignalSource) -> float | Gap:
    rows = view.chosen(source)
    if not rows:
        return view.nothing(source.family)
    values = _by_process(rows, [_of_row(row, source) for row in rows])
    good = [value for value in values if not isinstance(value, Gap)]
    gaps = [value for value in values if isinstance(value, Gap)]
    if gaps and (source.aggregate == "sum" or not good):
        return gaps[0]
    return checked(sum(good)) if source.aggregate == "sum" else max(good)


def _of_row(row: Row, source: SignalSource) -> float | Gap:
    if not source.label_product:
        return checked(row.value, source.unit)
    try:
        numbers = [float(row.labels.get(label, "")) for label in source.label_product]
    except ValueError:
        return Gap.NOT_A_NUMBER
    return checked(math.prod(numbers), source.unit)


def _by_process(rows: Sequence[Row], values: Sequence[float | Gap]) -> Sequence[float | Gap]:
    """Return one value per series: of one that several processes print, the largest.

    Which process saw the engine last cannot be told from the page, and the larger
    load is the safer one.
    """
    if not any(_PROCESS_LABEL in row.labels for row in rows):
        return values
    largest: dict[SeriesKey, float | Gap] = {}
    for row, value in zip(rows, values, strict=True):
        name, labels = row.key
        series = (name, tuple(pair for pair in labels if pair[0] != _PROCESS_LABEL))
        known = largest.get(series, value)
        if isinstance(known, Gap) or (not isinstance(value, Gap) and value > known):
            known = value
        largest[series] = known
    return list(largest.values())


def histogram(view: View, sources: Iterable[HistogramSource]) -> Histogram:
    """Return sums and counts of the first family with a readable series."""
    best = Gap.FAMILY_ABSENT
    for source in sources:
        found = _histogram(view, source.family)
        if isinstance(found, Histogram):
            return found
        best = found if best is Gap.FAMILY_ABSENT else best
    return Histogram(gap=best)


def _histogram(view: View, family: str) -> Histogram | Gap:
    """Pair the series of sums with those of counts; a series without both is left out."""
    totals = {row.key[1]: row.value for row in view.rows.get(f"{family}_sum", ())}
    counts: dict[SeriesKey, float] = {}
    sums: dict[SeriesKey, float] = {}
    gaps: list[Gap] = []
    for row in view.rows.get(f"{family}_count", ()):
        labels = row.key[1]
        count, total = checked(row.value), checked(totals.get(labels, math.nan))
        if isinstance(count, Gap) or isinstance(total, Gap):
            gaps += [gap for gap in (count, total) if isinstance(gap, Gap)]
        else:
            counts[family, labels], sums[family, labels] = count, total
    if counts:
        return Histogram(sums, counts)
    return gaps[0] if gaps else view.nothing(family)


def counters(view: View, source: CounterSource) -> Counters | None:
    """Return the readable series of ``source``, None when the page cannot tell them.

    A series that cannot be read is left out: it has no delta.
    """
    rows = view.chosen(source)
    if not rows and not (source.sparse and view.mentions(source.family)):
        return None
    return {row.key: row.value for row in rows if not isinstance(checked(row.value), Gap)}


def first_counters(view: View, sources: Iterable[CounterSource]) -> Counters:
    """Return the first alternative that the page tells, empty when it tells none."""
    for source in sources:
        found = counters(view, source)
        if found is not None:
            return found
    return {}
