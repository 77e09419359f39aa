"""Raw score of one target: three dimensions, weighted, with an account of every point.

    ttft_factor  = curve(ttft)            error_factor = curve(error ratio)
    queue_factor = max of what is available of curve(waiting), curve(kv_cache)
    raw = 100 * (1 - (w_ttft * ttft_factor + w_errors * error_factor + w_queue * queue_factor))

Invariant: 100 minus the sum of the points lost is the score. Errors always keep
their weight, so an error can only subtract; ttft and queue share theirs when one of
them is unavailable. A target with neither is blind: not knowing must not look like
being idle, so it scores as its pool does, at most ``BLIND_LIMIT``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scorer.core.params import ScoreParams
from scorer.core.vocabulary import Cause

BLIND_LIMIT = 70.0


@dataclass(frozen=True, slots=True)
class Signals:
    """What is known of a target: ttft in seconds, errors 0-1, queue in requests, kv_cache 0-1.

    None means that the signal has no value; the ``has_*`` flags tell "no traffic
    to measure" (available, costs nothing) from "cannot be read" (unavailable).
    ``has_queue`` is whether queue or kv_cache can be read.
    """

    ttft: float | None = None
    errors: float | None = None
    queue: float | None = None
    kv_cache: float | None = None
    has_ttft: bool = True
    has_errors: bool = True

    @property
    def has_queue(self) -> bool:
        """Whether the queue dimension can be read."""
        return self.queue is not None or self.kv_cache is not None

    @property
    def blind(self) -> bool:
        """Whether the target shows neither ttft nor queue."""
        return not self.has_ttft and not self.has_queue


@dataclass(frozen=True, slots=True)
class RawScore:
    """The undamped score 0-100, what it lost points to, and how much it rests on (0-1)."""

    score: float
    points_lost: Mapping[Cause, float]
    confidence: float


def raw_score(signals: Signals, params: ScoreParams, *, pool_median: float | None) -> RawScore:
    """Judge one target by its signals alone.

    ``pool_median`` is the median raw score of the pool's other targets, None when
    there is none; only a blind target looks at it.
    """
    errors = 100.0 * params.errors_weight * params.errors.factor(signals.errors or 0.0)
    if signals.blind:
        return _blind(errors, signals, params, pool_median)
    w_ttft, w_queue = shared_weights(signals, params)
    ttft = 100.0 * w_ttft * params.ttft.factor(signals.ttft or 0.0)
    queue, kv_cache = _queue_points(100.0 * w_queue, signals, params)
    return RawScore(
        score=max(0.0, 100.0 - ttft - errors - queue - kv_cache),
        points_lost={
            Cause.TTFT: ttft,
            Cause.ERRORS: errors,
            Cause.QUEUE: queue,
            Cause.KV_CACHE: kv_cache,
        },
        confidence=_confidence(signals, params),
    )


def limited(
    raw: RawScore, params: ScoreParams, penalty: float, cap: float | None
) -> tuple[float, dict[Cause, float]]:
    """Return what a score heads for, and the points lost on the way there from 100.

    ``penalty`` is the share 0-1 of what errors can cost that saturation takes, ``cap``
    the most that the target's condition allows (points), None without a condition.
    """
    lost = dict.fromkeys(Cause, 0.0) | dict(raw.points_lost)
    full = 100.0 * params.errors_weight
    lost[Cause.SATURATION] = min(penalty * max(0.0, full - lost[Cause.ERRORS]), raw.score)
    goal = raw.score - lost[Cause.SATURATION]
    if cap is not None and goal > cap:
        lost[Cause.CAP] += goal - cap
        goal = cap
    return goal, lost


def shared_weights(signals: Signals, params: ScoreParams) -> tuple[float, float]:
    """Return the weights of ttft and of queue and kv_cache, which share when one is missing."""
    both = params.ttft_weight + params.queue_weight
    if not signals.has_ttft:
        return 0.0, both
    if not signals.has_queue:
        return both, 0.0
    return params.ttft_weight, params.queue_weight


def _queue_points(weight: float, signals: Signals, params: ScoreParams) -> tuple[float, float]:
    """Return the points lost to queue and to kv_cache: only the larger costs."""
    queue = params.queue.factor(signals.queue) if signals.queue is not None else 0.0
    kv_cache = params.kv_cache.factor(signals.kv_cache) if signals.kv_cache is not None else 0.0
    return (weight * queue, 0.0) if queue >= kv_cache else (0.0, weight * kv_cache)


def _blind(
    errors: float, signals: Signals, params: ScoreParams, pool_median: float | None
) -> RawScore:
    limit = BLIND_LIMIT if pool_median is None else min(BLIND_LIMIT, pool_median)
    errors = min(errors, limit)
    return RawScore(
        score=limit - errors,
        points_lost={Cause.ERRORS: errors, Cause.CAP: 100.0 - limit},
        confidence=_confidence(signals, params),
    )


def _confidence(signals: Signals, params: ScoreParams) -> float:
    return (
        params.ttft_weight * signals.has_ttft
        + params.errors_weight * signals.has_errors
        + params.queue_weight * signals.has_queue
    )
