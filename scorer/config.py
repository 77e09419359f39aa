"""Configuration: one YAML file into frozen models, strict, every error at once.

Unknown keys are errors, nothing is replaced by a default, and each error names the
path, the rule and the value (``pools[0].scrape_timeout: must be less than
scrape_interval (1s), got 2s``). How errors are found and worded is in
:mod:`scorer.config_errors`; here is what the file means.
"""

from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from scorer.addresses import MAX_PORT, Address, parse_address
from scorer.config_errors import (
    ConfigError,
    load_yaml,
    problems_across,
    problems_of,
    where_and_what,
)
from scorer.core.curves import Curve, Shape
from scorer.core.params import ScoreParams
from scorer.core.view import PoolFacts
from scorer.durations import parse_duration

WEIGHTS_TOLERANCE = 1e-6


def _duration(value: object) -> float:
    if not isinstance(value, str):
        rule = "must be a duration such as 500ms, 15s or 1m30s"
        raise PydanticCustomError("duration", rule)
    return parse_duration(value)


def _at_least(low: str, high: str | None = None) -> AfterValidator:
    """Return a check that a duration lies between two others."""

    def check(seconds: float) -> float:
        if seconds < parse_duration(low) or (high and seconds > parse_duration(high)):
            rule = f"must be at least {low}" + (f" and at most {high}" if high else "")
            raise ValueError(rule)
        return seconds

    return AfterValidator(check)


def parse_listen_address(text: str) -> str:
    """Return ``text`` if it is ``host:port``; ValueError says the rule."""
    host, _, port = text.rpartition(":")
    bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not port.isdecimal() or int(port) > MAX_PORT or bare_ipv6 or ":" not in text:
        rule = "must be host:port, as 0.0.0.0:9808 or [::]:9808"
        raise ValueError(rule)
    return text


def _address(text: str) -> str:
    parse_address(text)
    return text


def _models(globs: tuple[str, ...]) -> tuple[str, ...]:
    if "" in globs:
        rule = "must not contain an empty name"
        raise ValueError(rule)
    return globs


Duration = Annotated[float, BeforeValidator(_duration)]
"""Seconds, written as a duration."""
Interval = Annotated[Duration, _at_least("100ms", "5m")]
Deadline = Annotated[Duration, _at_least("1ms")]
Positive = Annotated[float, Field(gt=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Points = Annotated[float, Field(ge=0, le=100)]
ListenAddress = Annotated[str, AfterValidator(parse_listen_address)]
TargetAddress = Annotated[str, AfterValidator(_address)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class Strict(BaseModel):
    """A part of the file: frozen, no unknown keys, no silent conversion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class GlobalConfig(Strict):
    """Defaults of every pool, in seconds: how often to scrape, and the total deadline."""

    scrape_interval: Interval = 1.0
    scrape_timeout: Deadline = 0.8


class WebConfig(Strict):
    """Where the one listener is."""

    listen_address: ListenAddress = "0.0.0.0:9808"


class StaticConfig(Strict):
    """Targets written in the file."""

    targets: Annotated[tuple[TargetAddress, ...], Field(strict=False)]


class TtftConfig(Strict):
    """Weight and curve of ttft; ``ceiling`` in seconds."""

    weight: Ratio = 0.35
    ceiling: Deadline = 2.0
    curve: Annotated[Shape, Field(strict=False)] = Shape.QUADRATIC


class ErrorsConfig(Strict):
    """Weight, slope (factor 1 at a ratio of 1 / slope) and window (seconds) of errors."""

    weight: Ratio = 0.40
    slope: Annotated[float, Field(ge=1)] = 5.0
    window: Annotated[Duration, _at_least("1s", "5m")] = 30.0


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


class PickConfig(Strict):
    """Share of eligible targets below which the pool is in panic."""

    panic_threshold: Ratio = 0.5


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


class AlertsConfig(Strict):
    """Thresholds exported as series, so that alert rules follow this file."""

    score: ScoreAlerts = ScoreAlerts()


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


class Config(Strict):
    """The whole file."""

    global_: GlobalConfig = Field(default=GlobalConfig(), alias="global")
    web: WebConfig = WebConfig()
    pools: Annotated[tuple[PoolConfig, ...], Field(strict=False, min_length=1)]

    def interval(self, pool: PoolConfig) -> float:
        """Return the seconds between two scrapes of a target of ``pool``."""
        return pool.scrape_interval or self.global_.scrape_interval

    def timeout(self, pool: PoolConfig) -> float:
        """Return the total deadline of a scrape in ``pool``, in seconds."""
        return pool.scrape_timeout or self.global_.scrape_timeout

    def warnings(self) -> list[str]:
        """Return what is allowed and probably not meant, one line each."""
        empty = [
            f"pools[{index}].static_configs: names no target"
            for index, pool in enumerate(self.pools)
            if not pool.addresses()
        ]
        hidden = [
            f"pools[{index}].models: {both} is served by pool {earlier.name} too, "
            f"which comes first and gets its requests"
            for index, pool in enumerate(self.pools)
            for earlier in self.pools[:index]
            if (both := _served_by_both(earlier.models, pool.models))
        ]
        return empty + hidden


def _served_by_both(first: tuple[str, ...], second: tuple[str, ...]) -> str:
    """Return a model that two pools serve as far as their globs tell, or nothing."""
    if not first or not second:
        return "any model" if not first and not second else ", ".join(first or second)
    return ", ".join(model for model in second if any(fnmatchcase(model, glob) for glob in first))


def parse_config(text: str) -> Config:
    """Return the configuration that ``text`` holds; ConfigError lists every problem."""
    document = load_yaml(text)
    try:
        config = Config.model_validate(document)
    except ValidationError as error:
        raise ConfigError([*problems_of(error, Config), *problems_across(document)]) from None
    if problems := problems_across(document):
        raise ConfigError(problems)
    return config


def load_config(path: str | Path) -> Config:
    """Return the configuration in the file ``path``; ConfigError when it cannot be used."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([f"cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise ConfigError(["is not UTF-8 text"]) from None
    try:
        return parse_config(text)
    except yaml.YAMLError as error:
        raise ConfigError([f"is not valid YAML: {where_and_what(error)}"]) from None
