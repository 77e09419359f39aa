"""The rows of one page that count, and which values on them mean something."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scorer.core.vocabulary import Gap
from scorer.mappings.rows import Condition, Rows
from scorer.sources.exposition import Exposition, Row

NO_PAGE = Exposition({})
"""Stands for the page of rows that come from elsewhere."""

ROUNDING = 1.05
"""A ratio up to here is a full one with rounding errors; beyond, it is no ratio."""


@dataclass(frozen=True, slots=True)
class View:
    """The rows of a page that count, by series name, and the ``page`` that they stand on."""

    rows: Mapping[str, Sequence[Row]]
    page: Exposition = NO_PAGE

    def mentions(self, family: str) -> bool:
        """Return whether the page has the family, with rows or without."""
        return family in self.rows or family in self.page.declared

    def shows(self, condition: Condition) -> bool:
        """Return whether a row of the family has all labels of ``condition``."""
        rows = self.rows.get(condition.family, ())
        if not condition.labels:
            return bool(rows)
        return any(all(label in row.labels for label in condition.labels) for row in rows)

    def meets(self, condition: Condition) -> bool:
        """As :meth:`shows`, but a condition without labels holds for a bare declaration too."""
        return self.shows(condition) or (not condition.labels and self.mentions(condition.family))

    def chosen(self, source: Rows, series: str | None = None) -> Sequence[Row]:
        """Return the rows that ``source`` chooses, of ``series`` instead of its family if given."""
        rows = self.rows.get(series or source.family, ())
        if source.where or source.where_not:
            rows = [row for row in rows if source.selects(row.labels)]
        for label, family in source.among.items():
            values = {row.labels.get(label) for row in self.rows.get(family, ())}
            rows = [row for row in rows if row.labels.get(label) in values]
        return rows

    def nothing(self, family: str) -> Gap:
        """Return why there is no row to read."""
        return Gap.NO_SAMPLES if self.mentions(family) else Gap.FAMILY_ABSENT


def checked(value: float, unit: str = "number") -> float | Gap:
    """Return ``value`` when it means something, otherwise the reason why not."""
    if 0.0 <= value <= 1.0:
        return value
    if not math.isfinite(value):
        return Gap.NOT_A_NUMBER
    if value < 0:
        return Gap.NEGATIVE
    if unit == "ratio" and value > 1:
        return 1.0 if value <= ROUNDING else Gap.OUT_OF_RANGE
    return value
