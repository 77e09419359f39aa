"""Durations as Prometheus writes them: ``15s``, ``500ms``, ``1m30s``, ``2h``, ``1d``."""

import re

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_LONGEST = 40
"""Characters; more can only be numbers that nobody means and that overflow."""
_DURATION = re.compile(
    r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+)s)?(?:(?P<ms>\d+)ms)?"
)


def parse_duration(text: str) -> float:
    """Return the seconds that ``text`` stands for; ValueError when it is no duration."""
    match = _DURATION.fullmatch(text) if 0 < len(text) <= _LONGEST else None
    if match is None:
        message = "must be a duration such as 500ms, 15s or 1m30s"
        raise ValueError(message)
    return sum(int(count) * _UNITS[unit] for unit, count in match.groupdict("0").items())


def format_duration(seconds: float) -> str:
    """Return ``seconds`` as a duration, rounded to whole milliseconds."""
    left = round(seconds * 1000)
    parts = []
    for unit, size in _UNITS.items():
        count, left = divmod(left, round(size * 1000))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
