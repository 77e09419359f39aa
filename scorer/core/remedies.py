"""What would raise the score of a target, and by how much.

What a remedy gives back is the score that :mod:`scorer.core.score` says the same target
would head for with that one thing put right, less the one it heads for as it is. So a
remedy below a cap gives nothing until the cap is gone, and a queue that stands beside a
full KV cache gives what that leaves over.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scorer.core.cooldown import FADE_HALF_LIFE, CooldownReason
from scorer.core.curves import Curve
from scorer.core.params import ScoreParams
from scorer.core.score import Signals, limited, raw_score
from scorer.core.snapshot import TargetView
from scorer.core.vocabulary import Cause, Reason, SignalName, State

VISIBLE = 0.05
"""Points below which a gain is not worth telling."""


class Lever(StrEnum):
    """What a remedy changes."""

    TTFT = "ttft"
    ERRORS = "errors"
    QUEUE = "queue"
    KV_CACHE = "kv_cache"
    QUEUE_AND_KV_CACHE = "queue_and_kv_cache"
    """Both at once: one alone gives less, as only the larger costs."""
    SIGHT = "sight"
    """A blind target whose ttft and queue can be read, and are at their best."""
    CAP = "cap"
    """The condition that caps the score is over."""
    COOLDOWN = "cooldown"
    SATURATION = "saturation"
    """What is left of the penalty after a cooldown."""
    WARMUP = "warmup"
    DRAIN = "drain"
    FIRST_SCORE = "first_score"


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing that would raise the score by ``points``; None is not known.

    ``value`` is what a signal is and ``best`` the worst value that costs nothing, both in
    its unit; ``value`` is None for a signal that cannot be read. ``seconds`` is in how
    long it comes by itself, None where something has to happen for it. ``reason`` is
    that of the cap, the cooldown or the draining.
    """

    lever: Lever
    points: float | None
    value: float | None = None
    best: float | None = None
    seconds: float | None = None
    reason: Reason | None = None


def curve_of(params: ScoreParams, name: SignalName) -> Curve:
    """Return the curve that a signal goes through."""
    match name:
        case SignalName.TTFT:
            return params.ttft
        case SignalName.ERRORS:
            return params.errors
        case SignalName.QUEUE:
            return params.queue
        case SignalName.KV_CACHE:
            return params.kv_cache


def value_of(read: Signals | None, name: SignalName) -> float | None:
    """Return the value that the formula took."""
    if read is None:
        return None
    match name:
        case SignalName.TTFT:
            return read.ttft if read.has_ttft else None
        case SignalName.ERRORS:
            return read.errors
        case SignalName.QUEUE:
            return read.queue
        case SignalName.KV_CACHE:
            return read.kv_cache


@dataclass(frozen=True, slots=True)
class _Case:
    """What the formula needs of a target: as it is, or with one thing put right."""

    read: Signals
    params: ScoreParams
    penalty: float
    cap: float | None
    blind_limit: float | None

    def goal(self) -> float:
        """Return what the score heads for."""
        raw = raw_score(self.read, self.params, pool_median=self.blind_limit)
        return limited(raw, self.params, self.penalty, self.cap)[0]


def _case(view: TargetView) -> _Case | None:
    """Return the case of a target as it is, None when nothing is read of it."""
    if view.read is None or view.score is None:
        return None
    limits = {cap.reason is Reason.BLIND: cap.limit for cap in view.caps}
    return _Case(view.read, view.params, view.penalty, limits.get(False), limits.get(True))


def remedies(view: TargetView, now: float) -> tuple[Remedy, ...]:
    """Return what would raise the score: what is not known first, then the largest gain."""
    return tuple(sorted(_remedies(view, now), key=_order))


def _order(remedy: Remedy) -> tuple[bool, float]:
    return remedy.points is not None, -(remedy.points or 0.0)


def _remedies(view: TargetView, now: float) -> Iterator[Remedy]:
    case = _case(view)
    if view.state is State.DRAINING:
        yield _drain(view, now)
    if view.cooldown.active:
        yield _cooldown(view, case, now)
    yield from _condition(view, case)
    if case is None:
        if view.score is None or not view.caps:
            yield Remedy(Lever.FIRST_SCORE, None)
        return
    goal = case.goal()
    yield from _fading(view, case, goal)
    yield from _signals(case, goal)
    held_back = view.points_lost[Cause.WARMUP]
    if held_back >= VISIBLE:
        seconds = held_back / view.params.rise_limit
        yield Remedy(Lever.WARMUP, held_back, seconds=seconds)


def _drain(view: TargetView, now: float) -> Remedy:
    """Return the end of draining, which costs picks and no points."""
    if view.drain is None:
        return Remedy(Lever.DRAIN, 0.0, reason=Reason.DISCOVERY)
    seconds = max(0.0, view.drain.until - now) if math.isfinite(view.drain.until) else None
    return Remedy(Lever.DRAIN, 0.0, seconds=seconds, reason=Reason.MANUAL)


def _cooldown(view: TargetView, case: _Case | None, now: float) -> Remedy:
    """Return the end of the cooldown under way; only that of saturation costs points."""
    cooldown, points = view.cooldown, 0.0
    if cooldown.reason is CooldownReason.ENGINE_SATURATED and case is not None:
        points = replace(case, penalty=0.0).goal() - case.goal()
    reason = Reason(cooldown.reason) if cooldown.reason else None
    seconds = None if cooldown.until is None else max(0.0, cooldown.until - now)
    return Remedy(Lever.COOLDOWN, points, seconds=seconds, reason=reason)


def _condition(view: TargetView, case: _Case | None) -> Iterator[Remedy]:
    """Yield the end of the condition; what it gives is not known where nothing is read."""
    for cap in view.caps:
        if cap.reason is not Reason.BLIND:
            gain = replace(case, cap=None).goal() - case.goal() if case else None
            yield Remedy(Lever.CAP, gain, reason=cap.reason)


def _fading(view: TargetView, case: _Case, goal: float) -> Iterator[Remedy]:
    """Yield the rest of a saturation penalty; its time is that until less than a point is left."""
    saturated = view.cooldown.reason is CooldownReason.ENGINE_SATURATED
    gain = replace(case, penalty=0.0).goal() - goal
    if gain >= VISIBLE and not (view.cooldown.active and saturated):
        yield Remedy(
            Lever.SATURATION, gain, seconds=FADE_HALF_LIFE * max(0.0, math.log2(max(gain, 1.0)))
        )


def _signals(case: _Case, goal: float) -> Iterator[Remedy]:
    """Yield the signals that cost points, each with what its best would give back."""
    params, read = case.params, case.read
    gains: dict[SignalName, float] = {}
    for name in SignalName:
        if read.blind and name is not SignalName.ERRORS:
            continue
        best = curve_of(params, name).knee
        gains[name] = replace(case, read=_at_best(read, params, [name])).goal() - goal
        if gains[name] >= VISIBLE:
            seconds = float(params.errors_window) if name is SignalName.ERRORS else None
            yield Remedy(Lever(name), gains[name], value_of(read, name), best, seconds)
    pair = (SignalName.QUEUE, SignalName.KV_CACHE)
    both = replace(case, read=_at_best(read, params, pair)).goal() - goal
    if not read.blind and both >= max(gains[name] for name in pair) + VISIBLE:
        yield Remedy(Lever.QUEUE_AND_KV_CACHE, both)
    if read.blind:
        names = (SignalName.TTFT, SignalName.QUEUE)
        seen = replace(case, read=_at_best(read, params, names)).goal() - goal
        if seen >= VISIBLE:
            yield Remedy(Lever.SIGHT, seen, reason=Reason.BLIND)


def _at_best(read: Signals, params: ScoreParams, names: Sequence[SignalName]) -> Signals:
    """Return signals of which these can be read and cost nothing."""
    for name in names:
        best = curve_of(params, name).knee
        match name:
            case SignalName.TTFT:
                read = replace(read, ttft=best, has_ttft=True)
            case SignalName.ERRORS:
                read = replace(read, errors=best, has_errors=True)
            case SignalName.QUEUE:
                read = replace(read, queue=best)
            case SignalName.KV_CACHE:
                read = replace(read, kv_cache=best)
    return read
