"""A pool: its targets, how they are scraped, judged and picked."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from scorer.config.discovery import DiscoveryConfig
from scorer.config.engines import EngineConfig
from scorer.config.http_client import HttpClientConfig
from scorer.config.picking import CooldownConfig, PickConfig
from scorer.config.signals import AlertsConfig, SignalsConfig, WarmupConfig
from scorer.config.types import Deadline, Interval, Name
from scorer.core.curves import Curve
from scorer.core.params import ScoreParams
from scorer.core.view import PoolFacts


def _models(globs: tuple[str, ...]) -> tuple[str, ...]:
    if "" in globs:
        rule = "must not contain an empty name"
        raise ValueError(rule)
    return globs


class PoolConfig(DiscoveryConfig, EngineConfig, HttpClientConfig):
    """Interchangeable targets that serve the same models.

    The keys of :class:`HttpClientConfig` are those of its scrapes.
    """

    name: Name
    models: Annotated[tuple[str, ...], Field(strict=False), AfterValidator(_models)] = ()
    scheme: Literal["http", "https"] = "http"
    scrape_interval: Interval | None = None
    scrape_timeout: Deadline | None = None
    signals: SignalsConfig = SignalsConfig()
    warmup: WarmupConfig = WarmupConfig()
    cooldown: CooldownConfig = CooldownConfig()
    pick: PickConfig = PickConfig()
    alerts: AlertsConfig = AlertsConfig()

    def score_params(self) -> ScoreParams:
        """Return the parameters of this pool's scores."""
        signals, alerts = self.signals, self.alerts.score
        queue = signals.queue
        return ScoreParams(
            ttft_weight=signals.ttft.weight,
            errors_weight=signals.errors.weight,
            queue_weight=queue.weight,
            ttft=Curve(signals.ttft.ceiling, shape=signals.ttft.curve),
            errors=Curve(1.0 / signals.errors.slope),
            queue=Curve(queue.ceiling, shape=queue.curve),
            kv_cache=Curve(1.0, knee=queue.kv_knee, shape=queue.curve),
            errors_window=int(signals.errors.window),
            rise_limit=self.warmup.rise_limit,
            degraded_below=alerts.warning,
            shortest_cooldown=self.cooldown.min,
            longest_cooldown=self.cooldown.max,
        )

    def facts(self) -> PoolFacts:
        """Return what the published view says of this pool."""
        return PoolFacts(
            name=self.name,
            models=self.models,
            panic_threshold=self.pick.panic_threshold,
            thresholds=self.alerts.thresholds(),
            pick=self.pick.params(self.cooldown),
        )
