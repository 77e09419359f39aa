"""What can be wrong with a target besides its numbers, each with its cap and consequences.

One condition applies at a time, the gravest first. All of them take the target out of
the normal draw; some leave it to the probe trickle, the rest come back by scrapes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scorer.core.health import TargetHealth
from scorer.core.outstanding import Outstanding
from scorer.core.vocabulary import Reason

STUCK_LEASES = 3
STUCK_AT_LEAST = 5.0
PROBED_CAP = 20.0


@dataclass(frozen=True, slots=True)
class Condition:
    """Why a target is out of the draw, the most it can score (points), and its way back.

    ``dead`` means seen not to work, rather than merely not seen; ``probed`` means that
    single requests find out whether it works again.
    """

    reason: Reason
    cap: float = 0.0
    dead: bool = True
    probed: bool = False


Rule = tuple[Condition, Callable[[TargetHealth, float, Outstanding], bool]]


def _refused(health: TargetHealth, now: float, _: Outstanding) -> bool:
    out = health.unreachable is Reason.CONNECTION_REFUSED
    return out and not health.alive_by_feedback(now)


def _not_scraped(health: TargetHealth, now: float, _: Outstanding) -> bool:
    out = health.unreachable is Reason.SCRAPES_FAILED
    return out and not health.alive_by_feedback(now)


def _asleep(health: TargetHealth, _: float, __: Outstanding) -> bool:
    return health.asleep


def _loading(health: TargetHealth, now: float, _: Outstanding) -> bool:
    return health.loading(now)


def _engine_draining(health: TargetHealth, _: float, __: Outstanding) -> bool:
    return health.engine_draining()


def _failing(health: TargetHealth, _: float, __: Outstanding) -> bool:
    return health.failing.since is not None


def _frozen(health: TargetHealth, now: float, outstanding: Outstanding) -> bool:
    return health.progress.frozen(now, outstanding.largest_prefill)


def _stuck(health: TargetHealth, now: float, outstanding: Outstanding) -> bool:
    """Idle by its own page, and the last leases ended without a word for a while."""
    if not health.idle or outstanding.lost_in_row < STUCK_LEASES:
        return False
    silence = max(health.params.ttft.ceiling, STUCK_AT_LEAST)
    return health.outcome_at is None or now - health.outcome_at >= silence


RULES: Sequence[Rule] = (
    (Condition(Reason.CONNECTION_REFUSED), _refused),
    (Condition(Reason.SCRAPES_FAILED, dead=False), _not_scraped),
    (Condition(Reason.ASLEEP), _asleep),
    (Condition(Reason.LOADING), _loading),
    (Condition(Reason.ENGINE_DRAINING), _engine_draining),
    (Condition(Reason.FAILING, PROBED_CAP, probed=True), _failing),
    (Condition(Reason.FROZEN, PROBED_CAP, probed=True), _frozen),
    (Condition(Reason.STUCK, PROBED_CAP, probed=True), _stuck),
)

UNREACHABLE = (Reason.CONNECTION_REFUSED, Reason.SCRAPES_FAILED)


def stands_still(health: TargetHealth, now: float, outstanding: Outstanding) -> bool:
    """Return whether the target's page does not move though it has work, as it says or as we know.

    A stuck engine says that it is idle, but requests were sent to it and never ended.
    """
    return _frozen(health, now, outstanding) or _stuck(health, now, outstanding)


def condition_of(health: TargetHealth, now: float, outstanding: Outstanding) -> Condition | None:
    """Return the gravest condition that applies at ``now``, None when there is none."""
    for condition, applies in RULES:
        if applies(health, now, outstanding):
            return condition
    return None
