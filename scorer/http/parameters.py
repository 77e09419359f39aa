"""What a pick request asks for, from its query string and ``X-Scorer-*`` headers.

Whichever of the two the operator of the gateway controls wins. On ``/pick`` that is
the query, since a proxy's subrequest repeats the headers of its client. On
``/pick/<path>`` path and query are the client's own, so there the headers win. An
empty value counts as absent: a proxy's unset variable is no request for nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import parse_qsl

from scorer.core.prompts import BYTES_PER_TOKEN, MOST_TOKENS
from scorer.core.sample import Ask
from scorer.pick_stats import NO_POOL, PickFailure

SHOWN = 64
"""Characters of a bad value that an error message repeats."""


class Format(StrEnum):
    """Form of a pick's answer."""

    JSON = "json"
    HEADERS = "headers"
    TEXT = "text"


class PickRequest(NamedTuple):
    """A well-formed pick request; empty strings are absent parameters."""

    model: str = ""
    pool: str = ""
    format: Format = Format.JSON
    ask: Ask = Ask()


@dataclass(frozen=True, slots=True)
class Refused:
    """A pick request that gets no target: HTTP ``status``, ``reason``, and why in words.

    ``pool`` is the pool that refused, :data:`NO_POOL` when none was found.
    """

    status: int
    reason: PickFailure
    message: str
    pool: str = NO_POOL


NAMES = frozenset(
    {"model", "pool", "prompt_tokens", "prompt_bytes", "exclude", "format", "key", "lora"}
)
COUNTS = ("prompt_tokens", "prompt_bytes")
UNTOLD = (None, None)
MOST_DIGITS = 10
LONGEST_HINT = 256
"""Characters of a key or an adapter's name that count; decisions remember them."""
REMEMBERED_QUERIES, REMEMBERED_LENGTH = 4096, 256
"""Short queries whose meaning is remembered, as most are asked again and again."""
ACCEPT = "accept"
HEADERS = {b"accept": ACCEPT} | {
    f"x-scorer-{name}".replace("_", "-").encode(): name for name in NAMES
}
FORMATS = {str(form): form for form in Format}
MEDIA = {
    "*/*": Format.JSON,
    "application/*": Format.JSON,
    "application/json": Format.JSON,
    "application/vnd.scorer.headers": Format.HEADERS,
    "text/*": Format.TEXT,
    "text/plain": Format.TEXT,
}


def understood(
    query: bytes, headers: Iterable[tuple[bytes, bytes]], *, bare: bool
) -> PickRequest | Refused:
    """Return what a query and headers ask for; ``bare`` without a path below ``/pick``."""
    given = header_parameters(headers) if headers else {}
    if not given:
        return remembered(query) if len(query) <= REMEMBERED_LENGTH else read_query(query)
    accept = given.pop(ACCEPT, "")
    if not query:
        return read(given, accept)
    if bare:
        return read(given | query_parameters(query), accept)
    return read(query_parameters(query) | given, accept)


def read_query(query: bytes) -> PickRequest | Refused:
    """Return what a query alone asks for."""
    return read(query_parameters(query), "")


remembered = lru_cache(REMEMBERED_QUERIES)(read_query)


def read(given: Mapping[str, str], accept: str) -> PickRequest | Refused:
    """Return the request of the parameters ``given``, or the first that is malformed."""
    get = given.get
    length = get("prompt_tokens"), get("prompt_bytes")
    tokens = None if length == UNTOLD else prompt_length(*length)
    if isinstance(tokens, Refused):
        return tokens
    word = get("format")
    answer = FORMATS.get(word) if word else accepted(accept) if accept else Format.JSON
    if answer is None:
        return malformed("format", f"must be one of {', '.join(FORMATS)}", word or "")
    hints = get("key", "")[:LONGEST_HINT], get("lora", "")[:LONGEST_HINT]
    ask = Ask(tokens, targets(get("exclude", "")), *hints)
    return PickRequest(get("model", ""), get("pool", ""), answer, ask)


def prompt_length(tokens: str | None, size: str | None) -> int | Refused | None:
    """Return the length of the prompt in tokens: as told, or a quarter of its bytes.

    0 is no length: some proxies send it when they do not know.
    """
    for name, value in zip(COUNTS, (tokens, size), strict=True):
        if value is not None and not (value.isascii() and value.isdecimal()):
            return malformed(name, "must be a non-negative integer", value)
    told = counted(tokens) or -(-counted(size) // BYTES_PER_TOKEN)
    return min(told, MOST_TOKENS) or None


def counted(value: str | None) -> int:
    """Return the number of a decimal text, 0 without one; at most ten digits are looked at."""
    if not value:
        return 0
    return int(value) if len(value) <= MOST_DIGITS else int(value.lstrip("0")[:MOST_DIGITS] or 0)


def malformed(name: str, rule: str, value: str) -> Refused:
    """Return the refusal of a parameter: its name, the rule it breaks, its value."""
    shown = value if len(value) <= SHOWN else value[:SHOWN] + "…"
    return Refused(400, PickFailure.BAD_REQUEST, f'{name}: {rule}, got "{shown}"')


def targets(value: str) -> frozenset[str]:
    """Return the targets of a comma list; blanks around them do not count."""
    return frozenset(part.strip() for part in value.split(",")) if value else frozenset()


def header_parameters(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the parameters among the request ``headers``, and ``accept``.

    As in a query, the first of a name that is not empty counts.
    """
    found: dict[str, str] = {}
    for header, value in headers:
        if header in HEADERS and value:
            found.setdefault(HEADERS[header], value.decode("utf-8", "replace"))
    return found


def query_parameters(query: bytes) -> dict[str, str]:
    """Return the parameters of a raw query string; unknown ones are left out."""
    text = query.decode("utf-8", "replace")
    if "%" in text or "+" in text:
        return {name: value for name, value in reversed(parse_qsl(text)) if name in NAMES}
    found: dict[str, str] = {}
    for field in text.split("&"):
        name, _, value = field.partition("=")
        if value and name in NAMES:
            found.setdefault(name, value)
    return found


def accepted(accept: str) -> Format:
    """Return the form that an ``Accept`` header likes best; JSON when it names none."""
    best, best_quality = Format.JSON, 0.0
    for item in accept.split(","):
        media, *options = item.lower().split(";")
        answer = MEDIA.get(media.strip())
        weight = quality(options)
        if answer is not None and weight > best_quality:
            best, best_quality = answer, weight
    return best


def quality(options: Iterable[str]) -> float:
    """Return the ``q`` of a media type's options: 1 without one, 0 for nonsense."""
    for option in options:
        name, _, value = option.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
