"""What an operator, or an engine that was full, keeps a target out of, until when, and why."""

import math
from dataclasses import dataclass

from scorer.clocks import Clocks
from scorer.core.snapshot import TargetView
from scorer.http import words


@dataclass(frozen=True, slots=True)
class Hold:
    """One hold: of what ``kind`` (a state), its end in words and as RFC 3339, and why.

    ``time`` is empty without an end, ``note`` when nobody said why.
    """

    kind: str
    end: str
    time: str
    note: str


def holds(view: TargetView, clocks: Clocks) -> tuple[Hold, ...]:
    """Return the operator's drain and the cooldown of a target, of those that apply."""
    found = []
    if view.drain is not None and view.drain.active(clocks.monotonic()):
        found.append(_hold("draining", view.drain.until, view.drain.note, clocks))
    if view.cooldown.active and view.cooldown.until is not None:
        found.append(_hold("cooldown", view.cooldown.until, view.cooldown.note, clocks))
    return tuple(found)


def _hold(kind: str, until: float, note: str, clocks: Clocks) -> Hold:
    if not math.isfinite(until):
        return Hold(kind, "until it is taken back", "", note)
    time = clocks.rfc3339(until)
    left = words.left(max(0.0, until - clocks.monotonic()))
    return Hold(kind, f"ends in {left}, at {time[11:19]} UTC", time, note)
