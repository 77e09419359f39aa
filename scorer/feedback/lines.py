"""Log records of proxies as feedback items.

A datagram holds one record or several, a line each: ``<190>Nov 30 01:14:08 edge nginx:
{…}`` from nginx, bare JSON or any other prefix from HAProxy. Everything before the first
brace is for people. A record has the fields of an item; those that a proxy can only
write in its own way are put right here: milliseconds, -1 for what did not happen, and 009
for the status of an answer that is no HTTP.
"""

import json
from collections.abc import Iterator
from typing import Any

MILLISECONDS = {"ttft_ms": "ttft_seconds", "duration_ms": "duration_seconds"}
LONGEST_LINE = 65_536
NO_HTTP = "009"
"""nginx's own status; it says that the engine's was 200, as HTTP 0.9 had none."""

_decode = json.JSONDecoder(parse_constant=lambda _: None).raw_decode


def records(data: bytes) -> Iterator[dict[str, Any] | None]:
    """Yield the record of each line of a datagram, None for a line that has none."""
    for line in data[:LONGEST_LINE].decode("utf-8", "replace").splitlines():
        if line.strip("\0 \t"):
            yield _record(line)


def _record(line: str) -> dict[str, Any] | None:
    start = line.find("{")
    if start < 0:
        return None
    try:
        record, _ = _decode(line, start)
    except (ValueError, RecursionError):
        return None
    return translated(record)


def translated(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with a proxy's own ways of writing put right."""
    for name, ours in MILLISECONDS.items():
        if name in record:
            record.setdefault(ours, _seconds(record.pop(name)))
    for name in ("status", "gateway_status"):
        if record.get(name) in (-1, "-1"):
            record[name] = 0
    statuses = record.get("status", "")
    if record.get("gateway_status") == NO_HTTP and isinstance(statuses, str):
        earlier, comma, _ = statuses.rpartition(",")
        record["status"], record["gateway_status"] = f"{earlier}{comma}0", 0
    return record


def _seconds(milliseconds: object) -> object:
    """Return milliseconds as seconds, None for less than 0; what is no number stays."""
    try:
        number = float(milliseconds)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return milliseconds
    return None if number < 0 else number / 1000.0
