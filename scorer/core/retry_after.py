"""Retry-After in every form it comes: seconds, fractions, HTTP dates, nonsense.

0, the past and what cannot be read all mean that there is none, so nobody is benched for
an hour by a date in the wrong unit.
"""

import re
from collections.abc import Mapping
from email.utils import mktime_tz, parsedate_tz

LONGEST = 30.0
"""Seconds that a pause is cut to."""
LONGEST_TEXT = 64

_SECONDS = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,9})?(?:e\+?[0-9]{1,2})?")


def asked_pause(headers: Mapping[str, str], wall_now: float) -> float | None:
    """Return the seconds to pause that response ``headers`` (lower-case names) ask for."""
    milliseconds = retry_after(headers.get("retry-after-ms", ""), wall_now, unit=0.001)
    return milliseconds or retry_after(headers.get("retry-after", ""), wall_now)


def retry_after(text: str, wall_now: float, unit: float = 1.0) -> float | None:
    """Return the seconds that a Retry-After asks for, at most :data:`LONGEST`, or None.

    ``wall_now`` is Unix seconds, what a date is compared with; ``unit`` is what a number
    counts, in seconds. Of a list the first value counts.
    """
    text = text[:LONGEST_TEXT].strip().lower()
    number = text.partition(",")[0].strip()
    if _SECONDS.fullmatch(number):
        seconds = float(number) * unit
    elif text[:1].isalpha():
        seconds = _until(text, wall_now)
    else:
        return None
    return min(seconds, LONGEST) if seconds > 0 else None


def _until(date: str, wall_now: float) -> float:
    """Return the seconds until an HTTP date, 0 for what is none."""
    try:
        parts = parsedate_tz(date)
        return mktime_tz(parts) - wall_now if parts else 0.0
    except (ValueError, OverflowError, TypeError, IndexError):
        return 0.0
