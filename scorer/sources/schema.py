"""What a mapping is: data that says which families of an engine mean which signal.

A value comes from the first of its sources that can be read, so renamed families
stand side by side. Mappings are checked strictly: a misspelt key is an error, not a
signal that is silently missing.
"""

from collections.abc import Iterator
from functools import cache, cached_property
from importlib import resources
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from scorer.core.vocabulary import Engine


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)]
"""One text or a list of them."""

Family = Annotated[str, Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$")]
"""Name of a metric family, or of one of its series (``…_count``)."""


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _OfFamily(_Data):
    family: Family


class Condition(_OfFamily):
    """Holds for a page with ``family``, all of ``labels`` on one of its rows."""

    labels: tuple[str, ...] = ()


class VersionRule(_Data):
    """The version range ``text`` of pages with all of ``has`` and none of ``lacks``."""

    text: str
    has: tuple[Condition, ...] = ()
    lacks: tuple[Condition, ...] = ()


class CounterSource(_OfFamily):
    """Cumulative series: rows of ``family`` whose labels have one of the values of ``where``.

    An absent label equals "". ``sparse``: a series appears with its first event, so
    a known family without rows has counted nothing yet.
    """

    where: dict[str, Texts] = {}
    sparse: bool = False


class HistogramSource(_OfFamily):
    """A histogram in seconds; its ``_sum`` and ``_count`` are read."""


class SignalSource(_OfFamily):
    """One value: rows of ``family`` chosen by ``where``, aggregated over the page.

    ``label_product`` takes each row's value from the product of the numbers in those
    labels instead of its sample. A ``ratio`` must be 0-1.
    """

    where: dict[str, Texts] = {}
    label_product: tuple[str, ...] = ()
    aggregate: Literal["sum", "max"]
    unit: Literal["number", "ratio"] = "number"


Signals = tuple[SignalSource, ...]
"""Alternatives in order."""


class SignalSources(_Data):
    """Where each value comes from; units as in :class:`scorer.core.samples.EngineSamples`.

    ``awake`` is above zero while any engine of the target takes requests.
    """

    running: Signals
    waiting: Signals
    kv_cache: Signals
    preemptions: Signals = ()
    capacity: Signals = ()
    start_time: Signals = ()
    awake: Signals = ()

    def all(self) -> Iterator[SignalSource]:
        """Yield every source of every value."""
        for name in type(self).model_fields:
            yield from getattr(self, name)


class OutcomeSources(_Data):
    """Every way in which failures are counted; alternatives for the other two."""

    failures: tuple[CounterSource, ...] = ()
    successes: tuple[CounterSource, ...] = ()
    saturations: tuple[CounterSource, ...] = ()


class Mapping(_Data):
    """What the pages of one engine generation mean; it applies when any of ``detect`` does."""

    name: str
    engine: Engine
    title: str
    detect: Annotated[tuple[Condition, ...], Field(min_length=1)]
    versions: tuple[VersionRule, ...]
    signals: SignalSources
    ttft: tuple[HistogramSource, ...] = ()
    progress: tuple[CounterSource, ...] = ()
    outcomes: OutcomeSources = OutcomeSources()

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of all families and series that the mapping looks at."""
        outcomes = (*self.outcomes.failures, *self.outcomes.successes, *self.outcomes.saturations)
        conditions = [c for rule in self.versions for c in (*rule.has, *rule.lacks)]
        plain: tuple[_OfFamily, ...] = (
            *self.detect,
            *conditions,
            *self.signals.all(),
            *self.progress,
            *outcomes,
        )
        names = {source.family for source in plain}
        for histogram in self.ttft:
            names |= {histogram.family + end for end in ("", "_sum", "_count")}
        return frozenset(names)


@cache
def load_mappings() -> tuple[Mapping, ...]:
    """Return the shipped mappings in the order in which they are tried."""
    folder = resources.files(__package__) / "mappings"
    return tuple(
        Mapping.model_validate(yaml.safe_load((folder / name).read_text("utf-8")))
        for name in ("vllm_v1.yml", "vllm_v0.yml")
    )
