"""The targets as CSV: one line a target, the columns of :data:`COLUMNS`, which are stable.

The values are those of the JSON. What is missing is an empty field, never 0.
"""

import csv
import io
from collections.abc import Iterable
from typing import Any

from scorer.core.vocabulary import Cause, SignalName
from scorer.http.views import Data

COLUMNS = (
    "pool", "target", "url", "engine", "engine_version", "state", "state_since", "state_reason",
    "eligible", "weight", "warmup_ratio", "score", "raw_score",
    *(f"points_lost.{cause}" for cause in Cause),
    *(f"signals.{name}.value" for name in SignalName),
    *(f"signals.{name}.unavailable" for name in SignalName),
    "running", "in_flight", "picks", "picks_per_second", "restarts",
    "cooldowns", "cooldown_seconds", "cooldown_until",
    "drain.since", "drain.until", "drain.note",
    "last_scrape.ok", "last_scrape.age", "last_scrape.duration", "last_scrape.reason",
)  # fmt: skip
"""Names of the columns: the path of the value in the JSON of a target."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def table(targets: Iterable[Data]) -> str:
    """Return the CSV of targets, as the JSON has them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([field(target, column) for column in COLUMNS] for target in targets)
    return out.getvalue()


def field(target: Data, column: str) -> str:
    """Return the value of a column, in words of JSON."""
    value: Any = target
    for key in column.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            # A spreadsheet takes text that begins like a formula for one, whoever wrote it.
            return f"'{value}" if value.startswith(FORMULA) else str(value)
        case _:
            return str(value)
