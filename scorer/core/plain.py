"""Values as plain JSON types, and back, with the same check both ways.

A :class:`Form` says how one kind of value is written down and what is accepted when it is
read again. What is written was checked, so it can be read; what is read was written by
nobody knows whom, so nothing about it is taken for granted.

Moments are monotonic seconds and mean nothing to another process. They are written as ages
at the time of writing, and read relative to what that time is on the reader's clock.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from scorer.core.samples import Counters, SeriesKey

T = TypeVar("T")
Key = TypeVar("Key", bound=StrEnum)

LARGEST = 1e300
LONGEST_AGE = 100.0 * 366.0 * 86_400.0
"""Seconds that a moment may lie before or after the time of writing."""
LONGEST_TEXT = 4096
MOST_SERIES = 2048
"""Series of one set of counters; an engine of 64 ranks has a few hundred."""


class NotPlainError(ValueError):
    """A value that is not of its form; the message says what it should be."""


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """One kind of value.

    ``write(value, now)`` returns JSON types; ``read(data, then)`` returns the value, where
    ``then`` is the time of writing on the reader's clock. Both raise NotPlainError.
    """

    write: Callable[[T, float], Any]
    read: Callable[[object, float], T]


def number(low: float = -LARGEST, high: float = LARGEST) -> Form[float]:
    """Return the form of a finite number between two bounds."""

    def check(value: object) -> float:
        if type(value) not in (int, float) or not low <= value <= high:  # type: ignore[operator]
            raise NotPlainError(f"must be a number from {low:g} to {high:g}")
        return float(value)  # type: ignore[arg-type]

    return Form(lambda value, _: check(value), lambda data, _: check(data))


def whole(low: int, high: int) -> Form[int]:
    """Return the form of a whole number between two bounds."""

    def check(value: object) -> int:
        if type(value) is not int or not low <= value <= high:
            raise NotPlainError(f"must be a whole number from {low} to {high}")
        return value

    return Form(lambda value, _: check(value), lambda data, _: check(data))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise NotPlainError("must be true or false")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise NotPlainError(f"must be a text of at most {LONGEST_TEXT} characters")
    return value


FLAG: Form[bool] = Form(lambda value, _: _flag(value), lambda data, _: _flag(data))
TEXT: Form[str] = Form(lambda value, _: _text(value), lambda data, _: _text(data))


def word(words: type[Key]) -> Form[Key]:
    """Return the form of a member of a closed set."""
    known = {str(each) for each in words}

    def read(data: object, _: float) -> Key:
        if not isinstance(data, str) or data not in known:
            raise NotPlainError(f"must be a {words.__name__}")
        return words(data)

    return Form(lambda value, _: str(value), read)


def moment(*, future: bool = False) -> Form[float]:
    """Return the form of a moment, which lies in the past unless ``future`` is allowed."""
    age = number(-LONGEST_AGE if future else 0.0, LONGEST_AGE)

    def write(value: float, now: float) -> float:
        low = -LONGEST_AGE if future else 0.0
        return min(LONGEST_AGE, max(low, now - value))

    return Form(write, lambda data, then: then - age.read(data, then))


def step(seconds: float) -> Form[int]:
    """Return the form of a moment in the past as the number of the step that it falls into.

    A step lasts so many ``seconds``.
    """
    age = whole(0, int(LONGEST_AGE))
    return Form(
        lambda value, now: max(0, math.floor(now / seconds) - value),
        lambda data, then: math.floor(then / seconds) - age.read(data, then),
    )


def optional(form: Form[T]) -> Form[T | None]:
    """Return a form that has None besides."""
    return Form(
        lambda value, now: None if value is None else form.write(value, now),
        lambda data, then: None if data is None else form.read(data, then),
    )


def several(form: Form[T], most: int) -> Form[Iterable[T]]:
    """Return the form of up to ``most`` values in their order."""

    def write(values: Iterable[T], now: float) -> list[Any]:
        return [form.write(value, now) for value in _at_most(list(values), most)]

    def read(data: object, then: float) -> list[T]:
        return [form.read(each, then) for each in _at_most(_list(data), most)]

    return Form(write, read)


def row(*forms: Form[Any]) -> Form[tuple[Any, ...]]:
    """Return the form of a tuple, each part with a form of its own."""

    def write(values: tuple[Any, ...], now: float) -> list[Any]:
        return [form.write(value, now) for form, value in zip(forms, values, strict=True)]

    def read(data: object, then: float) -> tuple[Any, ...]:
        if len(parts := _list(data)) != len(forms):
            raise NotPlainError(f"must have {len(forms)} parts")
        return tuple(form.read(part, then) for form, part in zip(forms, parts, strict=True))

    return Form(write, read)


def by_word(words: type[Key], form: Form[T]) -> Form[Mapping[Key, T]]:
    """Return the form of values by members of a closed set."""
    key = word(words)

    def write(values: Mapping[Key, T], now: float) -> dict[str, Any]:
        return {str(name): form.write(value, now) for name, value in values.items()}

    def read(data: object, then: float) -> dict[Key, T]:
        return {key.read(n, then): form.read(each, then) for n, each in _dict(data).items()}

    return Form(write, read)


def made(form: Form[Any], make: Callable[[Any], T]) -> Form[T]:
    """Return a form whose values are what ``make`` makes of those that were read."""
    return Form(form.write, lambda data, then: make(form.read(data, then)))


def fields(**forms: Form[Any]) -> Form[Any]:
    """Return the form of an object's fields as a dict; each must be there, and no other.

    A field is written without the underscore that its name begins with.
    """
    names = {name.strip("_"): name for name in forms}

    def write(value: object, now: float) -> dict[str, Any]:
        return {
            short: forms[name].write(getattr(value, name), now) for short, name in names.items()
        }

    def read(data: object, then: float) -> dict[str, Any]:
        given = _dict(data)
        if given.keys() != names.keys():
            raise NotPlainError(f"must have the fields {', '.join(names)}, and no other")
        return {name: forms[name].read(given[short], then) for short, name in names.items()}

    return Form(write, read)


def record(make: Callable[..., T], **forms: Form[Any]) -> Form[T]:
    """Return the form of an object that ``make`` builds from its fields."""
    return made(fields(**forms), lambda values: make(**values))


def _write_counters(counters: Counters, now: float) -> list[Any]:
    value = number()
    return [
        [_text(name), [[_text(part) for part in label] for label in labels], value.write(each, now)]
        for (name, labels), each in _at_most(list(counters.items()), MOST_SERIES)
    ]


def _read_counters(data: object, then: float) -> dict[SeriesKey, float]:
    series = row(TEXT, several(row(TEXT, TEXT), LONGEST_TEXT), number())
    counters: dict[SeriesKey, float] = {}
    for each in _at_most(_list(data), MOST_SERIES):
        name, labels, value = series.read(each, then)
        counters[name, tuple(labels)] = value
    return counters


COUNTERS: Form[Counters] = Form(_write_counters, _read_counters)
"""Cumulative values by series."""


def _list(data: object) -> list[object]:
    if not isinstance(data, list):
        raise NotPlainError("must be a list")
    return data


def _dict(data: object) -> dict[str, object]:
    if not isinstance(data, dict):
        raise NotPlainError("must be an object")
    return data


def _at_most(values: list[T], most: int) -> list[T]:
    if len(values) > most:
        raise NotPlainError(f"must be at most {most}")
    return values
