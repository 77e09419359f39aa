"""The line of a target's score over the last quarter of an hour, as an SVG path.

The drawing is :data:`~scorer.trends.SLOTS` wide, one unit a slot, the present at the right;
the score is its height, 100 at the top. Each slot is a step, so that one alone can be seen,
and a slot without a score is a gap in the line.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scorer.clocks import Clocks
from scorer.core.snapshot import TargetView
from scorer.http import words
from scorer.trends import SLOT, Trends


@dataclass(frozen=True, slots=True)
class Sparkline:
    """``path`` for the attribute ``d``, empty without any score, and the line in words."""

    path: str
    label: str


def sparkline(view: TargetView, trends: Trends, clocks: Clocks) -> Sparkline:
    """Return the line of a target."""
    scores = trends.lowest(view.pool, view.target, clocks.monotonic())
    return Sparkline(path(scores), label(scores))


def path(scores: Sequence[float | None]) -> str:
    """Return steps through ``scores``, with a new start after each gap."""
    parts: list[str] = []
    drawn: float | None = None
    for index, score in enumerate(scores):
        if score is not None and drawn is None:
            parts.append(f"M{index} {100 - score:.1f}")
        elif score is None and drawn is not None:
            parts.append(f"H{index}")
        elif score is not None and score != drawn:
            parts.append(f"H{index}V{100 - score:.1f}")
        drawn = score
    if drawn is not None:
        parts.append(f"H{len(scores)}")
    return "".join(parts)


def label(scores: Sequence[float | None]) -> str:
    """Return the lowest of the scores and how long ago it was, the latest of several."""
    known = [(score, -index) for index, score in enumerate(scores) if score is not None]
    if not known:
        return "no score in the last 15 minutes"
    low, index = min(known)
    slots_ago = len(scores) - 1 + index
    ago = f"{words.span(slots_ago * SLOT)} ago" if slots_ago else "at present"
    return f"lowest of the last 15 minutes {low:.1f}, {ago}"
