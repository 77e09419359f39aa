"""``POST /feedback``: what gateways tell of finished requests, one JSON object or an array.

Answered on the event loop, like picks. A long array is worked off with pauses, so nobody
waits for it but its sender. The content type does not matter.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qsl

import structlog

from scorer.feedback import Feedback, Refused, Taken
from scorer.feedback.stats import Rejection
from scorer.feedback.trust import bearer
from scorer.http.answers import JSON_TYPE, quoted
from scorer.http.bodies import BODY_LIMIT, Gone, read_body
from scorer.http.ports import Receive, Scope, Send
from scorer.http.problems import Problem, too_large, wrong_method
from scorer.json_errors import why

MOST_ITEMS = 10_000
SLICE = 32
"""Items of an array that are applied before others get their turn."""
LOG_INTERVAL = 10.0
"""Seconds between two log lines about faults of our own."""

STATUSES = {
    Rejection.UNKNOWN_TARGET: (404, "not_found"),
    Rejection.UNKNOWN_POOL: (404, "not_found"),
    Rejection.OVERFLOW: (503, "overloaded"),
}
CHALLENGE = 'Bearer realm="scorer"'
"""Value of ``WWW-Authenticate`` in an answer of 401."""
TRUE = ("1", "true", "yes")

logger = structlog.stdlib.get_logger(__name__)


class Reply(NamedTuple):
    """An HTTP answer."""

    status: int
    body: bytes
    headers: Sequence[tuple[bytes, bytes]] = ()


def error(
    status: int, kind: str, message: str, headers: Sequence[tuple[bytes, bytes]] = ()
) -> Reply:
    """Return a JSON error."""
    return Reply(status, Problem(status, kind, message).json(), headers)


ACCEPTED = Reply(202, b'{"accepted":1,"rejected":[]}')
TOO_LARGE = Reply(413, too_large(BODY_LIMIT).json())
BROKEN = error(500, "internal", "the feedback failed, see the log")


class FeedbackEndpoint:
    """The ASGI application of ``/feedback``; runs on one event loop."""

    def __init__(self, feedback: Feedback, clock: Callable[[], float]) -> None:
        """Hand items to ``feedback``; ``clock`` returns monotonic seconds."""
        self._feedback = feedback
        self._clock = clock
        self._logged_at = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever goes wrong inside is an answer."""
        method = scope["method"]
        try:
            reply = self._refusal(method, scope["headers"], scope.get("client"))
            if reply is None:
                reply = await self._answer(scope, receive)
        except Gone:
            return
        except Exception as fault:  # noqa: BLE001 - the caller is owed an answer whatever happens
            reply = self._broken(fault)
        length = (b"content-length", b"%d" % len(reply.body))
        headers = [JSON_TYPE, length, *reply.headers]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        body = b"" if method == "HEAD" else reply.body
        await send({"type": "http.response.body", "body": body})

    def at_once(
        self,
        headers: Sequence[tuple[bytes, bytes]],
        client: tuple[str, int] | None,
        query: bytes,
        body: bytes,
    ) -> Reply | None:
        """Return the answer to a POST without pausing, None when it is too long for that."""
        try:
            reply = self._refusal("POST", headers, client)
            return self._decoded(query, body) if reply is None else reply
        except Exception as fault:  # noqa: BLE001 - the caller is owed an answer whatever happens
            return self._broken(fault)

    def _refusal(
        self,
        method: str,
        headers: Sequence[tuple[bytes, bytes]],
        client: tuple[str, int] | None,
    ) -> Reply | None:
        """Return the answer to a request whose body is not looked at, None otherwise."""
        if method != "POST":
            problem = wrong_method("/feedback", method, ["POST"])
            return Reply(problem.status, problem.json(), [(b"allow", b"POST")])
        trust = self._feedback.trust
        token = _bearer(headers) if trust.wants_token else ""
        distrust = trust.refusal(client[0] if client else None, token)
        if distrust is None:
            return None
        self._feedback.stats.reject(Rejection.UNAUTHORIZED)
        if distrust.token_helps:
            challenge = [(b"www-authenticate", CHALLENGE.encode())]
            return error(401, "unauthorized", distrust.message, challenge)
        return error(403, "forbidden", distrust.message)

    async def _answer(self, scope: Scope, receive: Receive) -> Reply:
        body = await read_body(scope, receive)
        if body is None:
            self._feedback.stats.reject(Rejection.TOO_LARGE)
            return TOO_LARGE
        query = scope["query_string"]
        reply = self._decoded(query, body)
        return await self._take_all(decode(body), *_options(query)) if reply is None else reply

    def _decoded(self, query: bytes, body: bytes) -> Reply | None:
        """Return the answer to a body, None for an array that is worked off with pauses."""
        try:
            document = decode(body)
        except ValueError as fault:
            self._feedback.stats.reject(Rejection.MALFORMED)
            return error(400, "bad_data", f"the body must be JSON: {fault}")
        explain, dry_run = _options(query)
        if isinstance(document, list):
            if not 0 < len(document) <= MOST_ITEMS:
                self._feedback.stats.reject(Rejection.MALFORMED)
                rule = f"the array must have 1 to {MOST_ITEMS} items, got {len(document)}"
                return error(400, "bad_data", rule)
            if len(document) > SLICE:
                return None
            return summary(self._slice(document, dry_run=dry_run), explain=explain)
        taken = self._feedback.take(document, dry_run=dry_run)
        if isinstance(taken, Refused):
            status, kind = STATUSES.get(taken.reason, (400, "bad_data"))
            return error(status, kind, taken.message)
        return summary([taken], explain=explain) if explain or taken.skipped else ACCEPTED

    async def _take_all(self, items: Sequence[Any], explain: bool, dry_run: bool) -> Reply:  # noqa: FBT001 - as the query has them
        taken: list[Taken | Refused] = []
        for start in range(0, len(items), SLICE):
            taken += self._slice(items[start : start + SLICE], dry_run=dry_run)
            await asyncio.sleep(0)
        return summary(taken, explain=explain)

    def _slice(self, items: Sequence[Any], *, dry_run: bool) -> list[Taken | Refused]:
        return [self._feedback.take(item, dry_run=dry_run) for item in items]

    def _broken(self, fault: Exception) -> Reply:
        now = self._clock()
        if now - self._logged_at >= LOG_INTERVAL:
            self._logged_at = now
            logger.error("Feedback failed", exc_info=fault)
        return BROKEN


class _NoNumberError(ValueError):
    """A word that Python reads as a number and JSON does not have."""


def _no_number(name: str) -> NoReturn:
    raise _NoNumberError(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_no_number)
_scan: Callable[[str, int], tuple[Any, int]] = _DECODER.scan_once  # type: ignore[attr-defined]
"""Reads one value from a place on; StopIteration when there is none."""


def decode(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return the JSON value of a body; ValueError says why there is none.

    Bytes that are no UTF-8 are replaced: a gateway may cut an error body anywhere.
    """
    text = body.decode("utf-8", "replace").lstrip("\ufeff")
    try:
        if text.startswith("{"):  # Most bodies; without a look for blanks before and after.
            try:
                value, end = _scan(text, 0)
                if end == len(text):
                    return value
            except StopIteration:
                pass  # The decoder says below what is wrong.
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(why(error)) from None


def summary(taken: Sequence[Taken | Refused], *, explain: bool) -> Reply:
    """Return the 202 that says what came of each item."""
    rejected = [
        (index, each.message) for index, each in enumerate(taken) if isinstance(each, Refused)
    ]
    skipped = [
        (index, each.skipped)
        for index, each in enumerate(taken)
        if isinstance(each, Taken) and each.skipped
    ]
    text = f'{{"accepted":{len(taken) - len(rejected)},"rejected":{_listed(rejected)}'
    if skipped:
        text += f',"skipped":{_listed(skipped)}'
    if explain:
        outcomes = [
            f'{{"index":{index},"target":{quoted(told.target)},"class":"{told.outcome}",'
            f'"reason":"{told.reason}"}}'
            for index, each in enumerate(taken)
            if isinstance(each, Taken)
            for told in each.told
        ]
        text += f',"outcomes":[{",".join(outcomes)}]'
    return Reply(202, f"{text}}}".encode("utf-8", "backslashreplace"))


def _listed(problems: Sequence[tuple[int, str]]) -> str:
    """Return what is wrong with items, by their index, as JSON."""
    each = [f'{{"index":{index},"error":{quoted(message)}}}' for index, message in problems]
    return f"[{','.join(each)}]"


def _bearer(headers: Sequence[tuple[bytes, bytes]]) -> str:
    """Return the bearer token among request headers, "" without one."""
    for name, value in headers:
        if name == b"authorization":
            return bearer(value.decode("utf-8", "replace"))
    return ""


def _options(query: bytes) -> tuple[bool, bool]:
    """Return ``explain`` and ``dry_run`` of a raw query string."""
    if not query:
        return False, False
    given = dict(parse_qsl(query.decode("utf-8", "replace")))
    return given.get("explain") in TRUE, given.get("dry_run") in TRUE
