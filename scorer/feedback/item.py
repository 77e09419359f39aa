"""One feedback item: what a gateway tells of a request, checked and made uniform.

An item has one attempt per target that the gateway tried; only the last one has headers,
a body and a time to first token. Unknown fields are ignored.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from scorer.core.evidence import BODY_LIMIT
from scorer.core.rules import Fact
from scorer.feedback import fields
from scorer.feedback.fields import ItemError, problem

LONGEST = 86_400.0
"""Seconds that a request may take at most."""
MOST_TOKENS = 1_000_000_000
MOST_REQUESTS = 1_000_000.0
BELIEVED = 0.001
"""Seconds below which a time to first token is no measurement."""
NAME_LENGTH = 512
CLIENT_CLOSED = 499

_NOBODY = frozenset({"", "-", "-:-", "-:0", "<NOSRV>"})
"""How proxies write the target of a request that they sent to nobody."""
_UNUSUAL = frozenset({
    "error_body", "event", "finish_reason", "gateway_status", "headers", "kv_cache",
    "output_tokens", "stream_error", "termination", "waiting",
})  # fmt: skip
"""Fields that most reports do without; looking for each of them is a third of reading one."""
_LOAD = re.compile(r"(num_requests_waiting|kv_cache_usage_perc)\"?\s?[=:]\s?([0-9.eE+-]{1,24})")


class Event(StrEnum):
    """What happened to the request."""

    FIRST_TOKEN = "first_token"  # noqa: S105 - a word
    DONE = "done"


class Attempt(NamedTuple):
    """One try: ``target`` is None when it is not named, "" when nobody was asked."""

    target: str | None
    status: int | None
    waited: float | None


class Item(NamedTuple):
    """What a gateway tells. Durations in seconds; None and "" are not told.

    ``ttft`` is the time to first token where it is one; ``facts`` are bits of
    :class:`~scorer.core.rules.Fact`; ``waiting`` are requests, ``kv_cache`` is a ratio.
    """

    pick_id: str
    pool: str
    event: Event
    attempts: tuple[Attempt, ...]
    facts: int = 0
    ttft: float | None = None
    prompt_tokens: int | None = None
    headers: Mapping[str, str] = {}
    body: str = ""
    termination: str = ""
    waiting: float | None = None
    kv_cache: float | None = None


def read_item(raw: object, *, logged: bool = False) -> Item:
    """Return the item of a decoded JSON value; ItemError says what is wrong with it.

    ``logged``: from a proxy's log, whose targets are those that were really asked.
    """
    if not isinstance(raw, dict):
        raise ItemError(f"must be an object, got {type(raw).__name__}")
    attempts = _attempts(raw)
    pick_id = fields.text(raw, "pick_id")
    if not pick_id and attempts[-1].target is None:
        raise ItemError("must name pick_id or target")
    ttft = _ttft(raw, len(attempts))
    if _UNUSUAL.isdisjoint(raw):
        return Item(
            pick_id,
            fields.text(raw, "pool"),
            Event.DONE,
            attempts,
            _usual_facts(raw, attempts[-1], ttft, logged=logged),
            ttft if ttft is None or ttft >= BELIEVED else None,
            fields.whole(raw, "prompt_tokens", MOST_TOKENS),
        )
    headers = fields.headers(raw)
    waiting, kv_cache = _load(raw, headers)
    return Item(
        pick_id,
        fields.text(raw, "pool"),
        _event(raw),
        attempts,
        _facts(raw, attempts[-1], ttft, logged=logged),
        ttft if ttft is None or ttft >= BELIEVED else None,
        fields.whole(raw, "prompt_tokens", MOST_TOKENS),
        headers,
        _body(raw),
        fields.text(raw, "termination")[:NAME_LENGTH],
        waiting,
        kv_cache,
    )


def _event(raw: Mapping[str, Any]) -> Event:
    word = raw.get("event")
    if word is None or word == "done":
        return Event.DONE
    if word == "first_token":
        return Event.FIRST_TOKEN
    raise problem("event", "must be first_token or done", word)


def _attempts(raw: Mapping[str, Any]) -> tuple[Attempt, ...]:
    """Return the attempts; lists that are given must have one entry for each."""
    target, status = raw.get("target"), raw.get("status")
    if type(status) is int and _is_one(target) and "gateway_status" not in raw:
        return (Attempt(_target(target), fields.status(status), _waits(raw, 1)[0]),)
    targets = [_target(each) for each in fields.parts(target, "target")]
    statuses = [fields.status(each) for each in fields.parts(status, "status")]
    if len(targets) != len(statuses):
        if status is not None:
            rule = f"must list as many attempts as status ({len(statuses)})"
            raise problem("target", rule, f"{len(targets)}")
        statuses = [None] * len(targets)
    final = fields.status(raw.get("gateway_status"))
    if final is not None and (statuses[-1] is None or final == CLIENT_CLOSED):
        statuses[-1] = final
    return tuple(map(Attempt, targets, statuses, _waits(raw, len(targets))))


def _is_one(target: object) -> bool:
    return target is None or (isinstance(target, str) and "," not in target and " " not in target)


def _target(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise problem("target", "must be a string", value)
    name = value.strip()
    return "" if name in _NOBODY else name[:NAME_LENGTH]


def _waits(raw: Mapping[str, Any], attempts: int) -> list[float | None]:
    """Return how long each attempt took; one number for several says nothing of the last."""
    waits = _seconds(raw, "duration_seconds", attempts)
    return waits if len(waits) == attempts else [None] * attempts


def _ttft(raw: Mapping[str, Any], attempts: int) -> float | None:
    """Return the time to the first token of the last attempt.

    Without streaming there is none: the whole answer comes at once.
    """
    times = _seconds(raw, "ttft_seconds", attempts)
    return None if fields.flag(raw, "stream") is False else times[-1]


def _seconds(raw: Mapping[str, Any], name: str, attempts: int) -> list[float | None]:
    """Return the durations in a field: one for all, or one for each attempt."""
    given = raw.get(name)
    if given is None or type(given) is float:
        return [fields.number(given, name, LONGEST)]
    found = [fields.number(each, name, LONGEST) for each in fields.parts(given, name)]
    if len(found) not in (1, attempts):
        raise problem(name, f"must list as many attempts as target ({attempts})", f"{len(found)}")
    return found


def _facts(raw: Mapping[str, Any], last: Attempt, ttft: float | None, *, logged: bool) -> int:
    output = fields.whole(raw, "output_tokens", MOST_TOKENS)
    facts = _usual_facts(raw, last, ttft, output, logged=logged)
    error = raw.get("stream_error")
    if error if isinstance(error, str) else fields.flag(raw, "stream_error"):
        facts |= Fact.STREAM_ERROR
    if raw.get("headers") is not None and raw.get("error_body") is not None:
        facts |= Fact.ANSWERED
    return facts


def _usual_facts(
    raw: Mapping[str, Any],
    last: Attempt,
    ttft: float | None,
    output: int | None = None,
    *,
    logged: bool,
) -> int:
    """Return what tokens and target say; ``output`` is how many tokens came."""
    facts = 0
    if ttft or output:
        facts |= Fact.FIRST_TOKEN
    elif _says_no_token(raw, output):
        facts |= Fact.NO_TOKEN
    if last.target == "":
        facts |= Fact.NO_UPSTREAM
    elif logged and last.target:
        facts |= Fact.UPSTREAM
    return facts


def _says_no_token(raw: Mapping[str, Any], output: int | None) -> bool:
    """Whether the gateway watched a stream to its end and says that no token came."""
    if not fields.flag(raw, "stream") or fields.text(raw, "finish_reason"):
        return False
    return output == 0 or (output is None and raw.get("ttft_seconds", 0) is None)


def _body(raw: Mapping[str, Any]) -> str:
    body = raw.get("error_body")
    if body in fields.MISSING:
        body = raw.get("stream_error") or ""
    if isinstance(body, str):
        return body[:BODY_LIMIT]
    if raw.get("error_body"):
        raise problem("error_body", "must be a string", body)
    return ""


def _load(raw: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[float | None, float | None]:
    """Return requests waiting and KV cache usage, as fields or as the engine's load header."""
    waiting = fields.number(raw.get("waiting"), "waiting", MOST_REQUESTS)
    kv_cache = fields.number(raw.get("kv_cache"), "kv_cache", 1.0)
    if report := headers.get("endpoint-load-metrics"):
        said = dict(_LOAD.findall(report))
        waiting = _reported(said.get("num_requests_waiting"), MOST_REQUESTS, waiting)
        kv_cache = _reported(said.get("kv_cache_usage_perc"), 1.0, kv_cache)
    return waiting, kv_cache


def _reported(said: str | None, most: float, known: float | None) -> float | None:
    """Return ``known``, or else a number that a header says; nonsense there is nothing."""
    if known is not None or said is None:
        return known
    try:
        return fields.number(said, "headers", most)
    except ItemError:
        return None
