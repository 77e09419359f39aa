"""Gateways: where the time to first token that users see is counted."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from scorer.config.discovery import Url
from scorer.config.http_client import HttpClientConfig
from scorer.config.types import Deadline, Interval, Name, Strict
from scorer.mappings.gateway import (
    GatewayPreset,
    RequestCounter,
    TargetNames,
    TargetRegex,
)
from scorer.mappings.rows import Family, HistogramSource, Label
from scorer.mappings.shipped import preset_named

PresetName = Literal[
    "nginx", "haproxy", "envoy_ai_gateway", "litellm", "apisix", "higress", "llm_d_router"
]


class RequestsCounterConfig(Strict):
    """A counter of answers, and its label that holds their HTTP status."""

    name: Family
    status_label: Label


class GatewayConfig(HttpClientConfig):
    """One gateway: what it is, and where its counters are read.

    ``pool`` is needed where rows name no target. Keys that describe the counters replace
    those of the preset; without a preset ``ttft_histogram`` says what is read. Without
    ``metrics_url`` the counters are read from Prometheus, those that ``selector`` matches.
    """

    name: Name
    preset: PresetName | None = None
    metrics_url: Url | None = None
    selector: str = ""
    pool: Name | None = None
    scrape_interval: Interval | None = None
    scrape_timeout: Deadline | None = None
    ttft_histogram: Family | None = None
    unit: Literal["seconds", "milliseconds", "microseconds"] | None = None
    target_label: Label | None = None
    target_regex: TargetRegex | None = None
    requests_counter: RequestsCounterConfig | None = None

    @model_validator(mode="after")
    def _says_what_is_read(self) -> Self:
        if self.preset is None and self.ttft_histogram is None:
            raise PydanticCustomError("whole", "must have a preset or a ttft_histogram")
        if self.unit and not self.ttft_histogram:
            raise PydanticCustomError("whole", "unit needs ttft_histogram beside it")
        if self.target_regex and not (self.target_label or self._names()):
            raise PydanticCustomError("whole", "target_regex needs target_label beside it")
        return self

    def _shipped(self) -> GatewayPreset:
        found = preset_named(self.preset) if self.preset else None
        return found or GatewayPreset(name="custom", title="custom")

    def _names(self) -> TargetNames | None:
        return self._shipped().target

    def rules(self) -> GatewayPreset:
        """Return what the gateway's page means: the preset with the keys given here."""
        shipped = self._shipped()
        changes: dict[str, object] = {}
        if self.ttft_histogram:
            scale = None if self.unit in (None, "seconds") else self.unit
            changes["ttft"] = (HistogramSource(family=self.ttft_histogram, scale=scale),)
        if self.target_label or self.target_regex:
            changes["target"] = self._changed_names(shipped.target)
        if self.requests_counter:
            counter = self.requests_counter
            changes["requests"] = (
                RequestCounter(family=counter.name, status_label=counter.status_label),
            )
        # Made anew of the fields alone: what is remembered of its names must not be copied.
        fields = {name: getattr(shipped, name) for name in GatewayPreset.model_fields}
        return GatewayPreset.model_validate({**fields, **changes})

    def _changed_names(self, names: TargetNames | None) -> TargetNames | None:
        if self.target_label:
            pool_label = names.pool_label if names else None
            return TargetNames(
                label=self.target_label, pool_label=pool_label, regex=self.target_regex
            )
        return names and names.model_copy(update={"regex": self.target_regex})

    @property
    def pool_of_one(self) -> bool:
        """Whether its rows name no target."""
        return self.rules().pool_of_one


Gateways = Annotated[tuple[GatewayConfig, ...], Field(strict=False)]
"""All gateways of the file."""


def problems_of_gateways(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of gateways that span several parts of a document."""
    pools = [name for name, _ in _named(document.get("pools"))]
    first: dict[str, int] = {}
    for index, (name, gateway) in enumerate(_named(document.get("gateways"))):
        if isinstance(name, str) and first.setdefault(name, index) != index:
            other = f"gateways[{first[name]}]"
            yield f"gateways[{index}].name: must be unique, got {name} as {other} has"
        pool = gateway.get("pool")
        if isinstance(pool, str) and pool not in pools:
            yield f"gateways[{index}].pool: must name a pool, got {pool}"


def _named(entries: object) -> Iterator[tuple[object, Mapping[str, Any]]]:
    for entry in entries if isinstance(entries, list) else []:
        found = entry if isinstance(entry, dict) else {}
        yield found.get("name"), found
