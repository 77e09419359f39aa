"""Exporters that tell our state to other programs in their own protocols."""

from scorer.config.types import Strict


class EnvoyEdsConfig(Strict):
    """Whether Envoy may read the endpoints of pools from ``/v3/discovery:endpoints``."""

    enabled: bool = False


class ExportersConfig(Strict):
    """The whole section."""

    envoy_eds: EnvoyEdsConfig = EnvoyEdsConfig()
