"""JSON pages of iteration records, as TensorRT-LLM's trtllm-serve has them.

A page is a list of records, one per iteration and rank, and reading it empties it. Of
each rank the newest record counts, also when this page has none of that rank. An empty
list means that nothing happened since the last read, if we are the only reader: a first
one repeats the last values, from the second on the engine is idle. Numbers that are
missing between two records betray another reader; then an empty list tells nothing.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import Gap, ScrapeFailure
from scorer.sources.exposition import Row
from scorer.sources.view import View

RANK = "attentionDpRank"
NUMBER = "iter"
IDLE_AFTER = 2
"""Empty lists in a row that mean idle."""

Values = Mapping[str, float]


class Iterations:
    """The newest record of each rank, over the reads of one target."""

    def __init__(self) -> None:
        """Start with no record."""
        self._newest: dict[str, Values] = {}
        self._empty = 0
        self._shared = False

    def read(self, body: bytes, idle_zero: Collection[str]) -> View | Gap | ScrapeFailed:
        """Return the rows that ``body`` stands for, or why there are none.

        ``idle_zero`` are the values that are 0 while the engine is idle.
        """
        records = _records(body)
        if isinstance(records, ScrapeFailed):
            return records
        if records:
            self._take(records)
            return _view(self._newest)
        self._empty += 1
        if not self._newest:
            return Gap.IDLE
        if self._empty < IDLE_AFTER:
            return _view(self._newest)
        return Gap.DRAINED if self._shared else _view(self._newest, idle_zero)

    def _take(self, records: list[dict[str, Any]]) -> None:
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


def _records(body: bytes) -> list[dict[str, Any]] | ScrapeFailed:
    try:
        found = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return ScrapeFailed(ScrapeFailure.PARSE, f"not valid JSON: {error}"[:200])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        return ScrapeFailed(
            ScrapeFailure.WRONG_CONTENT, "a JSON document that is no list of records, not metrics"
        )
    return found


def _numbers(prefix: str, record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a record by their path; what is null is not there."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _numbers(f"{prefix}{name}.", value)
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
