"""Parameters of scores and picks, as plain numbers with the defaults of the reference."""

from dataclasses import dataclass

from scorer.core.curves import Curve, Shape

ALL_CHOICES = 0


@dataclass(frozen=True, slots=True)
class PickParams:
    """How targets are picked.

    ``choices`` is how many cold targets are drawn, :data:`ALL_CHOICES` for the argmin of
    the whole sample. ``kv_guard`` is the share 0-1 of the KV cache beyond which a target
    is passed by, ``long_prompt_tokens`` the length from which a prompt is long,
    ``lease_ttl`` the seconds after which a lease without any word is closed.
    """

    choices: int = 2
    kv_guard: float = 0.85
    long_prompt_tokens: int = 4096
    lease_ttl: float = 600.0


@dataclass(frozen=True, slots=True)
class ScoreParams:
    """How signals become a score.

    The three weights sum to 1. ``ttft`` is in seconds, ``errors`` is a ratio (its
    ceiling is 1 / slope), ``queue`` is in requests, ``kv_cache`` is a ratio.
    ``errors_window`` is in seconds, ``rise_limit`` in points per second.
    ``degraded_below`` is the score under which a target is called degraded; the two
    cooldown lengths are in seconds.
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
    shortest_cooldown: float = 3.0
    longest_cooldown: float = 5.0

    def cooldown_length(self, draw: float) -> float:
        """Return the seconds of a cooldown for a ``draw`` from [0, 1)."""
        return self.shortest_cooldown + draw * (self.longest_cooldown - self.shortest_cooldown)
