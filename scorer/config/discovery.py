"""How a pool finds its targets, with the keys of Prometheus' service discovery."""

import importlib.util
import ipaddress
import math
import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from scorer.addresses import MAX_PORT, is_host, parse_address
from scorer.config.files import FilePattern, beside
from scorer.config.http_client import HttpClientConfig
from scorer.config.relabel import LABEL_NAME, RelabelConfig
from scorer.config.types import Duration, Strict, at_least
from scorer.discovered import Mechanism

FILE_FORMATS = (".json", ".yml", ".yaml")
DNS_PORT = 53
SLOWEST, FASTEST = 0.001, 1000.0
"""Capacities: a target's speed relative to others."""
_PORT_NAME = re.compile(r"[a-z0-9-]*[a-z][a-z0-9-]*")


def parse_capacity(text: str) -> float:
    """Return a target's relative speed; ValueError when it is no positive number."""
    try:
        value = float(text) if text.isascii() else math.nan
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        rule = f"must be a positive number, got {text}"
        raise ValueError(rule)
    if not SLOWEST <= value <= FASTEST:
        rule = f"must be a number from {SLOWEST:g} to {FASTEST:g}, got {text}"
        raise ValueError(rule)
    return value


def parse_nameserver(text: str) -> tuple[str, int]:
    """Return address and port of a name server; ValueError when it is not written as one."""
    host, _, port = text.rpartition(":")
    bare = text.count(":") != 1 and not text.startswith("[")
    if bare or not host or text.endswith("]"):
        host, port = text, str(DNS_PORT)
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        address = None
    decimal = port.isascii() and port.isdecimal() and len(port) <= len(str(MAX_PORT))
    if address is None or not decimal or not 0 < int(port) <= MAX_PORT:
        rule = "must be an IP address with an optional port, as 10.0.0.2:53 or [fd00::2]:53"
        raise ValueError(rule)
    return str(address), int(port)


def _address(text: str) -> str:
    parse_address(text)
    return text


def _labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    for name in labels:
        if not LABEL_NAME.fullmatch(name):
            rule = f"must have label names as keys, not {name!r}"
            raise ValueError(rule)
    if "capacity" in labels:
        try:
            parse_capacity(labels["capacity"])
        except ValueError as error:
            rule = f"capacity {error}"
            raise PydanticCustomError("whole", "{rule}", {"rule": rule}) from None
    return labels


def _pattern(text: str, info: ValidationInfo) -> FilePattern:
    if not text.lower().endswith(FILE_FORMATS):
        rule = "must end in .json, .yml or .yaml"
        raise ValueError(rule)
    return FilePattern(beside(text, info))


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not text.isprintable() or " " in text:
        rule = "must be an http or https URL"
        raise ValueError(rule)
    return text


def _without_user(text: str) -> str:
    # What stands before an '@' is a secret in part: the message must not quote it.
    if "@" in text:
        rule = "must not contain a user or a password: use basic_auth"
        raise PydanticCustomError("whole", "{rule}", {"rule": rule})
    return text


def _dns_name(text: str) -> str:
    if not is_host(text):
        rule = "must be a DNS name"
        raise ValueError(rule)
    return text


def _number_or_name(value: object) -> object:
    number = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_PORT
    if not number and not (isinstance(value, str) and _PORT_NAME.fullmatch(value)):
        rule = "must be a port from 1 to 65535, or the name of one"
        raise ValueError(rule)
    return value


def _nameserver(text: str) -> str:
    parse_nameserver(text)
    return text


TargetAddress = Annotated[str, AfterValidator(_address)]
Refresh = Annotated[Duration, at_least("1s", "1d")]
Port = Annotated[int, Field(ge=1, le=MAX_PORT)]
Url = Annotated[str, AfterValidator(_without_user), AfterValidator(_url)]
Listed = Field(strict=False, min_length=1)


class StaticConfig(Strict):
    """Targets written in the file."""

    targets: Annotated[tuple[TargetAddress, ...], Field(strict=False)]
    labels: Annotated[dict[str, str], AfterValidator(_labels)] = Field(default_factory=dict)


class FileSdConfig(Strict):
    """Targets in files of Prometheus' format, read again as soon as they change."""

    files: Annotated[
        tuple[Annotated[str, AfterValidator(_pattern)], ...], Field(strict=False, min_length=1)
    ]
    refresh_interval: Refresh = 300.0


class HttpSdConfig(HttpClientConfig):
    """Targets that an HTTP server lists, in Prometheus' format."""

    url: Url
    refresh_interval: Refresh = 60.0


class DnsSdConfig(Strict):
    """Targets that DNS names resolve to; ``nameservers`` empty means those of the system."""

    names: Annotated[
        tuple[Annotated[str, AfterValidator(_dns_name)], ...], Field(strict=False, min_length=1)
    ]
    type: Literal["SRV", "A", "AAAA"] = "SRV"
    port: Port | None = None
    refresh_interval: Refresh = 30.0
    nameservers: Annotated[
        tuple[Annotated[str, AfterValidator(_nameserver)], ...], Field(strict=False)
    ] = ()

    @model_validator(mode="after")
    def _port_is_known(self) -> Self:
        if self.type != "SRV" and self.port is None:
            raise PydanticCustomError("whole", "type {type} needs port", {"type": self.type})
        return self


class KubernetesSdConfig(HttpClientConfig):
    """Targets behind the EndpointSlices of a namespace.

    ``port`` is a number, or the name of a port of the slice. Without ``api_server`` the
    cluster that the daemon runs in is asked, as the daemon's own service account.
    """

    namespace: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    label_selector: Annotated[str, Field(pattern=r"^[ -~]*$")] = ""
    port: Annotated[int | str, BeforeValidator(_number_or_name)]
    api_server: Url | None = None

    @model_validator(mode="after")
    def _client_is_installed(self) -> Self:
        if importlib.util.find_spec("kubernetes") is None:
            rule = "needs the Kubernetes client: pip install '.[kubernetes]' in a clone"
            raise PydanticCustomError("whole", "{rule}", {"rule": rule})
        return self


SdConfig = StaticConfig | FileSdConfig | HttpSdConfig | DnsSdConfig | KubernetesSdConfig


class DiscoveryConfig(Strict):
    """Every way in which a pool finds targets, and the rules that each passes."""

    static_configs: Annotated[tuple[StaticConfig, ...], Listed] = ()
    file_sd_configs: Annotated[tuple[FileSdConfig, ...], Listed] = ()
    http_sd_configs: Annotated[tuple[HttpSdConfig, ...], Listed] = ()
    dns_sd_configs: Annotated[tuple[DnsSdConfig, ...], Listed] = ()
    kubernetes_sd_configs: Annotated[tuple[KubernetesSdConfig, ...], Listed] = ()
    relabel_configs: Annotated[tuple[RelabelConfig, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _has_a_mechanism(self) -> Self:
        if not any(configs for _, configs in self.mechanisms()):
            keys = ", ".join(_KEYS.values())
            raise PydanticCustomError("whole", "must find targets by one of {keys}", {"keys": keys})
        return self

    def mechanisms(self) -> tuple[tuple[Mechanism, tuple[SdConfig, ...]], ...]:
        """Return each mechanism with its configurations, in the order in which targets count."""
        return tuple((mechanism, getattr(self, key)) for mechanism, key in _KEYS.items())

    def discovers(self) -> bool:
        """Whether targets are found elsewhere than in the configuration file."""
        return any(configs for key, configs in self.mechanisms() if key is not Mechanism.STATIC)

    def static_targets(self) -> tuple[str, ...]:
        """Return the targets written in the file, as they are written."""
        return tuple(text for static in self.static_configs for text in static.targets)


_KEYS = {
    Mechanism.STATIC: "static_configs",
    Mechanism.FILE: "file_sd_configs",
    Mechanism.HTTP: "http_sd_configs",
    Mechanism.DNS: "dns_sd_configs",
    Mechanism.KUBERNETES: "kubernetes_sd_configs",
}
