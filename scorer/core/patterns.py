"""How much work an expression can cause, told from its shape before it is ever used.

A backtracking matcher tries every way in which the repetitions of an expression can
share a text. :func:`ways` bounds their number for one starting place: it is the product
of the choices that stand in a row, so it grows with the text once for an unbounded
repetition, and out of all bounds for a repetition of something that repeats.
"""

import re
from collections.abc import Iterable
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from scorer.core.evidence import BODY_LIMIT

TOO_MANY = 10**9
"""Ways beyond which it makes no difference."""
MOST_WAYS = 64 * BODY_LIMIT
"""Ways that an operator's expression may have: one unbounded repetition, and a few choices."""

_REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}


def compiled(text: str) -> re.Pattern[str]:
    """Return ``text`` as an expression that ignores case; ValueError says why it cannot be."""
    try:
        pattern = re.compile(text, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"must be a regular expression ({error})") from None
    if ways(text) > MOST_WAYS:
        raise ValueError(
            "must not repeat what repeats itself, nor have several unbounded repetitions such as .*"
        )
    return pattern


def ways(text: str) -> int:
    """Return a bound of the ways to match a valid expression from one place of a body."""
    return _sequence(parser.parse(text))


def _sequence(items: Iterable[tuple[Any, Any]]) -> int:
    product = 1
    for operator, argument in items:
        product = min(product * _item(operator, argument), TOO_MANY)
    return product


def _item(operator: Any, argument: Any) -> int:  # noqa: ANN401 - untyped in the library
    if operator in _REPEATS:
        return _repeat(*argument)
    if operator is op.BRANCH:
        return sum(_sequence(each) for each in argument[1])
    if operator is op.SUBPATTERN:
        return _sequence(argument[-1])
    if operator in (op.ASSERT, op.ASSERT_NOT):
        return _sequence(argument[1])
    if operator is op.ATOMIC_GROUP:
        return _sequence(argument)
    if operator is op.GROUPREF_EXISTS:
        return sum(_sequence(each) for each in argument[1:] if each)
    return 1


def _repeat(least: int, most: int, inner: Iterable[tuple[Any, Any]]) -> int:
    longest = min(int(most), BODY_LIMIT)
    each = _sequence(inner)
    choices = max(1, longest - least + 1)
    return choices if each == 1 else min(choices * each ** min(longest, 30), TOO_MANY)
