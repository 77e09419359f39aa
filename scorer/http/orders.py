"""Orders of operators as they come over HTTP: who may give them, and what a body says.

A body is at most a few lines. That of a request to the API is looked at only once its sender
is trusted; a form brings the token in its body.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Annotated, Any
from urllib.parse import parse_qsl

from pydantic import Field, ValidationError

from scorer.config.errors import problems_of
from scorer.config.types import Duration, Strict, at_least
from scorer.core.orders import Order
from scorer.core.vocabulary import Verb
from scorer.feedback.trust import Distrust, Trust, bearer
from scorer.http.feedback import decode
from scorer.http.problems import Problem, printable, too_large

MOST_BYTES = 8192
LONGEST_REASON = 200
MOST_PROBLEMS = 5
"""Problems that one answer names."""
CONTENT_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"
MOST_FIELDS = 20
LIMITS: Mapping[Verb, tuple[str, str]] = {Verb.DRAIN: ("1s", "30d"), Verb.COOLDOWN: ("1s", "1h")}
"""The shortest and the longest duration of an order that has one."""


class _Brief(Strict):
    """What every order may say: why it is given."""

    reason: Annotated[str, Field(max_length=LONGEST_REASON)] = ""


class _Drain(_Brief):
    """For how long besides; without an end when it does not say."""

    duration: Annotated[Duration, at_least(*LIMITS[Verb.DRAIN])] | None = None


class _Cooldown(_Brief):
    """For how long besides."""

    duration: Annotated[Duration, at_least(*LIMITS[Verb.COOLDOWN])] | None = None


_BODIES: Mapping[Verb, type[_Brief]] = {Verb.DRAIN: _Drain, Verb.COOLDOWN: _Cooldown}


def refusal(
    trust: Trust, peer: str | None, authorization: str, headers: Iterable[str]
) -> Problem | None:
    """Return why an order from ``peer`` is not taken, None when it is.

    ``authorization`` is the value of that header, ``headers`` are the names of all.
    """
    # WSGI has the bytes of headers as Latin-1.
    known = authorization.encode("latin-1", "replace").decode("utf-8", "replace")
    return refused(trust.refusal(peer, bearer(known), headers))


def refused(distrust: Distrust | None) -> Problem | None:
    """Return the answer to an order of somebody who is not trusted."""
    if distrust is None:
        return None
    if distrust.token_helps:
        return Problem(401, "unauthorized", distrust.message)
    return Problem(403, "forbidden", distrust.message)


def read_order(verb: Verb, content_type: str, stream: IO[bytes]) -> Order | Problem:
    """Return the order in a request's body, or what is wrong with it.

    An empty body is none: it may be that of a client that went away.
    """
    body = _body(CONTENT_TYPE, content_type, stream)
    if isinstance(body, Problem):
        return body
    try:
        document = decode(body)
    except ValueError as error:
        return Problem(400, "bad_data", f"the body must be JSON: {error}")
    if not isinstance(document, dict):
        return Problem(400, "bad_data", "the body must be a JSON object")
    return order_of(verb, document)


@dataclass(frozen=True, slots=True)
class Form:
    """What a form says: the order by its name, in which pool ("" for all), and the token.

    ``said`` are its other fields, those that were left empty aside.
    """

    order: str = ""
    pool: str = ""
    said: Mapping[str, str] = field(default_factory=dict)
    token: str = field(default="", repr=False)


def read_form(content_type: str, stream: IO[bytes]) -> Form | Problem:
    """Return the form in a request's body, or what is wrong with it."""
    body = _body(FORM_TYPE, content_type, stream)
    if isinstance(body, Problem):
        return body
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), max_num_fields=MOST_FIELDS)
    except ValueError:
        rule = f"the form must have at most {MOST_FIELDS} fields"
        return Problem(400, "bad_data", rule)
    said = {name: value.strip() for name, value in pairs if value.strip()}
    order, pool, token = (said.pop(name, "") for name in ("order", "pool", "token"))
    return Form(order, pool, said, token)


def _body(wanted: str, content_type: str, stream: IO[bytes]) -> bytes | Problem:
    if content_type != wanted:
        rule = f'Content-Type: must be {wanted}, got "{content_type[:60]}"'
        return Problem(415, "unsupported_media_type", rule)
    body = stream.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        return too_large(MOST_BYTES)
    return body


def order_of(verb: Verb, document: Mapping[str, Any]) -> Order | Problem:
    """Return the order that the values of a body or a form make, or what is wrong with them."""
    kind = _BODIES.get(verb, _Brief)
    try:
        body = kind.model_validate(document)
    except ValidationError as error:
        problems = [printable(each) for each in problems_of(error, kind)[:MOST_PROBLEMS]]
        return Problem(400, "bad_data", "; ".join(problems))
    seconds = body.duration if isinstance(body, _Drain | _Cooldown) else None
    return Order(verb, seconds, printable(body.reason))
