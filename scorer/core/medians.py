"""Medians of a pool: of all its targets, and of one target's others."""

from bisect import bisect_left
from collections.abc import Callable, Sequence


def median(ordered: Sequence[float]) -> float | None:
    """Return the median of ascending values, None of nothing."""
    return _middle(ordered.__getitem__, len(ordered))


def median_of_others(ordered: Sequence[float], own: float | None) -> float | None:
    """Return the median of ascending values without one that equals ``own``.

    None of nothing. With ``own`` None, which is not among them, all values count.
    """
    if own is None:
        return median(ordered)
    left_out = bisect_left(ordered, own)
    return _middle(lambda index: ordered[index + (index >= left_out)], len(ordered) - 1)


def _middle(value_at: Callable[[int], float], size: int) -> float | None:
    if size <= 0:
        return None
    half = size // 2
    return value_at(half) if size % 2 else (value_at(half - 1) + value_at(half)) / 2.0
