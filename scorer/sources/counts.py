"""Reading cumulative values from the rows of one page, series by series."""

import math
from collections.abc import Iterable, Sequence

from scorer.core.samples import Counters, Histogram, Outcomes, SeriesKey
from scorer.core.vocabulary import Gap
from scorer.mappings.engine import OutcomeSources
from scorer.mappings.rows import CounterSource, HistogramSource
from scorer.sources.view import View, checked


def histogram(view: View, sources: Sequence[HistogramSource]) -> Histogram:
    """Return sums and counts of the first family with a readable series."""
    best = Gap.FAMILY_ABSENT if sources else Gap.NOT_OFFERED
    for source in sources:
        found = _histogram(view, source)
        if isinstance(found, Histogram):
            return found
        best = found if best is Gap.FAMILY_ABSENT else best
    return Histogram(gap=best)


def _histogram(view: View, source: HistogramSource) -> Histogram | Gap:
    """Pair the series of sums with those of counts; a series without both is left out."""
    factor = source.factor
    totals = {row.key[1]: row.value * factor for row in view.chosen(source, source.sum_name)}
    rows = view.chosen(source, source.count_name)
    counts: dict[SeriesKey, float] = {}
    sums: dict[SeriesKey, float] = {}
    gaps: list[Gap] = []
    for row in rows:
        labels = row.key[1]
        count, total = checked(row.value), checked(totals.get(labels, math.nan))
        if isinstance(count, Gap) or isinstance(total, Gap):
            gaps += [gap for gap in (count, total) if isinstance(gap, Gap)]
        else:
            counts[source.family, labels], sums[source.family, labels] = count, total
    if counts:
        return Histogram(sums, counts)
    if gaps:
        return gaps[0]
    return Gap.NO_SAMPLES if view.mentions(source.count_name) else view.nothing(source.family)


def counters(view: View, source: CounterSource) -> Counters | None:
    """Return the readable series of ``source``, None when the page cannot tell them.

    A series that cannot be read is left out: it has no delta.
    """
    rows = view.chosen(source)
    if not rows and not _counted_nothing(view, source):
        return None
    limit = source.coarse_from
    return {row.key: row.value for row in rows if 0.0 <= row.value < limit}


def _counted_nothing(view: View, source: CounterSource) -> bool:
    if source.sparse == "family":
        return True
    return source.sparse == "series" and view.mentions(source.family)


def merged_counters(view: View, sources: Iterable[CounterSource]) -> Counters:
    """Return the series of all ``sources`` that the page tells."""
    found: dict[SeriesKey, float] = {}
    for source in sources:
        found.update(counters(view, source) or {})
    return found


def _first_counters(view: View, sources: Iterable[CounterSource]) -> Counters:
    """Return the first alternative that the page tells, empty when it tells none."""
    for source in sources:
        found = counters(view, source)
        if found is not None:
            return found
    return {}


def outcomes(view: View, sources: OutcomeSources) -> Outcomes:
    """Read every way of counting failures, each always in its own place."""
    ways = [counters(view, source) for source in sources.failures]
    return Outcomes(
        failures=tuple(way or {} for way in ways),
        successes=_first_counters(view, sources.successes),
        saturations=_first_counters(view, sources.saturations),
        gap=None if any(way is not None for way in ways) else _silence(view, sources),
    )


def _silence(view: View, sources: OutcomeSources) -> Gap:
    """Return why no way of counting failures can be read."""
    if not sources.failures:
        return Gap.NOT_OFFERED
    declared = any(view.mentions(source.family) for source in sources.failures)
    return Gap.NO_SAMPLES if declared else Gap.FAMILY_ABSENT
