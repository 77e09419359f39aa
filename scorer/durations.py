"""Durations as Prometheus writes them: ``15s``, ``500ms``, ``1m30s``, ``2h``, ``1d``."""

import re

LONGEST = 366 * 86_400.0
"""Seconds of the longest duration; clocks and sockets count no further than some centuries."""
_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(
    r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+)s)?(?:(?P<ms>\d+)ms)?",
    re.ASCII,
)
_LONGEST_TEXT = 100
"""Characters; what is longer is no duration below the limit, and slow to make a number of."""


def parse_duration(text: str) -> float:
    """Return the seconds that ``text`` stands for, 366 days at most; ValueError says the rule."""
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        message = "must be a duration such as 500ms, 15s or 1m30s"
        raise ValueError(message)
    if len(text) <= _LONGEST_TEXT:
        seconds = sum(int(count) * _UNITS[unit] for unit, count in match.groupdict("0").items())
        if seconds <= LONGEST:
            return seconds
    message = "must be at most 366d"
    raise ValueError(message)


def format_duration(seconds: float) -> str:
    """Return ``seconds`` as a duration, rounded to whole milliseconds."""
    left = round(seconds * 1000)
    parts = []
    for unit, size in _UNITS.items():
        count, left = divmod(left, round(size * 1000))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
