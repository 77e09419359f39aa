"""From a label set to a target: relabel rules, then the labels that have a meaning here.

``__address__``, ``__scheme__``, ``__metrics_path__`` as in Prometheus;
``__metrics_address__`` for metrics on another host or port, ``capacity`` for the relative
speed, ``__draining__`` for a target that is going away.
"""

from collections.abc import Mapping
from types import MappingProxyType

import structlog

from scorer.addresses import Address, parse_address
from scorer.config.discovery import parse_capacity
from scorer.config.pool import PoolConfig
from scorer.discovered import DiscoveredTarget
from scorer.sources.discovery.groups import ADDRESS
from scorer.sources.discovery.relabel import relabel

SCHEME = "__scheme__"
METRICS_PATH = "__metrics_path__"
METRICS_ADDRESS = "__metrics_address__"
DRAINING = "__draining__"
CAPACITY = "capacity"

logger = structlog.stdlib.get_logger(__name__)


class UnusableTargetError(ValueError):
    """A label set that names no target; its text says why."""


class Resolver:
    """Makes targets of label sets after the rules of one pool."""

    def __init__(self, config: PoolConfig) -> None:
        """Use the scheme, the port of metrics and the relabel rules of ``config``."""
        self._scheme = config.scheme
        self._metrics_port = config.port_of_metrics
        self._rules = config.relabel_configs

    def resolve(self, found: Mapping[str, str]) -> DiscoveredTarget | None:
        """Return the target that ``found`` is, None when a rule drops it.

        UnusableTargetError when what is left names none.
        """
        labels = relabel(self._completed(found), self._rules)
        if labels is None:
            return None
        scheme = labels.get(SCHEME, "")
        address = _parsed(ADDRESS, labels.get(ADDRESS, ""), scheme)
        path = labels.get(METRICS_PATH, "")
        return DiscoveredTarget(
            address=address,
            metrics_address=self._elsewhere(labels.get(METRICS_ADDRESS), address),
            metrics_path=path if path.startswith("/") or not path else f"/{path}",
            capacity=_capacity(labels, address),
            draining=labels.get(DRAINING, "").lower() == "true",
            labels=MappingProxyType(
                {name: value for name, value in labels.items() if not name.startswith("__")}
            ),
        )

    def _elsewhere(self, label: str | None, address: Address) -> Address | None:
        """Return where the metrics are, by the target's own label or by the pool's port."""
        if label:
            return _parsed(METRICS_ADDRESS, label, address.scheme)
        port = self._metrics_port
        return Address(address.scheme, f"{address.host}:{port}") if port else None

    def _completed(self, found: Mapping[str, str]) -> dict[str, str]:
        """Return the labels with a scheme: that of the address, the label's, or the pool's."""
        labels = {SCHEME: self._scheme, **{name: value for name, value in found.items() if value}}
        scheme, mark, rest = found.get(ADDRESS, "").partition("://")
        if mark:
            labels |= {SCHEME: scheme, ADDRESS: rest}
        return labels


def _parsed(label: str, text: str, scheme: str) -> Address:
    if scheme not in ("http", "https"):
        raise UnusableTargetError(f"{SCHEME}: must be http or https, got {scheme[:100]!r}")
    try:
        return parse_address(text, scheme)
    except ValueError as error:
        raise UnusableTargetError(f"{label}: {error}, got {text[:100]!r}") from None


def _capacity(labels: Mapping[str, str], address: Address) -> float:
    """Return the relative speed; one that cannot be read is none, and is logged."""
    text = labels.get(CAPACITY)
    if text is None:
        return 1.0
    try:
        return parse_capacity(text)
    except ValueError as error:
        logger.warning("Capacity not used", target=address.name, reason=f"capacity: {error}")
        return 1.0
