"""Ways to choose rows of a metrics page, and to make one value of them.

A row is chosen by its family and its labels. Label values are compared with
shell-style patterns (``5*``); a label that a row does not have equals "".
"""

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import translate
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]
"""One text or a list of them."""

Family = Annotated[str, Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:.]*$")]
"""Name of a metric family or of one of its series (``…_count``); in JSON pages a path."""

Label = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]


class Data(BaseModel):
    """A part of a data file: frozen, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class OfFamily(Data):
    """Something about one family."""

    family: Family

    def families(self) -> Iterator[str]:
        """Yield the names of all series that are looked at."""
        yield self.family


class Condition(OfFamily):
    """Holds for a page with ``family``, all of ``labels`` on one of its rows."""

    labels: tuple[str, ...] = ()


def _choice(texts: tuple[str, ...]) -> Callable[[str], object]:
    """Return a test whether a text is one of ``texts``, which may be patterns."""
    plain = frozenset(text for text in texts if not set(text) & set("*?["))
    if len(plain) == len(texts):
        return plain.__contains__
    patterns = "|".join(translate(text) for text in texts)
    return re.compile(patterns).match


class Rows(OfFamily):
    """Rows of ``family`` whose labels fit ``where`` and do not fit any of ``where_not``.

    ``among`` keeps rows whose value of a label stands on a row of another family too.
    """

    where: dict[str, Texts] = {}
    where_not: dict[str, Texts] = {}
    among: dict[str, Family] = {}

    @cached_property
    def _rules(self) -> tuple[tuple[str, Callable[[str], object], bool], ...]:
        wanted = [(label, _choice(texts), True) for label, texts in self.where.items()]
        barred = [(label, _choice(texts), False) for label, texts in self.where_not.items()]
        return (*wanted, *barred)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether a row with ``labels`` is chosen, ``among`` aside."""
        return all(bool(fits(labels.get(label, ""))) is good for label, fits, good in self._rules)

    def families(self) -> Iterator[str]:
        """Yield the names of all series that are looked at."""
        yield self.family
        yield from self.among.values()


class CounterSource(Rows):
    """Cumulative series.

    ``sparse`` tells when nothing counted prints nothing: of a known family the
    ``series``, or the whole ``family``. ``digits``: values are printed with so many
    significant digits, so a series that has grown too large is not seen moving.
    """

    sparse: Literal["series", "family"] | None = None
    digits: Annotated[int, Field(ge=1)] | None = None

    @property
    def coarse_from(self) -> float:
        """The value from which one printed step is more than ten."""
        return float("inf") if self.digits is None else 10.0 ** (self.digits + 1)


class HistogramSource(Rows):
    """A histogram of seconds, or of what ``scale`` says; its sum and count are read.

    ``sum`` and ``count`` name two counters that stand in for a histogram.
    """

    scale: Literal["milliseconds", "microseconds"] | None = None
    sum: Family | None = None
    count: Family | None = None

    @property
    def sum_name(self) -> str:
        """The series that holds the sums."""
        return self.sum or f"{self.family}_sum"

    @property
    def count_name(self) -> str:
        """The series that holds the counts."""
        return self.count or f"{self.family}_count"

    @property
    def factor(self) -> float:
        """Seconds per unit of the sums."""
        return {None: 1.0, "milliseconds": 1e-3, "microseconds": 1e-6}[self.scale]

    def families(self) -> Iterator[str]:
        """Yield the names of all series that are looked at."""
        yield from super().families()
        yield from (self.sum_name, self.count_name)


class SignalSource(Rows):
    """One value: the chosen rows, each combined with its partners, aggregated over the page.

    Partners of a row are those of ``plus``, ``minus``, ``over`` and ``times`` with the
    same labels but for those that the two choose by. ``label_product`` takes a row's
    value from the product of the numbers in those labels instead of its sample. A
    ``ratio`` must be 0-1; with ``scale`` percent it is written 0-100. With ``only_while``
    it is an alternative only while a row of that family is above 0.
    """

    aggregate: Literal["sum", "max", "min"]
    unit: Literal["number", "ratio"] = "number"
    scale: Literal["percent"] | None = None
    label_product: tuple[str, ...] = ()
    plus: Rows | None = None
    minus: Rows | None = None
    over: Rows | None = None
    times: Rows | None = None
    only_while: Family | None = None

    @cached_property
    def terms(self) -> tuple[tuple[str, Rows], ...]:
        """The partners, by the name of what is done with them."""
        named = (("plus", self.plus), ("minus", self.minus), ("over", self.over))
        return tuple((n, r) for n, r in (*named, ("times", self.times)) if r is not None)

    @cached_property
    def chosen_by(self) -> frozenset[str]:
        """The labels that it and its partners choose rows by; they do not tell series apart."""
        if not self.terms:
            return frozenset()
        return frozenset(self.where).union(*(rows.where for _, rows in self.terms))

    def families(self) -> Iterator[str]:
        """Yield the names of all series that are looked at."""
        yield from super().families()
        for _, rows in self.terms:
            yield from rows.families()
        if self.only_while is not None:
            yield self.only_while
