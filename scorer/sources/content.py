"""What came over the wire: decompressed within a limit, and whether it can be a text page."""

import zlib

from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure

MAX_MEMBERS = 16
"""gzip members of one body; packers write one."""

_GZIP_MAGIC = b"\x1f\x8b"
_AT_A_TIME = 65_536
"""Bytes that are looked at in one step, in which nothing else gets its turn."""
BLANK = b"\xef\xbb\xbf \t\r\n"
"""What may stand before the first byte of a page: blanks and a byte-order mark."""


def decoded(body: bytes, encoding: str, limit: int) -> bytes | ScrapeFailed:
    """Return ``body`` without its Content-Encoding, at most ``limit`` bytes of it."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip"):
        return _wrong(f"content encoding {encoding[:40]!r}: gzip or none was asked for")
    try:
        return _gunzipped(body, limit)
    except zlib.error as error:
        if body.startswith(_GZIP_MAGIC):
            return _wrong(f"broken gzip data: {error}")
        return _wrong("Content-Encoding says gzip, but the body is not gzip")


def _gunzipped(body: bytes, limit: int) -> bytes | ScrapeFailed:
    """Unpack every gzip member; the limit holds while unpacking, not after it."""
    page = bytearray()
    members = 0
    while body:
        members += 1
        if members > MAX_MEMBERS:
            return _wrong(f"more than {MAX_MEMBERS} gzip members")
        member = zlib.decompressobj(wbits=31)
        page += member.decompress(body, limit + 1 - len(page))
        if len(page) > limit:
            detail = f"more than {limit} bytes once unpacked"
            return ScrapeFailed(ScrapeFailure.TOO_LARGE, detail)
        if not member.eof:
            return ScrapeFailed(ScrapeFailure.TRUNCATED, "the gzip data ends early")
        body = member.unused_data
    return bytes(page)


def refusal(body: bytes, content_type: str) -> ScrapeFailed | None:
    """Return why ``body`` cannot be a page of metrics, None when it may be one."""
    start = body[:64].lstrip(BLANK)
    kind = _kind(content_type)
    if _blank(body):
        return ScrapeFailed(ScrapeFailure.EMPTY, f"empty body ({len(body)} bytes)")
    if body.startswith(_GZIP_MAGIC):
        return _wrong(
            "gzip data that no Content-Encoding accounts for: packed twice, or a packed file"
        )
    if start.startswith(b"<") or kind in ("text/html", "application/xhtml+xml"):
        return _wrong(f"an HTML page{_said(kind)}, not metrics")
    return None


def _blank(body: bytes) -> bool:
    steps = range(0, len(body), _AT_A_TIME)
    return not any(body[at : at + _AT_A_TIME].strip(BLANK) for at in steps)


def is_json(body: bytes, content_type: str) -> bool:
    """Return whether ``body`` is a JSON document, as far as its start and its type tell."""
    return body[:64].lstrip(BLANK)[:1] in (b"{", b"[") or _kind(content_type).endswith("json")


def _kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _said(kind: str) -> str:
    return f" (content type {kind[:60]})" if kind else ""


def _wrong(detail: str) -> ScrapeFailed:
    return ScrapeFailed(ScrapeFailure.WRONG_CONTENT, detail)
