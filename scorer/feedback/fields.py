"""Reading one field of a feedback item: from JSON, or from a log line that is all strings.

A field that is absent, null, empty or ``-`` is missing; missing is never zero. Numbers
may be strings, because proxies log them so. What breaks a rule raises :class:`ItemError`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from scorer.core.evidence import HEADERS

SHOWN = 60
"""Characters of a bad value that a message repeats."""
MOST_ATTEMPTS = 16
HEADER_LENGTH = 1024
MISSING = ("", "-", None)

_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{0,20})?(?:[eE][+-]?[0-9]{1,3})?")
_LIST = re.compile(r"\s*,\s*|\s+:\s+")
"""nginx separates attempts by commas, and by colons after an internal redirect."""
_WORDS = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}


class ItemError(ValueError):
    """An item that cannot be used; the message names the field, the rule and the value."""


def problem(name: str, rule: str, value: object) -> ItemError:
    """Return what to raise for a field that breaks a rule."""
    if isinstance(value, dict | list):
        value = "an object" if isinstance(value, dict) else "a list"
    shown = value if isinstance(value, str) else repr(value)
    if not shown.isprintable() or shown != shown.strip():
        shown = ascii(shown)
    cut = shown if len(shown) <= SHOWN else shown[: SHOWN - 1] + "…"
    return ItemError(f"{name}: {rule}, got {cut or 'nothing'}")


def text(raw: Mapping[str, Any], name: str) -> str:
    """Return a string, "" when it is missing."""
    value = raw.get(name)
    if value is None or value == "-":
        return ""
    if not isinstance(value, str):
        raise problem(name, "must be a string", value)
    return value


def number(value: Any, name: str, most: float) -> float | None:  # noqa: ANN401 - any JSON
    """Return a number from 0 to ``most``, None when it is missing."""
    if value is None:
        return None
    if type(value) is float or type(value) is int:
        if 0 <= value <= most:
            return float(value)
        raise problem(name, f"must be from 0 to {most:g}", value)
    if not isinstance(value, str):
        raise problem(name, "must be a number", value)
    if value in MISSING:
        return None
    if not _NUMBER.fullmatch(value.strip()):
        raise problem(name, "must be a number", value)
    return number(float(value), name, most)


def whole(raw: Mapping[str, Any], name: str, most: int) -> int | None:
    """Return a whole number from 0 to ``most``, None when it is missing."""
    given = raw.get(name)
    if given is None:
        return None
    if type(given) is int and 0 <= given <= most:
        return given
    value = number(given, name, most)
    if value is None:
        return None
    if value != int(value):
        raise problem(name, "must be a whole number", raw[name])
    return int(value)


def flag(raw: Mapping[str, Any], name: str) -> bool | None:
    """Return true or false, None when it is missing."""
    value = raw.get(name)
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        if value in MISSING:
            return None
        if value.lower() in _WORDS:
            return _WORDS[value.lower()]
    raise problem(name, "must be true or false", value)


def parts(value: Any, name: str) -> Sequence[Any]:  # noqa: ANN401 - any JSON
    """Return the values of a list, of ``"a, b"``, or of one value."""
    if isinstance(value, str):
        value = _LIST.split(value.strip()) if "," in value or " : " in value else (value,)
    elif not isinstance(value, list):
        return (value,)
    values: list[Any] | tuple[Any, ...] = value
    if not 0 < len(values) <= MOST_ATTEMPTS:
        raise problem(name, f"must list 1 to {MOST_ATTEMPTS} attempts", f"{len(values)}")
    return values


def status(value: Any) -> int | None:  # noqa: ANN401 - any JSON
    """Return an HTTP status, 0 for no answer, None when it is missing."""
    if type(value) is int and 100 <= value <= 599:
        return value
    code = number(value, "status", 599)
    if code is not None and (code != int(code) or 0 < code < 100):
        raise problem("status", "must be 0 or from 100 to 599", value)
    return None if code is None else int(code)


def headers(raw: Mapping[str, Any]) -> dict[str, str]:
    """Return response headers with lower-case names; only the first of very many are read."""
    given = raw.get("headers")
    if not given:
        return {}
    if not isinstance(given, dict):
        raise problem("headers", "must be an object", given)
    found = {}
    for name in list(given)[:HEADERS]:
        value = given[name]
        if isinstance(value, list):
            value = ", ".join(str(each) for each in value[:MOST_ATTEMPTS] if each is not None)
        if value is None or value in ("", "-"):
            continue
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise problem(f"headers.{name[:SHOWN]}", "must be a string", value)
        found[name[:HEADER_LENGTH].lower()] = str(value)[:HEADER_LENGTH]
    return found
