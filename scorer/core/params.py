"""Parameters of the score, as plain numbers with the defaults of the reference formula."""

from dataclasses import dataclass

from scorer.core.curves import Curve, Shape


@dataclass(frozen=True, slots=True)
class ScoreParams:
    """How signals become a score.

    The three weights sum to 1. ``ttft`` is in seconds, ``errors`` is a ratio (its
    ceiling is 1 / slope), ``queue`` is in requests, ``kv_cache`` is a ratio.
    ``errors_window`` is in seconds, ``rise_limit`` in points per second.
    ``degraded_below`` is the score under which a target is called degraded.
    """

    ttft_weight: float = 0.35
    errors_weight: float = 0.40
    queue_weight: float = 0.25
    ttft: Curve = Curve(ceiling=2.0, shape=Shape.QUADRATIC)
    errors: Curve = Curve(ceiling=0.2)
    queue: Curve = Curve(ceiling=30.0)
    kv_cache: Curve = Curve(ceiling=1.0, knee=0.80)
    errors_window: int = 30
    rise_limit: float = 15.0
    degraded_below: float = 70.0
