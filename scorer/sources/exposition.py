"""Prometheus text pages: the rows of wanted families, or why the page cannot be trusted.

One regular expression finds the wanted lines; nothing else is looked at, so a page
costs what its wanted rows cost. Labels are parsed by prometheus_client and
remembered, because a target prints the same series again with every scrape.

A page is applied whole or not at all: one malformed wanted line, one series with two
values or a cut end fails it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from scorer.core.samples import ScrapeFailed, SeriesKey
from scorer.core.vocabulary import ScrapeFailure

MAX_ROWS = 10_000
"""Wanted rows of one page; an engine prints some dozens."""

_SHOWN = 80
_LONGEST = 65_536
_NO_LABELS = "cannot read the labels"
_NO_VALUE = "cannot read the value"
_LABELS = re.compile(r'\s*\{(?:[^"}]|"(?:\\.|[^"\\])*")*\}')


class Row(NamedTuple):
    """One sample: its labels (none empty), its identity and its value."""

    labels: Mapping[str, str]
    key: SeriesKey
    value: float


@dataclass(frozen=True, slots=True)
class Exposition:
    """Wanted rows by series name, and the wanted families that TYPE lines declare."""

    rows: Mapping[str, list[Row]]
    declared: frozenset[str]


def parse_exposition(
    body: bytes, content_type: str, names: frozenset[str], *, complete: bool
) -> Exposition | ScrapeFailed:
    """Return the rows of ``names`` on the page, or the reason to drop the page.

    ``complete`` says that the transport proved the body whole; without that the last
    line must end in a line feed.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        detail = f"not a text page: byte {error.start} is not UTF-8"
        return ScrapeFailed(ScrapeFailure.WRONG_CONTENT, detail)
    openmetrics = content_type.startswith("application/openmetrics-text")
    end = _cut_end(text, openmetrics=openmetrics, complete=complete)
    if end is not None:
        return ScrapeFailed(ScrapeFailure.TRUNCATED, end)
    return _collect("\n" + text, names, openmetrics=openmetrics)


def _cut_end(text: str, *, openmetrics: bool, complete: bool) -> str | None:
    if openmetrics and not text.rstrip("\r\n").endswith("# EOF"):
        return "the page does not end in # EOF: cut short"
    if not complete and not text.endswith("\n"):
        return f"the last line has no line feed: cut short at {shown(text[-_SHOWN:])}"
    return None


def _collect(text: str, names: frozenset[str], *, openmetrics: bool) -> Exposition | ScrapeFailed:
    rows: dict[str, list[Row]] = {}
    declared: set[str] = set()
    values: dict[SeriesKey, float] = {}
    for match in _pattern(names).finditer(text):
        is_type, name, rest = match.groups()
        if is_type:
            declared.add(name)
            continue
        try:
            row = _row(name, _without_exemplar(rest) if openmetrics else rest)
            _remember(values, row)
        except ValueError as error:
            return _malformed(text, match, error)
        rows.setdefault(name, []).append(row)
        if len(values) > MAX_ROWS:
            detail = f"more than {MAX_ROWS} rows of wanted families"
            return ScrapeFailed(ScrapeFailure.TOO_LARGE, detail)
    return Exposition(rows, frozenset(declared))


@lru_cache(maxsize=16)
def _pattern(names: frozenset[str]) -> re.Pattern[str]:
    """Match a line feed and a wanted line: whether it is a TYPE line, the name, what follows.

    Names are grouped by their prefix, so that most lines fail on their first letters.
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        prefix, colon, suffix = name.rpartition(":")
        groups.setdefault(prefix + colon, []).append(suffix)
    choices = "|".join(f"{prefix}(?:{'|'.join(ends)})" for prefix, ends in groups.items())
    return re.compile(rf"\n[ \t]*(# TYPE )?({choices})(?![a-zA-Z0-9_:])(.*)")


def _without_exemplar(rest: str) -> str:
    labels = _LABELS.match(rest)
    end = labels.end() if labels else 0
    return rest[:end] + rest[end:].partition("#")[0]


def _row(name: str, rest: str) -> Row:
    labels, brace, value = rest.rpartition("}")
    if len(rest) > _LONGEST:
        raise ValueError("line too long")
    series = _series(name, labels + brace)
    return Row(series[1], series[0], _value(value))


@lru_cache(maxsize=32_768)
def _series(name: str, labels: str) -> tuple[SeriesKey, Mapping[str, str]]:
    """Return identity and labels of a series; an empty label equals none."""
    try:
        (family,) = text_string_to_metric_families(f"{name}{labels} 0")
        (sample,) = family.samples
    except Exception as error:  # whatever the parser trips over, the line is malformed
        raise ValueError(_NO_LABELS) from error
    if sample.name != name:
        raise ValueError(_NO_LABELS)
    given = {label: text for label, text in sample.labels.items() if text}
    return (name, tuple(sorted(given.items()))), given


def _value(text: str) -> float:
    """Return the value, which a timestamp may follow, as Prometheus writes numbers."""
    if "_" in text or not text.isascii():
        raise ValueError(_NO_VALUE)
    try:
        return float(text)
    except ValueError:
        return _before_timestamp(text)


def _before_timestamp(text: str) -> float:
    try:
        value, _ = (float(part) for part in text.split())
    except ValueError:
        raise ValueError(_NO_VALUE) from None
    return value


def _remember(values: dict[SeriesKey, float], row: Row) -> None:
    """Keep the row's value, and refuse another value of the same series."""
    known = values.setdefault(row.key, row.value)
    if known != row.value and not (math.isnan(known) and math.isnan(row.value)):
        raise ValueError(f"the same series again, {row.value:g} after {known:g}")


def _malformed(text: str, match: re.Match[str], error: ValueError) -> ScrapeFailed:
    number = text.count("\n", 0, match.start()) + 1
    line = shown(match.group().strip())
    return ScrapeFailed(ScrapeFailure.PARSE, f"line {number}: {error}: {line}")


def shown(text: str) -> str:
    """Return ``text`` quoted for a message, cut to 80 characters."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
