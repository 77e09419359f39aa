"""Kinds of values in a configuration file, each with its rule."""

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from scorer.addresses import MAX_PORT, is_host
from scorer.durations import parse_duration

LONGEST_SOCKET_PATH = 107
"""Bytes of the path of a Unix socket, as Linux has it."""
_MODE = re.compile(r"0?[0-7]{3}")
_LISTEN = re.compile(r"(?:\[([^\[\]]+)\]|([^\[\]:]*)):([0-9]{1,5})")


def _duration(value: object) -> float:
    if not isinstance(value, str):
        rule = "must be a duration such as 500ms, 15s or 1m30s"
        raise PydanticCustomError("duration", rule)
    return parse_duration(value)


def at_least(low: str, high: str | None = None) -> AfterValidator:
    """Return a check that a duration lies between two others."""

    def check(seconds: float) -> float:
        if seconds < parse_duration(low) or (high and seconds > parse_duration(high)):
            rule = f"must be at least {low}" + (f" and at most {high}" if high else "")
            raise ValueError(rule)
        return seconds

    return AfterValidator(check)


def parse_listen_address(text: str) -> str:
    """Return ``text`` if it is ``host:port``; ValueError says the rule."""
    match = _LISTEN.fullmatch(text)
    if match is None or int(match[3]) > MAX_PORT or not _can_be_bound(match[1], match[2]):
        rule = "must be host:port, as 0.0.0.0:9808 or [::]:9808"
        raise ValueError(rule)
    return text


def _can_be_bound(bracketed: str | None, host: str) -> bool:
    if bracketed is None:
        return not host or is_host(host)
    try:
        return ipaddress.IPv6Address(bracketed).compressed.isprintable()
    except ValueError:
        return False


def _socket_path(text: str) -> str:
    if not text:
        return text
    if not text.startswith("/") or text.endswith("/") or "\0" in text:
        rule = "must be the absolute path of a socket, as /run/scorer/scorer.sock"
        raise ValueError(rule)
    if len(text.encode()) > LONGEST_SOCKET_PATH:
        rule = f"must have at most {LONGEST_SOCKET_PATH} bytes"
        raise ValueError(rule)
    return text


def _file_mode(value: object) -> int:
    # YAML takes 0660 for a number, and 660 for another one.
    if not isinstance(value, str) or not _MODE.fullmatch(value):
        rule = 'must be octal, from 000 to 777, in quotes, such as "0660"'
        raise PydanticCustomError("mode", rule)
    return int(value, 8)


Duration = Annotated[float, BeforeValidator(_duration)]
"""Seconds, written as a duration."""
Interval = Annotated[Duration, at_least("100ms", "5m")]
Deadline = Annotated[Duration, at_least("1ms", "1h")]
Positive = Annotated[float, Field(gt=0, le=1e9)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Points = Annotated[float, Field(ge=0, le=100)]
ListenAddress = Annotated[str, AfterValidator(parse_listen_address)]
SocketPath = Annotated[str, AfterValidator(_socket_path)]
"""Where a Unix socket is, or empty for none."""
FileMode = Annotated[int, BeforeValidator(_file_mode)]
"""Permissions of a file, written as octal digits in quotes."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class Strict(BaseModel):
    """A part of the file: frozen, no unknown keys, no silent conversion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
