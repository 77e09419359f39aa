"""Exporters that tell our state to other programs in their own protocols."""

from typing import Annotated

from pydantic import AfterValidator

from scorer.config.types import Strict, parse_listen_address


def _listen(text: str) -> str:
    return parse_listen_address(text) if text else text


class HaproxyAgentConfig(Strict):
    """Where HAProxy's agent-checks are answered; nowhere when empty."""

    listen: Annotated[str, AfterValidator(_listen)] = ""


class EnvoyEdsConfig(Strict):
    """Whether Envoy may read the endpoints of pools from ``/v3/discovery:endpoints``."""

    enabled: bool = False


class ExportersConfig(Strict):
    """The whole section."""

    envoy_eds: EnvoyEdsConfig = EnvoyEdsConfig()
    haproxy_agent: HaproxyAgentConfig = HaproxyAgentConfig()
