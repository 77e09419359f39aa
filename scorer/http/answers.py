"""Bytes of a pick's answer in each of its forms.

A 200 carries the headers of the bodiless form too, so a caller that can only see
headers (Envoy ext_authz takes nothing but 200 for a yes) needs no body, and one that
can only see the body needs no headers. Refusals are JSON in every form.
"""

from collections.abc import Callable
from functools import lru_cache
from json import JSONEncoder
from typing import NamedTuple

from scorer.core.pick import Choice
from scorer.core.snapshot import PoolView
from scorer.http.parameters import Format, Refused
from scorer.pick_stats import PickFailure

Headers = list[tuple[bytes, bytes]]

RETRY_AFTER = (b"retry-after", b"1")
"""Seconds: a scrape or two later the pool may have a target again."""
JSON_TYPE = (b"content-type", b"application/json")
TEXT_TYPE = (b"content-type", b"text/plain; charset=utf-8")
REMEMBERED = 8192
"""Targets and scores whose text is remembered; more only cost the time to write them anew."""

HEADERS, TEXT = Format.HEADERS, Format.TEXT

quoted: Callable[[str], str] = JSONEncoder().encode


class Answer(NamedTuple):
    """An HTTP answer, with the pool and the failure it counts under."""

    status: int
    headers: Headers
    body: bytes
    pool: str
    failure: PickFailure | None = None


class Wire(NamedTuple):
    """A target as it is sent: ``name`` in headers, ``item`` in lists, ``opening`` of the body."""

    name: bytes
    item: str
    opening: str


@lru_cache(REMEMBERED)
def wire(target: str, url: str) -> Wire:
    """Return the texts of a target, which no snapshot changes."""
    item = quoted(target)
    opening = f'{{"target":{item},"url":{quoted(url)},"alternates":['
    return Wire(target.encode("latin-1", "replace"), item, opening)


@lru_cache(REMEMBERED)
def number(score: float) -> str:
    """Return a score as a JSON number with at most two decimals."""
    return repr(round(score, 2))


def picked(pool: PoolView, choice: Choice, pick_id: str, form: Format) -> Answer:
    """Return the answer that names the target of ``choice``."""
    view = choice.target
    target = wire(view.target, view.url)
    others = [wire(other.target, other.url) for other in choice.alternates]
    score = None if view.score is None else number(view.score)
    headers = choice_headers(choice, target, others, pick_id, score)
    if form is HEADERS:
        return Answer(204, headers, b"", pool.name)
    if form is TEXT:
        body = view.target.encode()
        headers.append(TEXT_TYPE)
    else:
        names = ",".join([other.item for other in others])
        body = (
            f'{target.opening}{names}],"pick_id":"{pick_id}","score":{score or "null"},'
            f'"pool":{quoted(pool.name)},"panic":{"true" if choice.panic else "false"}}}'
        ).encode()
        headers.append(JSON_TYPE)
    headers.append((b"content-length", b"%d" % len(body)))
    return Answer(200, headers, body, pool.name)


def choice_headers(
    choice: Choice, target: Wire, others: list[Wire], pick_id: str, score: str | None
) -> Headers:
    """Return the ``X-Scorer-*`` headers; what there is none of has no header."""
    headers = [
        (b"x-scorer-target", target.name),
        (b"x-scorer-pick-id", pick_id.encode()),
        (b"x-scorer-panic", b"1" if choice.panic else b"0"),
    ]
    if others:
        names = b",".join([other.name for other in others])
        headers.append((b"x-scorer-alternates", names))
        headers.append((b"x-scorer-endpoints", target.name + b"," + names))
    else:
        headers.append((b"x-scorer-endpoints", target.name))
    if score is not None:
        headers.append((b"x-scorer-score", score.encode()))
    return headers


def refused(refusal: Refused) -> Answer:
    """Return the JSON error of a request that gets no target."""
    body = (
        f'{{"status":"error","errorType":"{refusal.reason}","error":{quoted(refusal.message)}}}'
    ).encode()
    headers = [JSON_TYPE, (b"content-length", b"%d" % len(body))]
    if refusal.status == 503:
        headers.append(RETRY_AFTER)
    return Answer(refusal.status, headers, body, refusal.pool, refusal.reason)
