"""Kinds of values in a configuration file, each with its rule."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from scorer.addresses import MAX_PORT
from scorer.durations import parse_duration


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
    host, _, port = text.rpartition(":")
    bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not port.isdecimal() or int(port) > MAX_PORT or bare_ipv6 or ":" not in text:
        rule = "must be host:port, as 0.0.0.0:9808 or [::]:9808"
        raise ValueError(rule)
    return text


Duration = Annotated[float, BeforeValidator(_duration)]
"""Seconds, written as a duration."""
Interval = Annotated[Duration, at_least("100ms", "5m")]
Deadline = Annotated[Duration, at_least("1ms")]
Positive = Annotated[float, Field(gt=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Points = Annotated[float, Field(ge=0, le=100)]
ListenAddress = Annotated[str, AfterValidator(parse_listen_address)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class Strict(BaseModel):
    """A part of the file: frozen, no unknown keys, no silent conversion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
