"""Orders of operators as they come over HTTP: who may give them, and what a body says.

A body is at most a few lines; it is looked at only once its sender is trusted.
"""

from collections.abc import Iterable, Mapping
from typing import IO, Annotated, Any

from pydantic import Field, ValidationError

from scorer.config.errors import problems_of
from scorer.config.types import Duration, Strict, at_least
from scorer.core.orders import Order
from scorer.core.vocabulary import Verb
from scorer.feedback.trust import Trust, bearer
from scorer.http.feedback import decode
from scorer.http.problems import Problem, printable, too_large

MOST_BYTES = 8192
LONGEST_REASON = 200
MOST_PROBLEMS = 5
"""Problems that one answer names."""
CONTENT_TYPE = "application/json"


class _Brief(Strict):
    """What every order may say: why it is given."""

    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""


class _Drain(_Brief):
    """For how long besides; without an end when it does not say."""

    duration: Annotated[Duration, at_least("1s", "30d")] | None = None


class _Cooldown(_Brief):
    """For how long besides."""

    duration: Annotated[Duration, at_least("1s", "1h")] | None = None


_BODIES: Mapping[Verb, type[_Brief]] = {Verb.DRAIN: _Drain, Verb.COOLDOWN: _Cooldown}


def refusal(
    trust: Trust, peer: str | None, authorization: str, headers: Iterable[str]
) -> Problem | None:
    """Return why an order from ``peer`` is not taken, None when it is.

    ``authorization`` is the value of that header, ``headers`` are the names of all.
    """
    # WSGI has the bytes of headers as Latin-1.
    known = authorization.encode("latin-1", "replace").decode("utf-8", "replace")
    distrust = trust.refusal(peer, bearer(known), headers)
    if distrust is None:
        return None
    if distrust.token_helps:
        return Problem(401, "unauthorized", distrust.message)
    return Problem(403, "forbidden", distrust.message)


def read_order(verb: Verb, content_type: str, stream: IO[bytes]) -> Order | Problem:
    """Return the order in a request's body, or what is wrong with it.

    An empty body is none: it may be that of a client that went away.
    """
    if content_type != CONTENT_TYPE:
        rule = f'Content-Type: must be {CONTENT_TYPE}, got "{content_type[:60]}"'
        return Problem(415, "unsupported_media_type", rule)
    body = stream.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        return too_large(MOST_BYTES)
    try:
        document = decode(body)
    except ValueError as error:
        return Problem(400, "bad_data", f"the body must be JSON: {error}")
    if not isinstance(document, dict):
        return Problem(400, "bad_data", "the body must be a JSON object")
    return _order(verb, document)


def _order(verb: Verb, document: dict[str, Any]) -> Order | Problem:
    kind = _BODIES.get(verb, _Brief)
    try:
        body = kind.model_validate(document)
    except ValidationError as error:
        problems = [printable(each) for each in problems_of(error, kind)[:MOST_PROBLEMS]]
        return Problem(400, "bad_data", "; ".join(problems))
    seconds = body.duration if isinstance(body, _Drain | _Cooldown) else None
    return Order(verb, seconds, printable(body.reason))
