"""Judgement of a pool: from what is remembered of each target to its published view.

    signals -> raw score -> caps -> rise limit -> score, with an account of every point
    conditions, in order of precedence -> state and reason

Pure: the pool's medians, which idle decay, first samples and blind targets look at,
come from the same call. A target is judged from its second good scrape on, because
only then there are deltas; the first scrape of a running fleet is no judgement.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scorer.core.damping import rise
from scorer.core.health import TargetHealth
from scorer.core.medians import median, median_of_others
from scorer.core.score import RawScore, Signals, raw_score
from scorer.core.snapshot import Transition
from scorer.core.vocabulary import Cause, Reason, State

TTFT_RECENT = 60.0
"""Seconds for which a target's TTFT counts in its pool's median."""
WARMUP_AT_MOST = 30.0
"""Seconds after which the state ``warmup`` ends even if the ramp does not meet its goal."""
RECOVERY_MARGIN = 5.0
"""Points above the warning threshold at which a target stops being degraded."""
FIRST_JUDGED_SCRAPE = 2
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a target is worth at one moment; ``transition`` is set when its state changed.

    ``points_lost`` has every cause; 100 minus its sum is ``score``. ``score`` and
    ``raw_score`` are None while there is nothing to judge by.
    """

    health: TargetHealth
    score: float | None
    raw_score: float | None
    points_lost: Mapping[Cause, float]
    confidence: float
    error_ratio: float
    warmup_ratio: float
    eligible: bool
    observed_dead: bool
    transition: Transition | None


def recent_ttfts(targets: Sequence[TargetHealth], now: float) -> list[float]:
    """Return the TTFTs in seconds, ascending, of the targets observed lately."""
    return sorted(
        health.ttft.value
        for health in targets
        if health.ttft.value is not None and health.ttft.seen_within(TTFT_RECENT, now)
    )


def pool_ttft(targets: Sequence[TargetHealth], now: float) -> float | None:
    """Return the median TTFT in seconds of the targets observed lately, None if there is none."""
    return median(recent_ttfts(targets, now))


def judge_pool(
    targets: Sequence[TargetHealth], now: float, outstanding: Callable[[TargetHealth], int]
) -> list[Judgement]:
    """Judge every target of a pool at ``now``, in the order given.

    ``outstanding`` tells the picks of a target that its engine's numbers do not
    contain; with any, the target is not idle.
    """
    ttfts = recent_ttfts(targets, now)
    raws: list[RawScore | None] = []
    blind: list[tuple[int, Signals]] = []
    for index, health in enumerate(targets):
        _settle(health, now, ttfts, outstanding)
        signals = read_signals(health, now)
        if signals is not None and signals.blind:
            blind.append((index, signals))
        raws.append(
            None
            if signals is None or signals.blind
            else raw_score(signals, health.params, pool_median=None)
        )
    known = sorted(raw.score for raw in raws if raw is not None)
    for index, signals in blind:
        raws[index] = raw_score(signals, targets[index].params, pool_median=median(known))
    return [_judge(health, raw, now) for health, raw in zip(targets, raws, strict=True)]


def read_signals(health: TargetHealth, now: float) -> Signals | None:
    """Return the signals that the score rests on, None for a target that is out of reach."""
    if health.unreachable or health.good_scrapes == 0:
        return None
    samples, errors = health.samples, health.outcomes.ratio(now)
    if samples is None:
        return Signals(errors=errors, has_ttft=False, has_errors=False)
    return Signals(
        ttft=health.ttft.value,
        errors=errors,
        queue=samples.waiting.value,
        kv_cache=samples.kv_cache.value,
        has_ttft=samples.ttft.gap is None,
        has_errors=samples.outcomes.gap is None,
    )


def _settle(
    health: TargetHealth,
    now: float,
    ttfts: Sequence[float],
    outstanding: Callable[[TargetHealth], int],
) -> None:
    """Decay the TTFT of an idle target; leave that of a busy or unseen one alone.

    The reference is what the others show: a target must not hold itself up.
    """
    ttft = health.ttft
    if not health.idle or health.unreachable or outstanding(health) > 0:
        ttft.hold(now)
        return
    own = ttft.value if ttft.seen_within(TTFT_RECENT, now) else None
    others = median_of_others(ttfts, own)
    ttft.decay(now, health.params.ttft.ceiling / 4.0 if others is None else others)


def _judge(health: TargetHealth, raw: RawScore | None, now: float) -> Judgement:
    lost = dict.fromkeys(Cause, 0.0)
    wanted: float | None = None
    confidence = 0.0
    if health.unreachable:
        wanted, lost[Cause.CAP] = 0.0, 100.0
    elif raw is not None:
        lost.update(raw.points_lost)
        confidence = raw.confidence
        wanted = 0.0 if health.asleep else raw.score
        lost[Cause.CAP] += raw.score - wanted
    score = _damp(health, wanted, now)
    if score is None:
        lost = dict.fromkeys(Cause, 0.0)
    else:
        lost[Cause.WARMUP] = (100.0 if wanted is None else wanted) - score
    goal = 0.0 if wanted is None else wanted
    warmup_ratio = score / goal if health.ramp and score is not None and goal > 0 else 1.0
    return Judgement(
        health=health,
        score=score,
        raw_score=wanted if raw is None else raw.score,
        points_lost=lost,
        confidence=confidence,
        error_ratio=health.outcomes.ratio(now),
        warmup_ratio=warmup_ratio,
        eligible=health.good_scrapes > 0 and not health.unreachable and not health.asleep,
        observed_dead=health.unreachable is Reason.CONNECTION_REFUSED or health.asleep,
        transition=_move(health, now),
    )


def _damp(health: TargetHealth, wanted: float | None, now: float) -> float | None:
    """Move the target's score towards ``wanted`` and return it."""
    if wanted is None:
        return health.score
    if health.unreachable or health.asleep:
        health.ramp = None
    if health.score is None:
        if health.good_scrapes < FIRST_JUDGED_SCRAPE and not health.unreachable:
            return None
        health.score = wanted
    else:
        elapsed = now - (now if health.judged_at is None else health.judged_at)
        health.score = rise(health.score, wanted, elapsed, health.params.rise_limit)
    health.judged_at = now
    ramp = health.ramp
    if ramp and (health.score >= wanted - ROUNDING or now - ramp.began_at >= WARMUP_AT_MOST):
        health.ramp = None
    return health.score


def _move(health: TargetHealth, now: float) -> Transition | None:
    """Give the target its state; return the transition if the state changed."""
    before = health.state
    state, reason = _state(health)
    health.reason = reason
    if state is before:
        return None
    health.state, health.since = state, now
    transition = Transition(now, before, state, reason)
    health.transitions.append(transition)
    pair = (before, state)
    health.transition_counts[pair] = health.transition_counts.get(pair, 0) + 1
    return transition


def _state(health: TargetHealth) -> tuple[State, Reason]:
    """Return state and reason, by precedence."""
    if reason := health.unreachable:
        return State.UNREACHABLE, reason
    if health.good_scrapes == 0 or health.score is None:
        return State.WARMUP, Reason.FIRST_SEEN if health.late else Reason.NOT_SCORED
    if health.ramp:
        return State.WARMUP, health.ramp.reason
    if health.asleep:
        return State.DEGRADED, Reason.ASLEEP
    samples = health.samples
    if samples is None or (
        samples.ttft.gap and samples.waiting.gap and samples.kv_cache.gap
    ):  # fmt: skip
        return State.DEGRADED, Reason.BLIND
    limit = health.params.degraded_below
    if health.state is State.DEGRADED and health.reason is Reason.LOW_SCORE:
        limit += RECOVERY_MARGIN
    if health.score < limit:
        return State.DEGRADED, Reason.LOW_SCORE
    return State.HEALTHY, Reason.NONE
