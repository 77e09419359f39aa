"""How problems of a configuration file are found and worded.

A problem is one line: path, rule, value. Rules that span several keys are checked
on the document itself, tolerating whatever else is wrong with it, so that all
problems come out in one go.
"""

import difflib
import math
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from scorer.durations import format_duration, parse_duration

DEFAULT_INTERVAL, DEFAULT_TIMEOUT = "1s", "800ms"
LONGEST_VALUE = 60
LONGEST_PROBLEM = 400
MOST_PROBLEMS = 100

_QUOTE = reprlib.Repr()
_QUOTE.maxlevel, _QUOTE.maxstring = 3, LONGEST_VALUE
"""Quotes a value in bounded time: a short file can mean an endless value by its aliases."""

_RULES = {
    "missing": "is required",
    "string_type": "must be a string",
    "string_unicode": "must be Unicode text",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "too_short": "must have at least {min_length} entry",
    "finite_number": "must be a finite number",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
}
_PATTERNS = {
    "name": "must be 1 to 64 letters, digits, '.', '_' or '-'",
    "metrics_path": "must be a path that starts with '/', without blanks",
    "namespace": "must be the name of a namespace",
    "label_selector": "must be a label selector in ASCII",
    "family": "must be the name of a metric family",
    "ttft_histogram": "must be the name of a metric family",
    "target_label": "must be the name of a label",
    "status_label": "must be the name of a label",
}
_SPANS_KEYS = ("weights", "order", "whole")
"""Rules of a whole mapping: their message names the values itself."""


class ConfigError(Exception):
    """A configuration that cannot be used; ``problems`` has one line each, 100 at most."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Keep the problems."""
        kept = [_line(problem) for problem in problems[:MOST_PROBLEMS]]
        if more := len(problems) - len(kept):
            kept.append(f"and {more} more problems")
        super().__init__("; ".join(kept))
        self.problems = tuple(kept)


def _line(text: str) -> str:
    """Return a text as one line of bounded length, whatever characters it quotes."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:LONGEST_PROBLEM])
    return text if len(text) <= LONGEST_PROBLEM else text[: LONGEST_PROBLEM - 1] + "…"


def problems_of(error: ValidationError, root: type[BaseModel]) -> list[str]:
    """Return one line per validation error of a document checked against ``root``."""
    found = error.errors(include_url=False)
    return [_worded(details, root) for details in found if not _follows(details)]


def _follows(details: ErrorDetails) -> bool:
    """Whether a list is only too short because its bad entries do not count."""
    short = details["type"] == "too_short"
    return short and len(details["input"]) >= details["ctx"]["min_length"]


def problems_across(document: Mapping[str, Any]) -> list[str]:
    """Return the problems of rules that span several keys."""
    listed = document.get("pools")
    listed = listed if isinstance(listed, list) else []
    pools = [pool if isinstance(pool, dict) else {} for pool in listed]
    general = document.get("global")
    general = general if isinstance(general, dict) else {}
    return [*_timeouts(general, pools), *_names_twice(pools)]


def shown(value: object) -> str:
    """Return a value as an error message quotes it, cut when it is long."""
    text = value[: LONGEST_VALUE + 1] if isinstance(value, str) else _QUOTE.repr(value)
    if text in ("", " ") or text != text.strip() or not text.isprintable():
        text = repr(text)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _timeouts(general: Mapping[str, Any], pools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for path, part in [
        ("global", general),
        *((f"pools[{i}]", pool) for i, pool in enumerate(pools)),
    ]:
        keys = ("scrape_interval", "scrape_timeout")
        if path != "global" and not any(key in part for key in keys):
            continue
        given = {**general, **{key: part[key] for key in keys if part.get(key) is not None}}
        try:
            interval = parse_duration(given.get("scrape_interval", DEFAULT_INTERVAL))
            timeout = parse_duration(given.get("scrape_timeout", DEFAULT_TIMEOUT))
        except (ValueError, TypeError):
            continue
        if timeout >= interval:
            default = "" if "scrape_timeout" in given else "the default "
            yield (
                f"{path}.scrape_timeout: must be less than scrape_interval "
                f"({format_duration(interval)}), got {default}{format_duration(timeout)}"
            )


def _names_twice(pools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    first: dict[str, int] = {}
    for index, pool in enumerate(pools):
        name = pool.get("name")
        if isinstance(name, str) and first.setdefault(name, index) != index:
            yield f"pools[{index}].name: must be unique, got {name} as pools[{first[name]}] has"


def path_text(location: Sequence[int | str]) -> str:
    """Return a location as a path: ``pools[0].signals.ttft``."""
    text = ""
    for part in location:
        if part == "[key]":  # the location of a mapping's key, which stands before it
            continue
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _worded(details: ErrorDetails, root: type[BaseModel]) -> str:
    kind, location = details["type"], details["loc"]
    path = path_text(location)
    if kind == "extra_forbidden":
        return f"{path}: is not a known key{_meant(location, root)}"
    if kind == "missing":
        return f"{path}: is required"
    if kind in _SPANS_KEYS:
        return f"{path}: {details['msg']}"
    return f"{path}: {_rule(details)}, got {shown(details['input'])}"


def _rule(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(str(details["loc"][-1]), details["msg"])
    if kind == "value_error":
        return str(context["error"])
    if kind in _RULES:
        return _RULES[kind].format(**context) + _spelling(kind, details["input"])
    return details["msg"]


def _spelling(kind: str, value: object) -> str:
    """Return how a number that YAML took for text is written, or nothing."""
    if kind not in ("float_type", "int_type") or not isinstance(value, str) or len(value) > 40:
        return ""
    try:
        number = float(value)
    except ValueError:
        return ""
    if not math.isfinite(number) or "e" not in value.lower():
        return ", without quotes" if math.isfinite(number) else ""
    mantissa, _, exponent = f"{number:e}".partition("e")
    mantissa = mantissa.rstrip("0")
    return f" (YAML takes this for text: write {mantissa}{'0' * mantissa.endswith('.')}e{exponent})"


def _meant(location: tuple[int | str, ...], root: type[BaseModel]) -> str:
    """Return a hint at the key that was probably meant, or nothing."""
    close = difflib.get_close_matches(str(location[-1]), _known_keys(location, root), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _known_keys(location: tuple[int | str, ...], root: type[BaseModel]) -> list[str]:
    """Return the keys of the mapping that the last part of ``location`` stands in."""
    model = root
    for part in location[:-1]:
        if isinstance(part, str):
            annotation = _fields(model)[part]
            model = next(_models_in(annotation), model)
    return list(_fields(model))


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - any annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
