"""Query parameters of pages and lists: what they mean, or what is wrong with them."""

from scorer.decisions import KEPT
from scorer.http.problems import Problem

MAX_REFRESH = 3600


def refresh_seconds(value: str) -> int | Problem:
    """Return the seconds between reloads of the page, 0 for never; 5 when not asked for."""
    if not value:
        return 5
    if len(value) <= 4 and value.isascii() and value.isdecimal() and int(value) <= MAX_REFRESH:
        return int(value)
    rule = f"must be a number of seconds from 0 (never) to {MAX_REFRESH}"
    return Problem(400, "bad_data", f'refresh: {rule}, got "{value}"')


def check_format(value: str) -> Problem | None:
    """Return what is wrong with the value of ``format``, None when nothing is."""
    if value in ("", "json", "csv"):
        return None
    return Problem(400, "bad_data", f'format: must be json or csv, got "{value}"')


def shown_decisions(value: str) -> int | Problem:
    """Return how many decisions to show: 100 when not asked for."""
    if not value:
        return 100
    if len(value) <= 4 and value.isascii() and value.isdecimal() and 0 < int(value) <= KEPT:
        return int(value)
    return Problem(400, "bad_data", f'limit: must be a number from 1 to {KEPT}, got "{value}"')
