"""What a mapping is: data that says which families of an engine mean which signal.

A value comes from the first of its sources that can be read, so renamed families
stand side by side. Of the mappings that fit a page the one with the lowest ``order``
is used: the more particular come first.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from scorer.core.vocabulary import Engine
from scorer.durations import parse_duration
from scorer.mappings.rows import (
    Condition,
    CounterSource,
    Data,
    Family,
    HistogramSource,
    Label,
    OfFamily,
    SignalSource,
    Texts,
)

SHORTEST, LONGEST = 0.1, 300.0
"""Seconds between two scrapes, and of a scrape's deadline."""


def _duration(value: object) -> float | None:
    if not isinstance(value, str):
        raise ValueError("must be a duration such as 500ms, 15s or 1m30s")  # noqa: TRY004 - pydantic's word
    seconds = parse_duration(value)
    if not SHORTEST <= seconds <= LONGEST:
        raise ValueError("must be at least 100ms and at most 5m")
    return seconds


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("must be a path that starts with '/'")
    return text


Duration = Annotated[float, BeforeValidator(_duration)]
"""Seconds, written as a duration."""

Signals = tuple[SignalSource, ...]
"""Alternatives in order."""


class VersionRule(Data):
    """The version range ``text`` of pages with all of ``has`` and none of ``lacks``."""

    text: str
    has: tuple[Condition, ...] = ()
    lacks: tuple[Condition, ...] = ()


class SignalSources(Data):
    """Where each value comes from; units as in :class:`scorer.core.samples.EngineSamples`.

    Empty: the engine never tells it. ``awake`` is above zero while any engine of the
    target takes requests; ``asleep`` is above zero when none does.
    """

    running: Signals = ()
    waiting: Signals = ()
    kv_cache: Signals = ()
    preemptions: Signals = ()
    paused: Signals = ()
    capacity: Signals = ()
    start_time: Signals = ()
    awake: Signals = ()
    asleep: Signals = ()

    def all(self) -> Iterator[SignalSource]:
        """Yield every source of every value."""
        for name in type(self).model_fields:
            yield from getattr(self, name)


class NameList(OfFamily):
    """Names in ``labels``, separated by commas, on the row of ``family`` with the largest value."""

    labels: tuple[Label, ...]


class OutcomeSources(Data):
    """Every way in which failures are counted; alternatives for the other two."""

    failures: tuple[CounterSource, ...] = ()
    successes: tuple[CounterSource, ...] = ()
    saturations: tuple[CounterSource, ...] = ()

    def all(self) -> Iterator[CounterSource]:
        """Yield every source of every count."""
        yield from (*self.failures, *self.successes, *self.saturations)


class Mapping(Data):
    """What the pages of one engine generation mean.

    It applies when all of ``requires`` and any of ``detect`` hold. ``path`` is where
    the engine has such a page; ``interval`` and ``deadline`` (seconds) are how it wants
    to be scraped when that is not as others. Rows that differ in ``copies`` alone are
    one series that several processes print; ``parts`` is the label that tells engines on
    one page apart. ``unnamed`` are texts that stand where a
    model's name is not known. ``progress`` moves while a request is worked on;
    ``lifetime`` moves too, but says nothing of a request under way. ``idle_zero`` are
    the values of a JSON page that are 0 when the engine has nothing to report.
    ``switch_on`` says for a missing value what to switch on at the engine.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    engine: Engine = Engine.OTHER
    title: str = ""
    order: int = 0
    format: Literal["text", "json"] = "text"
    path: Annotated[str, AfterValidator(_path)] = "/metrics"
    interval: Duration | None = None
    deadline: Duration | None = None
    requires: tuple[Condition, ...] = ()
    detect: Annotated[tuple[Condition, ...], Field(min_length=1)]
    versions: tuple[VersionRule, ...] = ()
    copies: Texts = ("pid",)
    parts: Label | None = None
    unnamed: tuple[str, ...] = ()
    signals: SignalSources = SignalSources()
    ttft: tuple[HistogramSource, ...] = ()
    progress: tuple[CounterSource, ...] = ()
    lifetime: tuple[CounterSource, ...] = ()
    loras: tuple[NameList, ...] = ()
    outcomes: OutcomeSources = OutcomeSources()
    idle_zero: tuple[Family, ...] = ()
    switch_on: dict[str, str] = Field(default_factory=dict)

    def _parts(self) -> Iterator[OfFamily]:
        for rule in self.versions:
            yield from (*rule.has, *rule.lacks)
        yield from (*self.requires, *self.detect, *self.signals.all(), *self.ttft)
        yield from (*self.progress, *self.lifetime, *self.outcomes.all(), *self.loras)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of all families and series that the mapping looks at."""
        return frozenset(name for part in self._parts() for name in part.families())
