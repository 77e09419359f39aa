"""Judgement of a pool: from what is remembered of each target to its published view.

    signals -> raw score -> saturation -> caps -> rise limit -> score, every point accounted for
    conditions, in order of precedence -> state and reason

Pure: the pool's medians, which idle decay, first samples and blind targets look at,
come from the same call. A target is judged from its second good scrape on, because
only then there are deltas; the first scrape of a running fleet is no judgement.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scorer.core.conditions import UNREACHABLE, Condition, condition_of, stands_still
from scorer.core.damping import rise
from scorer.core.health import TargetHealth
from scorer.core.lost import LOST_LIMIT
from scorer.core.medians import median, median_of_others
from scorer.core.outstanding import Outstanding
from scorer.core.score import RawScore, Signals, limited, raw_score
from scorer.core.snapshot import Transition
from scorer.core.sourced import RECENT, Source
from scorer.core.vocabulary import Cause, Reason, SignalName, State

TTFT_RECENT = 60.0
"""Seconds for which a target's TTFT counts in its pool's median."""
WARMUP_AT_MOST = 30.0
"""Seconds after which the state ``warmup`` ends even if the ramp does not meet its goal."""
RECOVERY_MARGIN = 5.0
"""Points above the warning threshold at which a target stops being degraded."""
FIRST_JUDGED_SCRAPE = 2
ROUNDING = 1e-9
PASSING = (State.DRAINING, State.COOLDOWN)
"""States that end by time, without anything being seen of the target."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a target is worth at one moment; ``transition`` is set when its state changed.

    ``points_lost`` has every cause; 100 minus its sum is ``score``. ``score`` and
    ``raw_score`` are None while there is nothing to judge by; ``signals`` is None for a
    target out of reach. ``goal`` is what the score rises to. ``frozen`` is whether
    its page stands still beside work, whatever graver condition applies besides. ``lost`` is
    whether the page had a signal that the score should rest on and that can no longer be read.
    """

    health: TargetHealth
    signals: Signals | None
    condition: Condition | None
    score: float | None
    raw_score: float | None
    goal: float | None
    points_lost: Mapping[Cause, float]
    confidence: float
    eligible: bool
    stalled: tuple[str, ...]
    """Those of several engines behind the target that have work and stand still."""
    transition: Transition | None
    frozen: bool = False
    lost: bool = False


def recent_ttfts(targets: Sequence[TargetHealth], now: float) -> list[float]:
    """Return the TTFTs in seconds, ascending, of the targets observed lately."""
    ewmas = [health.ttft.current(now) for health in targets]
    return sorted(
        ewma.value
        for ewma in ewmas
        if ewma.value is not None and ewma.seen_within(TTFT_RECENT, now)
    )


def pool_ttft(targets: Sequence[TargetHealth], now: float) -> float | None:
    """Return the median TTFT in seconds of the targets observed lately, None if there is none."""
    return median(recent_ttfts(targets, now))


def judge_pool(
    targets: Sequence[TargetHealth],
    now: float,
    outstanding: Callable[[TargetHealth], Outstanding],
    between: Callable[[], object] = lambda: None,
) -> list[Judgement]:
    """Judge every target of a pool at ``now``, in the order given.

    ``outstanding`` tells the picks under way on a target; ``between`` is called again and
    again, for whoever has others to think of in the course of long work.
    """
    ttfts = recent_ttfts(targets, now)
    under_way = [outstanding(health) for health in targets]
    signals: list[Signals | None] = []
    for health, picks in zip(targets, under_way, strict=True):
        health.contact.look(now)
        _settle(health, now, ttfts, picks)
        signals.append(read_signals(health, now, picks))
        between()
    raws = _raw_scores(targets, signals)
    judgements = []
    for health, read, raw, picks in zip(targets, signals, raws, under_way, strict=True):
        judgements.append(_judge(health, read, raw, picks, now))
        between()
    return judgements


def read_signals(health: TargetHealth, now: float, picks: Outstanding) -> Signals | None:
    """Return the signals that the score rests on, None for a target that is out of reach.

    What an engine said of itself with an answer counts when it is newer than its page.
    While a request waits for its first token, its age is a lower bound of the TTFT: a
    hung engine does not recover by silence.
    """
    blind = health.unreachable is not None
    blind = blind or (health.good_scrapes == 0 and not health.awaited(now))
    if blind and not health.alive_by_feedback(now):
        return None
    ttft = health.ttft.current(now)
    value = ttft.value
    if picks.oldest_wait > (value or 0.0):
        value = picks.oldest_wait
    samples = None if blind else health.samples
    waiting, kv_cache = _load(health, now, blind=blind)
    return Signals(
        ttft=value,
        errors=health.outcomes.ratio(now),
        queue=waiting,
        kv_cache=kv_cache,
        has_ttft=_has_ttft(health, now, blind=blind),
        has_errors=health.outcomes.heard(Source.FEEDBACK, now)
        or health.outcomes.heard(Source.GATEWAY, now)
        or (samples is not None and samples.outcomes.gap is None),
    )


def _load(health: TargetHealth, now: float, *, blind: bool) -> tuple[float | None, float | None]:
    """Return (waiting, kv_cache), each from the pages or from the answer that is newer."""
    reported = health.reported
    if reported is not None and now - reported.at > RECENT:
        reported = None

    def newest(name: SignalName, told: float | None) -> float | None:
        held = None if blind else health.watch.held(name)
        if reported is None or told is None or (held is not None and reported.at <= held.at):
            return None if held is None else held.value
        return told

    return (
        newest(SignalName.QUEUE, reported.waiting if reported else None),
        newest(SignalName.KV_CACHE, reported.kv_cache if reported else None),
    )


def _lost(health: TargetHealth, signals: Signals | None, now: float) -> bool:
    """Whether a signal is lost that nobody else tells either."""
    if signals is None or health.unreachable:
        return False
    heard = health.ttft.current(now).seen_within(RECENT, now)
    told = {
        SignalName.QUEUE: signals.queue is not None,
        SignalName.KV_CACHE: signals.kv_cache is not None,
        SignalName.TTFT: heard and health.ttft.chosen(now) is not Source.ENGINE,
    }
    return any(not told[name] for name in health.watch.lost())


def _has_ttft(health: TargetHealth, now: float, *, blind: bool) -> bool:
    """Whether the engine's page, or another source that was heard, tells the TTFT."""
    if not blind and health.watch.held(SignalName.TTFT) is not None:
        return True
    return health.ttft.current(now).observed_at is not None


def _raw_scores(
    targets: Sequence[TargetHealth], signals: Sequence[Signals | None]
) -> list[RawScore | None]:
    """Return raw scores; the blind ones look at the median of those that can be seen."""
    raws = [
        raw_score(read, health.params, pool_median=None)
        if read is not None and not read.blind
        else None
        for health, read in zip(targets, signals, strict=True)
    ]
    known = median(sorted(raw.score for raw in raws if raw is not None))
    for index, read in enumerate(signals):
        if read is not None and read.blind:
            raws[index] = raw_score(read, targets[index].params, pool_median=known)
    return raws


def _settle(health: TargetHealth, now: float, ttfts: Sequence[float], picks: Outstanding) -> None:
    """Decay the TTFT of an idle target; leave that of a busy or unseen one alone.

    The reference is what the others show: a target must not hold itself up.
    """
    seen = not (health.unreachable or health.awaited(now))
    if not health.idle or not seen or picks.requests > 0:
        health.ttft.hold(now)
        return
    ttft = health.ttft.current(now)
    own = ttft.value if ttft.seen_within(TTFT_RECENT, now) else None
    others = median_of_others(ttfts, own)
    health.ttft.decay(now, health.params.ttft.ceiling / 4.0 if others is None else others)


def _judge(
    health: TargetHealth,
    signals: Signals | None,
    raw: RawScore | None,
    picks: Outstanding,
    now: float,
) -> Judgement:
    condition = condition_of(health, now, picks)
    lost = dict.fromkeys(Cause, 0.0)
    unread = _lost(health, signals, now)
    cap = condition.cap if condition else LOST_LIMIT if unread else None
    goal = _goal(health, raw, cap, lost, now)
    score = _damp(health, goal, condition, now)
    if score is None:
        lost = dict.fromkeys(Cause, 0.0)
    else:
        lost[Cause.WARMUP] = (100.0 if goal is None else goal) - score
    reachable = health.good_scrapes > 0 or health.alive_by_feedback(now)
    reachable = reachable or health.eligible_before(now)
    return Judgement(
        health=health,
        signals=signals,
        condition=condition,
        score=score,
        raw_score=goal if raw is None else raw.score,
        goal=goal,
        points_lost=lost,
        confidence=raw.confidence if raw else 0.0,
        stalled=health.parts.stalled(now, picks.largest_prefill),
        eligible=reachable and condition is None and health.drained(now) is None,
        transition=_move(health, signals, condition, now, lost=unread),
        frozen=stands_still(health, now, picks),
        lost=unread,
    )


def _goal(
    health: TargetHealth,
    raw: RawScore | None,
    cap: float | None,
    lost: dict[Cause, float],
    now: float,
) -> float | None:
    """Return the score without damping, at most ``cap``, and account for it in ``lost``."""
    if raw is None:
        if cap is None:
            return None
        lost[Cause.CAP] = 100.0
        return 0.0
    goal, points = limited(raw, health.params, health.cooldown.penalty(now), cap)
    lost.update(points)
    return goal


def _damp(
    health: TargetHealth, goal: float | None, condition: Condition | None, now: float
) -> float | None:
    """Move the target's score towards ``goal`` and return it."""
    if goal is None:
        health.doubt(now)
        return health.score
    if condition is not None and condition.cap == 0.0:
        health.ramp = None
    if health.score is None:
        if health.good_scrapes < FIRST_JUDGED_SCRAPE and condition is None:
            return None
        health.score = goal
    elif health.awaited(now):
        # Only a scrape bears out a score from before a restart: until then it can but fall.
        health.score = min(health.score, goal)
        return health.score
    else:
        elapsed = now - (now if health.judged_at is None else health.judged_at)
        health.score = rise(health.score, goal, elapsed, health.params.rise_limit)
    health.judged_at = now
    ramp = health.ramp
    if ramp and (health.score >= goal - ROUNDING or now - ramp.began_at >= WARMUP_AT_MOST):
        health.ramp = None
    return health.score


def _move(
    health: TargetHealth,
    signals: Signals | None,
    condition: Condition | None,
    now: float,
    *,
    lost: bool,
) -> Transition | None:
    """Give the target its state; return the transition if the state changed."""
    before = health.state
    state, reason = _state(health, signals, condition, now, lost=lost)
    health.reason = reason
    if state is before:
        return None
    health.state, health.since = state, now
    transition = Transition(now, before, state, reason)
    health.transitions.append(transition)
    pair = (before, state)
    health.transition_counts[pair] = health.transition_counts.get(pair, 0) + 1
    return transition


def _state(
    health: TargetHealth,
    signals: Signals | None,
    condition: Condition | None,
    now: float,
    *,
    lost: bool,
) -> tuple[State, Reason]:
    """Return state and reason, by precedence."""
    if drained := health.drained(now):
        return State.DRAINING, drained
    if condition and condition.reason in UNREACHABLE:
        return State.UNREACHABLE, condition.reason
    if cause := health.cooldown.cause(now):
        return State.COOLDOWN, Reason(cause)
    if health.score is None or signals is None:
        return _unseen(health)
    if health.ramp:
        return State.WARMUP, health.ramp.reason
    if condition:
        return State.DEGRADED, condition.reason
    blind = signals.blind or health.unreachable
    if blind or lost:
        return State.DEGRADED, Reason.BLIND if blind else Reason.SIGNAL_LOST
    return _by_score(health, health.score)


def _unseen(health: TargetHealth) -> tuple[State, Reason]:
    """Return the state of a target that no scrape has shown: what it was before a restart."""
    if health.score is None or health.vouched is None:
        return State.WARMUP, Reason.FIRST_SEEN if health.late else Reason.NOT_SCORED
    if health.state in PASSING:
        return _by_score(health, health.score)
    return health.state, health.reason


def _by_score(health: TargetHealth, score: float) -> tuple[State, Reason]:
    limit = health.params.degraded_below
    if health.state is State.DEGRADED and health.reason is Reason.LOW_SCORE:
        limit += RECOVERY_MARGIN
    if score < limit:
        return State.DEGRADED, Reason.LOW_SCORE
    return State.HEALTHY, Reason.NONE
