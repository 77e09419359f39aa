"""Warm-up: a score may fall at once but rises only so fast.

The limit is in points per second of elapsed time, so it does not depend on how
often targets are judged; at most ``LONGEST_STEP`` seconds count at once, so a
daemon that was stopped for a minute does not let a target jump.
"""

LONGEST_STEP = 3.0


def rise(previous: float, wanted: float, elapsed: float, limit: float) -> float:
    """Return the score after ``elapsed`` seconds on the way from ``previous`` to ``wanted``.

    ``limit`` is in points per second.
    """
    return min(wanted, previous + limit * min(max(elapsed, 0.0), LONGEST_STEP))
