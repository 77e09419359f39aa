"""A pool: its targets, how they are scraped, judged and picked."""

from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from scorer.addresses import Address, parse_address
from scorer.config.signals import AlertsConfig, PickConfig, SignalsConfig, WarmupConfig
from scorer.config.types import Deadline, Interval, Name, Strict
from scorer.core.curves import Curve
from scorer.core.params import ScoreParams
from scorer.core.view import PoolFacts


def _address(text: str) -> str:
    parse_address(text)
    return text


def _models(globs: tuple[str, ...]) -> tuple[str, ...]:
    if "" in globs:
        rule = "must not contain an empty name"
        raise ValueError(rule)
    return globs


TargetAddress = Annotated[str, AfterValidator(_address)]


class StaticConfig(Strict):
    """Targets written in the file."""

    targets: Annotated[tuple[TargetAddress, ...], Field(strict=False)]


class PoolConfig(Strict):
    """Interchangeable targets that serve the same models."""

    name: Name
    models: Annotated[tuple[str, ...], Field(strict=False), AfterValidator(_models)] = ()
    engine: Literal["auto", "vllm"] = "auto"
    scheme: Literal["http", "https"] = "http"
    metrics_path: Annotated[str, Field(pattern=r"^/[^\s?#]*$")] = "/metrics"
    scrape_interval: Interval | None = None
    scrape_timeout: Deadline | None = None
    static_configs: Annotated[tuple[StaticConfig, ...], Field(strict=False, min_length=1)]
    signals: SignalsConfig = SignalsConfig()
    warmup: WarmupConfig = WarmupConfig()
    pick: PickConfig = PickConfig()
    alerts: AlertsConfig = AlertsConfig()

    def addresses(self) -> tuple[Address, ...]:
        """Return the pool's targets, each once, in the order of the file."""
        found = [
            parse_address(text, self.scheme)
            for static in self.static_configs
            for text in static.targets
        ]
        return tuple({address.name: address for address in found}.values())

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
        )

    def facts(self) -> PoolFacts:
        """Return what the published view says of this pool."""
        alerts = self.alerts.score
        thresholds = {"warning": alerts.warning, "critical": alerts.critical}
        return PoolFacts(
            name=self.name,
            models=self.models,
            panic_threshold=self.pick.panic_threshold,
            score_thresholds=MappingProxyType(thresholds),
        )
