"""Reading single values from the rows of one page: alternatives, partners, aggregation.

Missing is not zero. A value that is NaN, negative or out of range is a gap with a
reason. A sum needs every one of its series; a maximum serves from those that can be
read, because it is a lower bound either way.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from scorer.core.samples import Reading
from scorer.core.vocabulary import Gap
from scorer.mappings.rows import Rows, SignalSource
from scorer.sources.exposition import Row
from scorer.sources.view import View, checked

Series = tuple[tuple[str, str], ...]
"""Labels that tell a series from others, as sorted pairs."""

Value = float | Gap

_COMBINED: Mapping[str, Callable[[float, float], float]] = {
    "plus": lambda value, partner: value + partner,
    "minus": lambda value, partner: value - partner,
    "times": lambda value, partner: value * partner,
    "over": lambda value, partner: value / partner if partner else math.nan,
}


def reading(
    view: View, sources: Sequence[SignalSource], copies: Collection[str] = ("pid",)
) -> Reading:
    """Return the first alternative that can be read, or the gap that says most.

    Rows that differ in the labels ``copies`` alone are one series.
    """
    best = Gap.FAMILY_ABSENT if sources else Gap.NOT_OFFERED
    for source in sources:
        value = _value(view, source, copies)
        if not isinstance(value, Gap):
            return Reading(value)
        if best in (Gap.FAMILY_ABSENT, Gap.NO_SAMPLES) and value != Gap.FAMILY_ABSENT:
            best = value
    return Reading.missing(best)


def _value(view: View, source: SignalSource, copies: Collection[str]) -> Value:
    if source.only_while and not _above_zero(view, source.only_while):
        return Gap.FAMILY_ABSENT
    rows = view.chosen(source)
    if not rows:
        return view.nothing(source.family)
    if len(rows) == 1 and not source.terms:
        return _scaled(_of_row(rows[0], source), source)
    values = _values(view, source, rows, copies)
    good = [value for value in values if not isinstance(value, Gap)]
    gaps = [value for value in values if isinstance(value, Gap)]
    if gaps and (source.aggregate == "sum" or not good):
        return gaps[0]
    if source.aggregate == "sum":
        return checked(sum(good))
    return max(good) if source.aggregate == "max" else min(good)


def _above_zero(view: View, family: str) -> bool:
    return any(row.value > 0.0 for row in view.rows.get(family, ()))


def _values(
    view: View, source: SignalSource, rows: Sequence[Row], copies: Collection[str]
) -> Collection[Value]:
    """Return one value per series."""
    values = [_of_row(row, source) for row in rows]
    if not source.terms and not _copied(rows, copies):
        return [_scaled(value, source) for value in values]
    ignored = {*copies, *source.chosen_by}
    by_series = _by_series(rows, values, ignored)
    for operation, partner in source.terms:
        by_series = _joined(view, by_series, operation, partner, ignored)
    return [_scaled(value, source) for value in by_series.values()]


def _copied(rows: Sequence[Row], copies: Collection[str]) -> bool:
    return len(rows) > 1 and any(label in row.labels for row in rows for label in copies)


def _of_row(row: Row, source: SignalSource) -> Value:
    if not source.label_product:
        return checked(row.value)
    try:
        numbers = [float(row.labels.get(label, "")) for label in source.label_product]
    except ValueError:
        return Gap.NOT_A_NUMBER
    return checked(math.prod(numbers))


def _scaled(value: Value, source: SignalSource) -> Value:
    if isinstance(value, Gap):
        return value
    return checked(value / 100.0 if source.scale else value, source.unit)


def _by_series(
    rows: Sequence[Row], values: Sequence[Value], ignored: Collection[str]
) -> dict[Series, Value]:
    """Return one value per series: of one that several processes print, the largest.

    Which process saw the engine last cannot be told from the page, and the larger
    load is the safer one. Labels that are ``ignored`` do not tell series apart.
    """
    largest: dict[Series, Value] = {}
    for row, value in zip(rows, values, strict=True):
        series = tuple(pair for pair in row.key[1] if pair[0] not in ignored)
        known = largest.get(series, value)
        if isinstance(known, Gap) or (not isinstance(value, Gap) and value > known):
            known = value
        largest[series] = known
    return largest


def _joined(
    view: View,
    values: Mapping[Series, Value],
    operation: str,
    partner: Rows,
    ignored: Collection[str],
) -> dict[Series, Value]:
    """Return each value combined with its partner; a series without one is a gap."""
    rows = view.chosen(partner)
    found = _by_series(rows, [checked(row.value) for row in rows], ignored)
    missing = Gap.NO_SAMPLES if rows else view.nothing(partner.family)
    joined: dict[Series, Value] = {}
    for series, value in values.items():
        other = found.get(series, missing)
        if isinstance(value, Gap) or isinstance(other, Gap):
            joined[series] = value if isinstance(value, Gap) else other
        else:
            joined[series] = checked(_COMBINED[operation](value, other))
    return joined
