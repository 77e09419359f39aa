"""Prometheus text pages: the rows of wanted families, or why the page cannot be trusted.

One regular expression finds the wanted lines; nothing else is looked at, so a page
costs what its wanted rows cost. Labels are parsed by prometheus_client and
remembered, because a target prints the same series again with every scrape.

A page is applied whole or not at all: one malformed wanted line, one series with two
values or a cut end fails it.
"""

import itertools
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from scorer.core.samples import ScrapeFailed, SeriesKey
from scorer.core.vocabulary import ScrapeFailure

MAX_ROWS = 10_000
"""Wanted rows of one page; an engine prints some dozens."""

_SHOWN = 80
_LONGEST = 65_536
_KNOWN_SERIES = 32_768
"""Series whose parsed labels are remembered, over all targets."""
_NO_LABELS = "cannot read the labels"
_NO_VALUE = "cannot read the value"
_NAME = re.compile(r"[a-zA-Z0-9_:]*")
_LABELS = re.compile(r'\s*\{(?:[^"}]|"(?:\\.|[^"\\])*")*\}')

Series = tuple[SeriesKey, Mapping[str, str]]
"""Identity and labels; equal series share one identity object."""


class Row(NamedTuple):
    """One sample: its labels (none empty), its identity and its value."""

    labels: Mapping[str, str]
    key: SeriesKey
    value: float


class Exposition:
    """Wanted rows by series name, and the wanted families that TYPE lines declare."""

    __slots__ = ("_declared", "_names", "_text", "rows")

    def __init__(
        self, rows: Mapping[str, list[Row]], text: str = "", names: frozenset[str] = frozenset()
    ) -> None:
        """Keep the rows of ``text``; its TYPE lines for ``names`` are looked at when asked for."""
        self.rows = rows
        self._text = text
        self._names = names
        self._declared: frozenset[str] | None = None

    @property
    def declared(self) -> frozenset[str]:
        """The wanted families that TYPE lines name."""
        if self._declared is None:
            found = _types(self._names).findall(self._text) if self._names else ()
            self._declared = frozenset(found)
        return self._declared


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
    values: dict[int, float] = {}
    for number, line in enumerate(_rows(names).findall(text)):
        try:
            row = _row(_without_exemplar(line) if openmetrics else line)
            key, value = row.key, row.value
            if values.setdefault(id(key), value) != value:
                _same(values[id(key)], value)
        except ValueError as error:
            return _malformed(text, names, number, error)
        name = key[0]
        if name in rows:
            rows[name].append(row)
        else:
            rows[name] = [row]
    if len(values) > MAX_ROWS:
        detail = f"more than {MAX_ROWS} rows of wanted families"
        return ScrapeFailed(ScrapeFailure.TOO_LARGE, detail)
    return Exposition(rows, text, names)


def _same(known: float, value: float) -> None:
    """Refuse two values of one series; NaN, which equals nothing, is the same as NaN."""
    if not (math.isnan(known) and math.isnan(value)):
        raise ValueError(f"the same series again, {value:g} after {known:g}")


@lru_cache(maxsize=64)
def _rows(names: frozenset[str]) -> re.Pattern[str]:
    """Match a line feed and a wanted row, which is the only group."""
    return re.compile(rf"\n[ \t]*((?:{_any_of(names)})(?![a-zA-Z0-9_:]).*)")


@lru_cache(maxsize=64)
def _types(names: frozenset[str]) -> re.Pattern[str]:
    """Match a line feed and a TYPE line of a wanted family: its name."""
    return re.compile(rf"\n# TYPE ({_any_of(names)})(?![a-zA-Z0-9_:])")


def _any_of(names: frozenset[str]) -> str:
    """Return a pattern for any of ``names`` in which most lines fail with their first letters."""
    tree: dict[str, Any] = {}
    for name in names:
        node = tree
        for letter in name:
            node = node.setdefault(letter, {})
        node[""] = {}
    return _branches(tree)


def _branches(node: dict[str, Any]) -> str:
    branches = [re.escape(letter) + _branches(node[letter]) for letter in sorted(node) if letter]
    if len(branches) == 1 and "" not in node:
        return branches[0]
    return f"(?:{'|'.join(branches)}){'?' if '' in node else ''}" if branches else ""


def _without_exemplar(line: str) -> str:
    labels = _LABELS.match(line, len(_name(line)))
    end = labels.end() if labels else 0
    return line[:end] + line[end:].partition("#")[0]


def _name(text: str) -> str:
    """Return the series name that a row begins with."""
    match = _NAME.match(text)
    return match.group() if match else ""


_series: dict[str, Series] = {}
"""What the texts of series mean, over all targets."""
_identities: dict[SeriesKey, SeriesKey] = {}


def _row(line: str) -> Row:
    end = line.rfind("}") + 1 or len(_name(line))
    series = _series.get(line[:end])
    if series is None:
        if len(line) > _LONGEST:
            raise ValueError("line too long")
        series = _known(line[:end])
    text = line[end:]
    if "_" in text or not text.isascii():
        raise ValueError(_NO_VALUE)
    try:
        value = float(text)
    except ValueError:
        value = _before_timestamp(text)
    return Row(series[1], series[0], value)


def _known(text: str) -> Series:
    """Return identity and labels of a series, and remember what its ``text`` means."""
    key, labels = _parsed(text)
    if len(_series) >= _KNOWN_SERIES:
        _series.clear()
        _identities.clear()
    key = _identities.setdefault(key, key)
    _series[text] = key, labels
    return key, labels


def _parsed(text: str) -> Series:
    """Return identity and labels of a series; an empty label equals none."""
    try:
        (family,) = text_string_to_metric_families(f"{text} 0")
        (sample,) = family.samples
    except Exception as error:  # whatever the parser trips over, the line is malformed
        raise ValueError(_NO_LABELS) from error
    if sample.name != _name(text):
        raise ValueError(_NO_LABELS)
    given = {label: text for label, text in sample.labels.items() if text}
    return (sample.name, tuple(sorted(given.items()))), given


def _before_timestamp(text: str) -> float:
    try:
        value, _ = (float(part) for part in text.split())
    except ValueError:
        raise ValueError(_NO_VALUE) from None
    return value


def _malformed(text: str, names: frozenset[str], number: int, error: ValueError) -> ScrapeFailed:
    """Return the failure of the wanted row with that number."""
    match = next(itertools.islice(_rows(names).finditer(text), number, None))
    at = text.count("\n", 0, match.start()) + 1
    line = shown(match.group().strip())
    return ScrapeFailed(ScrapeFailure.PARSE, f"line {at}: {error}: {line}")


def shown(text: str) -> str:
    """Return ``text`` quoted for a message, cut to 80 characters."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
