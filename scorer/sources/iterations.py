"""JSON pages of iteration records, as TensorRT-LLM's trtllm-serve has them.

A page is a list of records, one per iteration and rank, and reading it empties it. Of
each rank the newest record counts, also when this page has none of that rank. An empty
list means that nothing happened since the last read, if we are the only reader: a first
one repeats the last values, from the second on the engine is idle. Numbers that are
missing between two records betray another reader; then an empty list tells nothing.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any

from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import Gap, ScrapeFailure
from scorer.json_errors import why
from scorer.sources.exposition import CHUNK, MAX_ROWS, Row, unhurried
from scorer.sources.view import View

RANK = "attentionDpRank"
NUMBER = "iter"
IDLE_AFTER = 2
"""Empty lists in a row that mean idle."""

MAX_JSON = 4 * 1024 * 1024
"""Bytes of the longest page; a thousand records, as many as an engine keeps, have a fourth."""
MAX_RANKS = 256
MAX_DEPTH = 4
"""Levels of a record below which nothing is read."""

Values = Mapping[str, float]

_BLANKS = re.compile(r"[ \t\r\n]*+")
_EMPTY = re.compile(r"\[[ \t\r\n]*+\]")
_decode = json.JSONDecoder().raw_decode


class Iterations:
    """The newest record of each rank, over the reads of one target."""

    def __init__(self) -> None:
        """Start with no record."""
        self._newest: dict[str, Values] = {}
        self._empty = 0
        self._shared = False

    def read(
        self,
        body: bytes,
        idle_zero: Collection[str],
        check: Callable[[], object] = unhurried,
    ) -> View | Gap | ScrapeFailed:
        """Return the rows that ``body`` stands for, or why there are none.

        ``idle_zero`` are the values that are 0 while the engine is idle. ``check`` raises
        TimeoutError when the page has taken too long.
        """
        try:
            records = _records(body, check)
        except TimeoutError:
            detail = f"reading the page took too long ({len(body)} bytes)"
            return ScrapeFailed(ScrapeFailure.TIMEOUT, detail)
        if isinstance(records, ScrapeFailed):
            return records
        if records:
            return self._take(records) or _view(self._newest)
        self._empty += 1
        if not self._newest:
            return Gap.IDLE
        if self._empty < IDLE_AFTER:
            return _view(self._newest)
        return Gap.DRAINED if self._shared else _view(self._newest, idle_zero)

    def _take(self, records: list[dict[str, Any]]) -> ScrapeFailed | None:
        """Take over the newest record of each rank; return why that is not possible."""
        self._empty = 0
        newest: dict[str, dict[str, Any]] = {}
        skipped: list[bool] = []
        for record in records:
            rank = str(record.get(RANK) or 0)
            if rank not in newest:
                number, last = record.get(NUMBER), self._newest.get(rank, {}).get(NUMBER)
                if last is not None and isinstance(number, int | float):
                    if number < last:  # the engine started over, perhaps with fewer ranks
                        self._newest.clear()
                    skipped.append(number > last + 1)
            newest[rank] = record
        self._newest |= {rank: dict(_numbers("", record)) for rank, record in newest.items()}
        if skipped:
            self._shared = any(skipped)
        if len(self._newest) > MAX_RANKS or sum(map(len, self._newest.values())) > MAX_ROWS:
            self._newest.clear()
            detail = f"more than {MAX_RANKS} ranks or {MAX_ROWS} values in their records"
            return ScrapeFailed(ScrapeFailure.TOO_LARGE, detail)
        return None


def _records(body: bytes, check: Callable[[], object]) -> list[dict[str, Any]] | ScrapeFailed:
    if len(body) > MAX_JSON:
        return ScrapeFailed(ScrapeFailure.TOO_LARGE, f"more than {MAX_JSON} bytes of JSON")
    try:
        text = body.decode("utf-8-sig").strip()
        found = list(islice(_elements(text, check), MAX_ROWS + 1))
    except (UnicodeDecodeError, RecursionError) as error:
        return ScrapeFailed(ScrapeFailure.PARSE, f"not valid JSON: {why(error)}")
    except ValueError as error:
        return ScrapeFailed(ScrapeFailure.PARSE, f"not valid JSON: {error}")
    if len(found) > MAX_ROWS:
        return ScrapeFailed(ScrapeFailure.TOO_LARGE, f"more than {MAX_ROWS} records")
    if not all(isinstance(each, dict) for each in found):
        return ScrapeFailed(
            ScrapeFailure.WRONG_CONTENT, "a JSON document that is no list of records, not metrics"
        )
    return found


def _elements(text: str, check: Callable[[], object]) -> Iterator[Any]:
    """Yield the elements of the list that ``text`` is, looking at a chunk of it at a time.

    Nothing else in the process gets its turn while JSON is decoded.
    """
    base, at, mark = 1, 0, ","  # behind the bracket that the reader has seen
    window = text[base : base + CHUNK]
    if _EMPTY.fullmatch(text):
        return
    while mark == ",":
        at = _skipped(window, at)
        element, end, mark = _element(window, at)
        if not mark and at > 0 and base + len(window) < len(text):
            check()
            base, at, mark = base + at, 0, ","
            window = text[base : base + CHUNK]
            continue
        if not mark:
            raise ValueError(f"{element or 'no comma'} at character {base + end}")
        yield element
        at = end + 1
    if mark != "]" or base + at != len(text):
        raise ValueError(f"more than a list, at character {base + at}")


def _element(window: str, at: int) -> tuple[Any, int, str]:
    """Return the element that starts there, its end and what follows.

    When nothing follows, or it cannot be read, that is "", and the element is why.
    """
    try:
        element, end = _decode(window, at)
    except json.JSONDecodeError as error:
        return error.msg, error.pos, ""
    except ValueError as error:
        raise ValueError(why(error)) from None
    end = _skipped(window, end)
    mark = window[end : end + 1]
    return (element if mark else None), end, mark


def _skipped(text: str, at: int) -> int:
    """Return where the blanks that start there end."""
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


def _numbers(prefix: str, record: Mapping[str, Any], depth: int = 1) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a record by their path; what is null is not there."""
    for name, value in record.items():
        if isinstance(value, dict):
            if depth < MAX_DEPTH:
                yield from _numbers(f"{prefix}{name}.", value, depth + 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", _float(value)


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _view(newest: Mapping[str, Values], zeroed: Collection[str] = ()) -> View:
    rows: dict[str, list[Row]] = {}
    for rank, values in newest.items():
        labels = {RANK: rank}
        for name, value in values.items():
            key = (name, ((RANK, rank),))
            rows.setdefault(name, []).append(Row(labels, key, 0.0 if name in zeroed else value))
    return View(rows)
