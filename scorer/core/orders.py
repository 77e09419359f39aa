"""What an operator may order about a target, and what obeying means.

A drain takes the target out until it ends by itself or is taken back; the last order
counts, so a drain can be shortened as well as prolonged. A cooldown is that of
:mod:`scorer.core.cooldown`: it only ever gets longer, until it is ended.
"""

import math
from dataclasses import dataclass

from scorer.core.health import TargetHealth
from scorer.core.overrides import Override
from scorer.core.snapshot import TargetView
from scorer.core.vocabulary import Verb

COOLDOWN_SECONDS = 30.0
"""Length of a cooldown when the operator names none: that of the longest automatic one."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order: ``seconds`` is None when no duration was given, ``note`` says why it was."""

    verb: Verb
    seconds: float | None = None
    note: str = ""


def obey(health: TargetHealth, order: Order, now: float) -> None:
    """Carry out an order at ``now``; one that changes nothing is no error."""
    match order.verb:
        case Verb.DRAIN:
            since = health.drain.since if health.drain and health.drain.active(now) else now
            until = now + (math.inf if order.seconds is None else order.seconds)
            health.drain = Override(since, until, order.note)
        case Verb.UNDRAIN:
            health.drain = None
        case Verb.COOLDOWN:
            health.cooldown.impose(now, order.seconds or COOLDOWN_SECONDS, order.note)
        case Verb.END_COOLDOWN:
            health.cooldown.end(now)


def ends_at(view: TargetView, verb: Verb) -> float | None:
    """Return when what a verb is about ends (monotonic seconds), None without an end."""
    if verb in (Verb.DRAIN, Verb.UNDRAIN):
        until = view.drain.until if view.drain else None
    else:
        until = view.cooldown.until if view.cooldown.active else None
    return until if until is not None and math.isfinite(until) else None
