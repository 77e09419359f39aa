"""Why a target has the score it has, and what would raise it.

    signals + saturation + caps + held back by the ramp = 100 - score, always

The points are those of the judgement; nothing is judged anew. The remedies are found in
:mod:`scorer.core.remedies`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from scorer.core.curves import Curve
from scorer.core.params import ScoreParams
from scorer.core.remedies import Remedy, curve_of, remedies, value_of
from scorer.core.score import Signals, shared_weights
from scorer.core.snapshot import SignalView, TargetView
from scorer.core.vocabulary import Cause, Reason, SignalName

KNOTS = 5
"""Points of a curve that are told, from its knee to its ceiling."""


@dataclass(frozen=True, slots=True)
class SignalRow:
    """One signal: what it is, the curve it goes through, and what it costs.

    ``factor`` is the share 0-1 of ``weight`` (0-1, what the signal has at the moment)
    that the curve takes; ``points`` are lost. Of queue and kv_cache, which share a
    weight, only the one with the larger factor costs.
    """

    name: SignalName
    signal: SignalView
    curve: Curve
    factor: float
    weight: float
    points: float

    @property
    def knots(self) -> list[tuple[float, float]]:
        """Return (value, points lost) along the curve, from the knee to the ceiling."""
        curve, last = self.curve, KNOTS - 1
        values = [curve.knee + (curve.ceiling - curve.knee) * step / last for step in range(KNOTS)]
        return [(value, 100.0 * self.weight * curve.factor(value)) for value in values]


@dataclass(frozen=True, slots=True)
class CapRow:
    """A limit of the score (points), why, and the points that it takes."""

    reason: Reason
    limit: float
    points: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that a score is made of, and the remedies, what is not known first.

    ``score`` is None before the target was judged, ``goal`` is what the score heads for,
    ``saturation`` and ``held_back`` are points, ``rise_limit`` is points per second.
    """

    score: float | None
    goal: float | None
    signals: tuple[SignalRow, ...]
    saturation: float
    caps: tuple[CapRow, ...]
    held_back: float
    rise_limit: float
    remedies: tuple[Remedy, ...]

    @property
    def points_lost(self) -> float:
        """Return all points lost; 100 less these is the score."""
        rows: tuple[SignalRow | CapRow, ...] = (*self.signals, *self.caps)
        return sum(row.points for row in rows) + self.saturation + self.held_back


def explain(view: TargetView, now: float) -> Explanation:
    """Explain the score of one target; ``now`` is what the times left are counted from."""
    held_back = view.points_lost[Cause.WARMUP]
    known = view.score is not None and (view.read is not None or bool(view.caps))
    return Explanation(
        score=view.score,
        goal=view.score + held_back if known and view.score is not None else None,
        signals=tuple(_signal_rows(view)),
        saturation=view.points_lost[Cause.SATURATION],
        caps=tuple(_cap_rows(view)),
        held_back=held_back,
        rise_limit=view.params.rise_limit,
        remedies=remedies(view, now),
    )


def _weight(read: Signals | None, params: ScoreParams, name: SignalName) -> float:
    """Return the weight 0-1 that a signal carries with what can be read."""
    if read is None:
        return 0.0
    if name is SignalName.ERRORS:
        return params.errors_weight
    if read.blind:
        return 0.0
    ttft, queue = shared_weights(read, params)
    if name is SignalName.TTFT:
        return ttft
    return queue if value_of(read, name) is not None else 0.0


def _signal_rows(view: TargetView) -> Iterator[SignalRow]:
    for name in SignalName:
        curve, value = curve_of(view.params, name), value_of(view.read, name)
        yield SignalRow(
            name=name,
            signal=view.signals[name],
            curve=curve,
            factor=0.0 if value is None else curve.factor(value),
            weight=_weight(view.read, view.params, name),
            points=view.points_lost[Cause(name)],
        )


def _cap_rows(view: TargetView) -> Iterator[CapRow]:
    """Yield every cap; a condition takes what the limit of a blind target leaves."""
    total = view.points_lost[Cause.CAP]
    limits = {cap.reason: cap.limit for cap in view.caps}
    blind = 0.0 if view.score is None else 100.0 - limits.get(Reason.BLIND, 100.0)
    for cap in view.caps:
        points = blind if cap.reason is Reason.BLIND else total - blind
        yield CapRow(cap.reason, cap.limit, points)
