"""Orders of operators about targets that left: kept for a while, should they come back.

Discovery loses a target for a moment and finds it again: a resolver that hiccups, a host
that reboots. What an operator decided about it outlives that. All else that was
remembered of it is gone, and so is a target's order once it has stayed away for long:
its address may be somebody else's by then.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scorer.core.health import TargetHealth
from scorer.core.overrides import Override

KEPT_FOR = 1800.0
"""Seconds for which orders wait for their target: the reboot of a large host, and to spare."""
MOST = 1024
"""Targets of a pool whose orders wait; beyond, those that left first are forgotten."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What holds about a target that left at ``left_at`` (monotonic seconds)."""

    left_at: float
    drain: Override | None
    cooldown: Override | None

    def hold(self, now: float) -> bool:
        """Return whether there is anything left to come back to."""
        given = [each for each in (self.drain, self.cooldown) if each is not None]
        return now - self.left_at < KEPT_FOR and any(each.active(now) for each in given)


def gone(
    absent: Mapping[str, Orders], departed: Iterable[TargetHealth], now: float
) -> dict[str, Orders]:
    """Return the orders that wait, by target, once more have left; those that ended do not."""
    left = {each.id.target: Orders(now, each.drain, each.cooldown.by_hand) for each in departed}
    waiting = {name: each for name, each in absent.items() if name not in left} | left
    holding = [(name, each) for name, each in waiting.items() if each.hold(now)]
    return dict(holding[-MOST:])


def back(orders: Orders | None, health: TargetHealth, now: float) -> None:
    """Give a target that came back the orders that still hold about it."""
    if orders is not None and orders.hold(now):
        health.drain = orders.drain
        health.cooldown.by_hand = orders.cooldown
        health.cooldown.counted_from = now


def forget(health: TargetHealth) -> None:
    """Forget what operators ordered about a target that stayed away for too long."""
    health.drain = health.cooldown.by_hand = None
