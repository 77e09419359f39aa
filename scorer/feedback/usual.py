"""The report that nearly all are: the request of a pick ended well, where it was sent.

:func:`usual_end` reads of such a report what :func:`~scorer.feedback.item.read_item`
would, in a fraction of the time, and says None of every other: what is unusual, and what
is wrong, is left to the general way. :func:`usual_record` does the same for the log line
that nginx writes of such a request.
"""

import re
from typing import NamedTuple

from scorer.core.rules import Fact
from scorer.feedback.item import BELIEVED, LONGEST, MOST_TOKENS

FIELDS = frozenset({
    "duration_seconds", "pick_id", "pool", "prompt_tokens", "status", "stream", "target",
    "ttft_seconds",
})  # fmt: skip
LOGGED = frozenset({
    "duration_seconds", "gateway_status", "headers", "pick_id", "status", "target",
})  # fmt: skip
NOT_LIMITED = {"retry-after": ""}
SUCCESSES = {str(status): status for status in range(200, 300)}
_SECONDS = re.compile(r"[0-9]{1,4}\.[0-9]{3}")
"""A duration as nginx writes it, far below :data:`~scorer.feedback.item.LONGEST`."""


class UsualEnd(NamedTuple):
    """What a usual report says: see :class:`~scorer.feedback.item.Item`.

    ``target`` and ``pool`` are None when they are not named.
    """

    pick_id: str
    status: int
    target: str | None
    pool: str | None
    facts: int
    ttft: float | None
    waited: float | None
    prompt_tokens: int | None


def usual_end(raw: object) -> UsualEnd | None:
    """Return what a usual report says, None when it is another one."""
    if type(raw) is not dict or not FIELDS.issuperset(raw):
        return None
    get = raw.get
    pick_id, status, tokens = get("pick_id"), get("status"), get("prompt_tokens")
    ttft, waited, stream = get("ttft_seconds"), get("duration_seconds"), get("stream")
    if type(pick_id) is not str or type(status) is not int or not 200 <= status < 300:
        return None
    if stream is not None and (stream is not True or ttft is None):
        return None  # A stream without a token, or no stream, means more than it says.
    if ttft is not None and (type(ttft) is not float or not 0.0 <= ttft <= LONGEST):
        return None
    if waited is not None and (type(waited) is not float or not 0.0 <= waited <= LONGEST):
        return None
    if tokens is not None and (type(tokens) is not int or not 0 <= tokens <= MOST_TOKENS):
        return None
    return UsualEnd(
        pick_id, status, get("target"), get("pool"),
        Fact.FIRST_TOKEN if ttft else 0,
        ttft if ttft is None or ttft >= BELIEVED else None,
        waited, tokens,
    )  # fmt: skip


def usual_record(raw: object) -> UsualEnd | None:
    """Return what the record of a usual log line says, None when it is another one."""
    if type(raw) is not dict or not LOGGED.issuperset(raw):
        return None
    get = raw.get
    pick_id, text, waited = get("pick_id"), get("status"), get("duration_seconds")
    if type(pick_id) is not str or type(text) is not str or get("gateway_status") != text:
        return None
    status, target = SUCCESSES.get(text), get("target")
    if status is None or get("headers") != NOT_LIMITED:
        return None
    if type(waited) is not str or not _SECONDS.fullmatch(waited):
        return None
    facts = 0 if target is None else Fact.UPSTREAM
    return UsualEnd(pick_id, status, target, None, facts, None, float(waited), None)
