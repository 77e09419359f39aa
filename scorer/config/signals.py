"""How a pool is judged: weights, curves, damping and thresholds of the score."""

from types import MappingProxyType
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from scorer.config.types import Deadline, Duration, Points, Positive, Ratio, Strict, at_least
from scorer.core.curves import Shape
from scorer.core.snapshot import Thresholds

WEIGHTS_TOLERANCE = 1e-6


class TtftConfig(Strict):
    """Weight and curve of ttft; ``ceiling`` in seconds."""

    weight: Ratio = 0.35
    ceiling: Deadline = 2.0
    curve: Annotated[Shape, Field(strict=False)] = Shape.QUADRATIC


class ErrorsConfig(Strict):
    """Weight, slope (factor 1 at a ratio of 1 / slope) and window (seconds) of errors."""

    weight: Ratio = 0.40
    slope: Annotated[float, Field(ge=1, le=1e9)] = 5.0
    window: Annotated[Duration, at_least("1s", "5m")] = 30.0


class QueueConfig(Strict):
    """Weight and curve of queue (``ceiling`` in requests) and kv_cache (``kv_knee`` 0-1)."""

    weight: Ratio = 0.25
    ceiling: Positive = 30.0
    kv_knee: Annotated[float, Field(ge=0, lt=1)] = 0.80
    curve: Annotated[Shape, Field(strict=False)] = Shape.LINEAR


class SignalsConfig(Strict):
    """The three dimensions of the score; their weights sum to 1."""

    ttft: TtftConfig = TtftConfig()
    errors: ErrorsConfig = ErrorsConfig()
    queue: QueueConfig = QueueConfig()

    @model_validator(mode="after")
    def _weights_sum_to_one(self) -> Self:
        weights = (self.ttft.weight, self.errors.weight, self.queue.weight)
        if abs(sum(weights) - 1.0) > WEIGHTS_TOLERANCE:
            raise PydanticCustomError(
                "weights",
                "the weights of ttft, errors and queue must sum to 1, got {given}",
                {"given": " + ".join(f"{w:g}" for w in weights) + f" = {sum(weights):g}"},
            )
        return self


class WarmupConfig(Strict):
    """Points per second that a score may rise by."""

    rise_limit: Positive = 15.0


class ScoreAlerts(Strict):
    """Scores below which a target is degraded and alerts of each severity apply."""

    warning: Points = 70.0
    critical: Points = 50.0

    @model_validator(mode="after")
    def _critical_is_lower(self) -> Self:
        if self.critical > self.warning:
            raise PydanticCustomError(
                "order",
                "critical must not be above warning ({warning}), got {critical}",
                {"warning": f"{self.warning:g}", "critical": f"{self.critical:g}"},
            )
        return self


class KvCacheAlerts(Strict):
    """Shares 0-1 of the KV cache in use above which alerts of each severity apply."""

    warning: Ratio = 0.90
    critical: Ratio = 0.97

    @model_validator(mode="after")
    def _critical_is_higher(self) -> Self:
        if self.critical < self.warning:
            raise PydanticCustomError(
                "order",
                "critical must not be below warning ({warning}), got {critical}",
                {"warning": f"{self.warning:g}", "critical": f"{self.critical:g}"},
            )
        return self


class TtftAlerts(Strict):
    """Seconds to the first token above which alerts apply."""

    warning: Deadline = 2.0


class AlertsConfig(Strict):
    """Thresholds exported as series, so that alert rules follow this file."""

    score: ScoreAlerts = ScoreAlerts()
    kv_cache: KvCacheAlerts = KvCacheAlerts()
    ttft: TtftAlerts = TtftAlerts()

    def thresholds(self) -> Thresholds:
        """Return the thresholds as the published view holds them."""
        by_severity = {
            name: MappingProxyType(value.model_dump())
            for name, value in (
                ("score", self.score),
                ("kv_cache", self.kv_cache),
                ("ttft", self.ttft),
            )
        }
        return Thresholds(**by_severity)
