"""Prometheus text pages: the rows of wanted families, or why the page cannot be trusted.

One regular expression finds the wanted lines; nothing else is looked at, so a page
costs what its wanted rows cost. Labels are parsed by prometheus_client and
remembered, because a target prints the same series again with every scrape.

A page is read in runs of whole lines, of at most :data:`CHUNK` bytes, because nothing
else in the process gets its turn while one is searched. Between two of them the reader
asks whether it may go on, and rows are bounded in number and in text: what a hostile
page costs does not depend on what it says.

A page is applied whole or not at all: one malformed wanted line, one series with two
values, one line that is longer than a chunk or a cut end fails it.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from scorer.core.samples import ScrapeFailed, SeriesKey
from scorer.core.vocabulary import ScrapeFailure

MAX_ROWS = 10_000
"""Wanted rows of one page; an engine prints some dozens."""

MAX_TEXT = 1024 * 1024
"""Characters of all wanted rows of one page."""

CHUNK = 65_536
"""Bytes of a page that are searched at a time, and of the longest line."""

_SHOWN = 80
_KNOWN_SERIES = 32_768
"""Series whose parsed labels are remembered, over all targets."""
_KNOWN_TEXT = 8 * 1024 * 1024
"""Characters of all series that are remembered."""
_KNOWN_LENGTH = 2048
"""Characters of the longest series that is remembered; the longest real one has 1,096."""
_BOM = b"\xef\xbb\xbf"
_NO_LABELS = "cannot read the labels"
_NO_VALUE = "cannot read the value"
_NAME = re.compile(r"[a-zA-Z0-9_:]*")
_ESCAPES = {"\\\\": ("\ud800", "\\"), '\\"': ("\ud801", '"'), "\\n": ("\ud802", "\n")}
"""What stands for each escape while a row is parsed, in no decoded text, and its meaning."""
_LABELS = re.compile(r'[ \t]*+\{(?:[^"}]++|"(?:[^"\\]++|\\.)*+")*+\}')

Series = tuple[SeriesKey, Mapping[str, str]]
"""Identity and labels; equal series share one identity object."""


class Row(NamedTuple):
    """One sample: its labels (none empty), its identity and its value."""

    labels: Mapping[str, str]
    key: SeriesKey
    value: float


class Exposition:
    """Wanted rows by series name, and the wanted families that TYPE lines declare."""

    __slots__ = ("_body", "_declared", "_names", "rows")

    def __init__(
        self, rows: Mapping[str, list[Row]], body: bytes = b"", names: frozenset[str] = frozenset()
    ) -> None:
        """Keep the rows of ``body``; its TYPE lines for ``names`` are looked at when asked for."""
        self.rows = rows
        self._body = body
        self._names = names
        self._declared: frozenset[str] | None = None

    @property
    def declared(self) -> frozenset[str]:
        """The wanted families that TYPE lines name."""
        if self._declared is None:
            chunks = _chunks(self._body) if self._names else ()
            find = _types(self._names).findall
            found = (find(_text(self._body, start, end)) for start, end in chunks)
            self._declared = frozenset(itertools.chain.from_iterable(found))
        return self._declared


def unhurried() -> None:
    """Let reading go on, however long it takes."""


def parse_exposition(
    body: bytes,
    content_type: str,
    names: frozenset[str],
    *,
    complete: bool,
    check: Callable[[], object] = unhurried,
) -> Exposition | ScrapeFailed:
    """Return the rows of ``names`` on the page, or the reason to drop the page.

    ``complete`` says that the transport proved the body whole; without that the last
    line must end in a line feed. ``check`` is called before each chunk and raises
    TimeoutError when the page has taken too long.
    """
    openmetrics = content_type.startswith("application/openmetrics-text")
    end = _cut_end(body, openmetrics=openmetrics, complete=complete)
    if end is not None:
        return ScrapeFailed(ScrapeFailure.TRUNCATED, end)
    collected = _Collected(names, openmetrics=openmetrics)
    for start, stop in _chunks(body):
        try:
            check()
        except TimeoutError:
            detail = f"reading the page took too long ({start} of {len(body)} bytes read)"
            return ScrapeFailed(ScrapeFailure.TIMEOUT, detail)
        if refused := collected.take(body, start, stop):
            return refused
    return Exposition(collected.rows, body, names)


def _cut_end(body: bytes, *, openmetrics: bool, complete: bool) -> str | None:
    if openmetrics and not body.rstrip(b"\r\n").endswith(b"# EOF"):
        return "the page does not end in # EOF: cut short"
    if not complete and not body.endswith(b"\n"):
        tail = body[-4 * _SHOWN :].decode("utf-8", "replace")[-_SHOWN:]
        return f"the last line has no line feed: cut short at {shown(tail)}"
    return None


def _chunks(body: bytes) -> Iterator[tuple[int, int]]:
    """Yield where runs of whole lines start and end, and alone each line that is too long."""
    start = len(_BOM) if body.startswith(_BOM) else 0
    while start < len(body):
        end = start + CHUNK
        if end >= len(body):
            end = len(body)
        elif (last := body.rfind(b"\n", start, end + 1)) >= 0:
            end = last
        elif (end := body.find(b"\n", end)) < 0:
            end = len(body)
        yield start, end
        start = end + 1


def _text(body: bytes, start: int, end: int) -> str:
    """Return a chunk with the line feed that its first line follows."""
    return "\n" + body[start:end].decode()


class _Collected:
    """The wanted rows of the chunks of a page."""

    def __init__(self, names: frozenset[str], *, openmetrics: bool) -> None:
        self.rows: dict[str, list[Row]] = {}
        self._find = _rows(names)
        self._openmetrics = openmetrics
        self._values: dict[SeriesKey, float] = {}
        self._count = self._length = 0

    def take(self, body: bytes, start: int, end: int) -> ScrapeFailed | None:
        """Add the rows of one chunk; return why the page must be dropped instead."""
        if end - start > CHUNK:
            line = body[start : start + _SHOWN].decode("utf-8", "replace")
            return _malformed(body, start, f"line too long ({end - start} bytes)", line)
        try:
            text = _text(body, start, end)
        except UnicodeDecodeError as error:
            detail = f"not a text page: byte {start + error.start} is not UTF-8"
            return ScrapeFailed(ScrapeFailure.WRONG_CONTENT, detail)
        lines = self._find.findall(text)
        self._count += len(lines)
        self._length += sum(map(len, lines))
        if self._count > MAX_ROWS:
            detail = f"more than {MAX_ROWS} rows of wanted families"
            return ScrapeFailed(ScrapeFailure.TOO_LARGE, detail)
        if self._length > MAX_TEXT:
            detail = f"more than {MAX_TEXT} characters in rows of wanted families"
            return ScrapeFailed(ScrapeFailure.TOO_LARGE, detail)
        for number, line in enumerate(lines):
            try:
                self._add(_row(_without_exemplar(line) if self._openmetrics else line))
            except ValueError as error:
                match = next(itertools.islice(self._find.finditer(text), number, None))
                at = start + len(text[1 : match.start() + 1].encode())
                return _malformed(body, at, str(error), match.group())
        return None

    def _add(self, row: Row) -> None:
        key, value = row.key, row.value
        known = self._values.setdefault(key, value)
        if known != value:
            _same(known, value)
        name = key[0]
        if name in self.rows:
            self.rows[name].append(row)
        else:
            self.rows[name] = [row]


def _same(known: float, value: float) -> None:
    """Refuse two values of one series; NaN, which equals nothing, is the same as NaN."""
    if not (math.isnan(known) and math.isnan(value)):
        raise ValueError(f"the same series again, {value:g} after {known:g}")


@lru_cache(maxsize=64)
def _rows(names: frozenset[str]) -> re.Pattern[str]:
    """Match a line feed and a wanted row, which is the only group."""
    return re.compile(rf"\n[ \t]*+((?:{_any_of(names)})(?![a-zA-Z0-9_:]).*)")


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
    if "#" not in line:
        return line
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
_remembered = [0]
"""Characters of the texts that are remembered."""


def _row(line: str) -> Row:
    end = line.rfind("}") + 1 or len(_name(line))
    series = _series.get(line[:end])
    if series is None:
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
    """Return identity and labels of a series, and remember what a short ``text`` means."""
    key, labels = _parsed(text)
    if len(text) > _KNOWN_LENGTH:
        return key, labels
    if len(_series) >= _KNOWN_SERIES or _remembered[0] >= _KNOWN_TEXT:
        _series.clear()
        _identities.clear()
        _remembered[0] = 0
    _remembered[0] += len(text)
    key = _identities.setdefault(key, key)
    _series[text] = key, labels
    return key, labels


def _parsed(text: str) -> Series:
    """Return identity and labels of a series; an empty label equals none.

    The parser's time grows with the square of escaped quotes, so it is shown no escapes.
    """
    if escaped := "\\" in text:
        for escape, (mark, _) in _ESCAPES.items():
            text = text.replace(escape, mark)
    try:
        (family,) = text_string_to_metric_families(f"{text} 0")
        (sample,) = family.samples
    except Exception as error:  # whatever the parser trips over, the line is malformed
        raise ValueError(_NO_LABELS) from error
    if sample.name != _name(text):
        raise ValueError(_NO_LABELS)
    given = {label: text for label, text in sample.labels.items() if text}
    if escaped:
        given = {_unmarked(label): _unmarked(text) for label, text in given.items()}
    return (sample.name, tuple(sorted(given.items()))), given


def _unmarked(text: str) -> str:
    for mark, meaning in _ESCAPES.values():
        text = text.replace(mark, meaning)
    return text


def _before_timestamp(text: str) -> float:
    try:
        value, _ = (float(part) for part in text.split())
    except ValueError:
        raise ValueError(_NO_VALUE) from None
    return value


def _malformed(body: bytes, start: int, why: str, line: str) -> ScrapeFailed:
    """Return the failure of the line that starts at a byte of the page."""
    at = body.count(b"\n", 0, start) + 1
    return ScrapeFailed(ScrapeFailure.PARSE, f"line {at}: {why}: {shown(line.strip())}")


def shown(text: str) -> str:
    """Return ``text`` quoted for a message, cut to 80 characters."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
