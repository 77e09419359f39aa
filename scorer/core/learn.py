"""What the outcome of one request teaches about its target.

Observed bad, not observed and not our fault are three different things: only
``engine_fault`` and ``engine_saturated`` may cost a target points. A failed request
never contributes a TTFT, so a fast failure never looks like low latency.
"""

from typing import NamedTuple

from scorer.core.cooldown import CooldownReason
from scorer.core.health import Reported, TargetHealth
from scorer.core.outcome import Outcome, OutcomeClass
from scorer.core.sourced import Source

GAP_ALPHA = 0.2
"""Weight of one gap between two outcomes in their mean."""


class Circumstances(NamedTuple):
    """What learning needs besides the outcome.

    ``prior`` is the pool's median TTFT in seconds; ``draw`` in [0, 1) spreads the length
    of a cooldown; ``allowed`` is whether the pool may have one more target in cooldown;
    ``scale`` 0-1 takes the length of the prompt out of a TTFT, so that a long prompt is
    no illness.
    """

    prior: float | None = None
    draw: float = 0.5
    allowed: bool = True
    scale: float = 1.0


def learn(health: TargetHealth, outcome: Outcome, around: Circumstances) -> None:
    """Apply one outcome to the memory of its target."""
    _heard(health, outcome)
    match outcome.outcome:
        case OutcomeClass.SUCCESS:
            _success(health, outcome, around)
        case OutcomeClass.ENGINE_FAULT:
            _fault(health, outcome, around)
        case OutcomeClass.ENGINE_SATURATED:
            health.erred(outcome.outcome, outcome.reason, outcome.at)
            health.saturate(
                outcome.at,
                around.draw,
                retry_after=outcome.retry_after,
                picked_at=outcome.picked_at,
                allowed=around.allowed,
            )
        case OutcomeClass.CLIENT_ABORT if not outcome.had_first_token:
            _waited(health, outcome, around)
        case OutcomeClass.LOADING:
            health.erred(outcome.outcome, outcome.reason, outcome.at)
            health.loading_at = outcome.at
        case _:
            pass


def _heard(health: TargetHealth, outcome: Outcome) -> None:
    now = outcome.at
    if health.outcome_at is not None:
        health.outcome_gap += GAP_ALPHA * (now - health.outcome_at - health.outcome_gap)
    health.outcome_at = now
    if outcome.waiting is not None or outcome.kv_cache is not None:
        health.reported = Reported(outcome.waiting, outcome.kv_cache, now)


def _success(health: TargetHealth, outcome: Outcome, around: Circumstances) -> None:
    now = outcome.at
    health.success_at = now
    health.outcomes.of(Source.FEEDBACK).add(0.0, outcome.weight, now)
    if outcome.weight > 0.0:  # a first token is a sign of life, and no success yet
        was = health.failing.since
        health.failing.succeeded(outcome.weight, now, picked_at=outcome.picked_at)
        over = was is not None and health.failing.since is None
        if over and health.cooldown.reason is CooldownReason.ENGINE_FAULT:
            health.cooldown.lift(now)
    health.serves(now)
    if outcome.ttft is not None:
        health.observe(Source.FEEDBACK, outcome.ttft * around.scale, 1.0, now, around.prior)


def _fault(health: TargetHealth, outcome: Outcome, around: Circumstances) -> None:
    now = outcome.at
    health.erred(outcome.outcome, outcome.reason, now)
    health.outcomes.of(Source.FEEDBACK).add(outcome.weight, 0.0, now)
    if health.failing.failed(outcome.weight, now):
        health.cooldown.enter(
            now,
            CooldownReason.ENGINE_FAULT,
            health.params.cooldown_length(around.draw),
            picked_at=outcome.picked_at,
            allowed=around.allowed,
        )


def _waited(health: TargetHealth, outcome: Outcome, around: Circumstances) -> None:
    """Take a lower bound of the TTFT: it can raise the EWMA, never lower it."""
    if outcome.duration is None:
        return
    waited = outcome.duration * around.scale
    current = health.ttft.current(outcome.at).value
    if current is None or waited > current:
        health.observe(Source.FEEDBACK, waited, 1.0, outcome.at, current)
