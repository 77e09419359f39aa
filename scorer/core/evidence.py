"""What an answer says, as text that rules can be matched against.

Bodies come as JSON in any nesting, JSON inside JSON strings, event streams, HTML,
plain text, truncated, in any language, as bytes that are no UTF-8, or not at all. None
of that is parsed: escapes are resolved, quotes and brackets dropped, so that a field
reads ``code: 503`` however deep it stands and wherever the body was cut. Every step is
linear in the text and none can fail.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

BODY_LIMIT = 4096
"""Characters (bytes of a body given as bytes) that are looked at; the rest is dropped."""
HEADERS, VALUE_LIMIT, HEADER_LIMIT = 64, 256, 4096
"""Headers that are looked at, and the characters of a value and of all together."""

GRAM = 4
"""Characters of the pieces that a long text is indexed by."""
ESCAPES = 256
"""Escaped characters that are resolved: enough for a message in any script."""
SHORT_TEXT = 256
"""Characters up to which a text is quicker searched than indexed."""

_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-f]{4})")

_STRUCTURED = ("{", "[", "data:", "event:", "id:", "retry:", ":")
"""How JSON and event streams begin; any other body under a 2xx is an error text."""
_NOTHING = r"(?!\s{0,8}(?:null|none|false|0\b|\"\"|\{\s{0,8}\}|\[\s{0,8}\]))"
_ERROR_MARK = re.compile(
    r'(?<!\\)"error(?:s|_msg|_code|_type|_message)?"\s{0,8}:' + _NOTHING + "|"
    r'(?<!\\)"(?:object|type|event)"\s{0,8}:\s{0,8}"error"|'
    r"(?:^|\n)event:\s{0,8}error"
)
"""Where an error begins in the raw text of a 2xx. Quotes inside a completion are
escaped, so what a model writes about errors is no mark."""
_BROKEN_OFF = re.compile(r'(?<!\\)"finish_reason"\s{0,8}:\s{0,8}"(?:abort|error)"')


class Evidence(NamedTuple):
    """Lower-case texts of an answer, empty where there is nothing.

    ``body`` is the decoded body, ``text`` what it says of an error, with one field as
    ``name: value``; ``head`` has a line ``name: value`` per header, each with a line
    break before it. ``pieces`` are those of a long ``text``, None for a short one.
    """

    body: str
    text: str
    head: str
    pieces: frozenset[int] | None = None


NOTHING = Evidence("", "", "")


def read_evidence(status: int, headers: Mapping[str, str], body: str | bytes) -> Evidence:
    """Return what an answer says; of a body under a 2xx only its error part counts."""
    if not body and not headers:
        return NOTHING
    raw = decoded(body).strip().lower()[:BODY_LIMIT]
    text = plain(error_part(raw) if 200 <= status < 300 else raw)
    return Evidence(raw, text, head_lines(headers), grams(text) if len(text) > SHORT_TEXT else None)


def decoded(body: str | bytes) -> str:
    """Return the beginning of a body as text; bytes that are no text are replaced."""
    head = body[:BODY_LIMIT]
    if isinstance(head, bytes):
        utf16 = head[:2] in (b"\xff\xfe", b"\xfe\xff")
        head = head.decode("utf-16" if utf16 else "utf-8", "replace")
    return head.lstrip("\ufeff")


def plain(text: str) -> str:
    """Return ``text`` without quotes, brackets and escapes, fields as ``name: value``."""
    if "\\" in text:
        text = text.replace("\\n", " ").replace("\\r", " ").replace("\\t", " ")
        text = _UNICODE_ESCAPE.sub(_character, text, count=ESCAPES)
    for dropped in "\\\"'{}[]":
        text = text.replace(dropped, "")
    text = " ".join(text.split())
    return text.replace(" :", ":").replace(": ", ":").replace(":", ": ")


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16)).lower()


def grams(text: str) -> frozenset[int]:
    """Return every piece of :data:`GRAM` characters of ``text``, as numbers.

    What is no Latin-1 counts as one and the same character.
    """
    data = memoryview(text.encode("latin-1", "replace"))
    return frozenset().union(
        *(data[at : at + (len(data) - at) // GRAM * GRAM].cast("I") for at in range(GRAM))
    )


def error_part(raw: str) -> str:
    """Return what the lower-case body of a 2xx says of an error, "" when it says nothing.

    From the line on that the error stands in; from the error itself when that line
    carries a completion, too.
    """
    if not raw.startswith(_STRUCTURED):
        return raw
    mark = _ERROR_MARK.search(raw)
    if mark is None:
        broken = _BROKEN_OFF.search(raw)
        return raw[broken.start() :] if broken else ""
    line = raw.rfind("\n", 0, mark.start()) + 1
    return raw[mark.start() :] if '"choices"' in raw[line : mark.start()] else raw[line:]


def head_lines(headers: Mapping[str, str]) -> str:
    """Return headers as lower-case lines ``name: value``, each after a line break."""
    if not headers:
        return ""
    lines = [f"\n{name}: {value[:VALUE_LIMIT]}" for name, value in list(headers.items())[:HEADERS]]
    return "".join(lines)[:HEADER_LIMIT].lower()
