"""Bytes of a pick's answer in each of its forms.

A 200 carries the headers of the bodiless form too, so a caller that can only see
headers (Envoy ext_authz takes nothing but 200 for a yes) needs no body, and one that
can only see the body needs no headers. Refusals are JSON in every form.

Headers are kept as the bytes that go over the wire: an answer is written in one piece
by whoever owns the connection, and read back line by line where a list is asked for.
"""

from collections.abc import Callable
from functools import lru_cache
from json import JSONEncoder
from typing import NamedTuple

from scorer.core.pick import Choice
from scorer.core.snapshot import PoolView
from scorer.core.table import Row
from scorer.http.parameters import Format, Refused
from scorer.pick_stats import PickFailure

Headers = list[tuple[bytes, bytes]]

RETRY_AFTER = "retry-after: 1\r\n"
"""Seconds: a scrape or two later the pool may have a target again."""
JSON_TYPE = (b"content-type", b"application/json")
JSON_START = "content-type: application/json\r\ncontent-length: "
TEXT_START = "content-type: text/plain; charset=utf-8\r\ncontent-length: "
REMEMBERED = 8192
"""Names whose text is remembered."""

HEADERS, TEXT = Format.HEADERS, Format.TEXT

quoted: Callable[[str], str] = lru_cache(REMEMBERED)(JSONEncoder().encode)


class Answer(NamedTuple):
    """An HTTP answer, with the pool and the failure it counts under.

    ``head`` is the header lines, each with its line end.
    """

    status: int
    head: bytes
    body: bytes
    pool: str
    failure: PickFailure | None = None

    @property
    def headers(self) -> Headers:
        """The header lines as pairs."""
        lines = self.head.split(b"\r\n")[:-1]
        return [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]


class Texts(NamedTuple):
    """What answers say of a target, as of one view of its pool.

    ``name`` stands in headers, ``item`` in lists; ``fixed`` are the headers that do not
    depend on the pick, ``opening`` and ``tail`` the body up to the alternates and after
    the pick's id.
    """

    name: str
    item: str
    fixed: str
    opening: str
    tail: str


def texts(pool: PoolView, row: Row, *, panic: bool) -> Texts:
    """Return the texts of a target."""
    score = None if row.score is None else round(row.score, 2)
    return written(
        row.target, row.url, score, pool.name, overloaded=pool.overloaded, panic=panic
    )  # fmt: skip


@lru_cache(REMEMBERED)
def written(
    target: str, url: str, score: float | None, pool: str, *, overloaded: bool, panic: bool
) -> Texts:
    """Write the texts of a target; remembered, as most are the same in the next view."""
    name = "".join(each if each.isascii() and each.isprintable() else "?" for each in target)
    item = quoted(target)
    points = "" if score is None else repr(score)
    fixed = f"x-scorer-target: {name}\r\nx-scorer-panic: {panic:d}\r\n"
    if points:
        fixed += f"x-scorer-score: {points}\r\n"
    if overloaded:
        fixed += "x-scorer-overloaded: 1\r\n"
    opening = f'{{"target":{item},"url":{quoted(url)},"alternates":['
    panics = "true" if panic else "false"
    tail = f'","score":{points or "null"},"pool":{quoted(pool)},"panic":{panics}}}'
    return Texts(name, item, fixed, opening, tail)


def kept(pool: PoolView, row: Row) -> Texts:
    """Return the texts of a target outside of special cases; kept with its row."""
    made = row.texts = texts(pool, row, panic=pool.panic)
    return made


def picked(pool: PoolView, choice: Choice, pick_id: str, form: Format) -> Answer:
    """Return the answer that names the target of ``choice``."""
    row = choice.row
    if choice.panic is pool.panic:
        name, _, fixed, opening, tail = row.texts or kept(pool, row)
    else:
        name, _, fixed, opening, tail = texts(pool, row, panic=choice.panic)
    others = [other.texts or kept(pool, other) for other in choice.alternates]
    head = f"{fixed}x-scorer-pick-id: {pick_id}\r\nx-scorer-endpoints: {name}"
    if others:
        names = ",".join([other[0] for other in others])
        head = f"{head},{names}\r\nx-scorer-alternates: {names}\r\n"
    else:
        head += "\r\n"
    if form is HEADERS:
        return Answer(204, head.encode("latin-1"), b"", pool.name)
    if form is TEXT:
        return whole(200, head, TEXT_START, row.target.encode(), pool.name)
    items = ",".join([other[1] for other in others])
    body = f'{opening}{items}],"pick_id":"{pick_id}{tail}'.encode()
    return whole(200, head, JSON_START, body, pool.name)


def whole(
    status: int, head: str, kind: str, body: bytes, pool: str, failure: PickFailure | None = None
) -> Answer:
    """Return an answer with a body of a ``kind``, which is the start of its headers."""
    head = f"{head}{kind}{len(body)}\r\n"
    return Answer._make((status, head.encode("latin-1"), body, pool, failure))


def refused(refusal: Refused) -> Answer:
    """Return the JSON error of a request that gets no target."""
    body = f'{{"status":"error","errorType":"{refusal.reason}","error":{quoted(refusal.message)}}}'
    head = RETRY_AFTER if refusal.status == 503 else ""
    return whole(refusal.status, head, JSON_START, body.encode(), refusal.pool, refusal.reason)
