"""Targets as discovery finds them, and the words for how they were found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from scorer.addresses import Address

NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Mechanism(StrEnum):
    """A way to find targets; label value of ``scorer_sd_*``."""

    STATIC = "static"
    FILE = "file"
    HTTP = "http"
    DNS = "dns"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True, slots=True)
class DiscoveredTarget:
    """One target of a pool.

    ``metrics_address`` is where its metrics are when that is not ``address``, and
    ``metrics_path`` their path when the target has one of its own. ``capacity`` is its
    speed relative to others, ``draining`` whether discovery says that it is going away.
    ``labels`` are what discovery says of it besides.
    """

    address: Address
    metrics_address: Address | None = None
    metrics_path: str = ""
    capacity: float = 1.0
    draining: bool = False
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)

    def metrics_url(self, *, port: int = 0, path: str = "/metrics") -> str:
        """Return where the metrics are; ``port`` (0: the target's) and ``path`` are defaults.

        What the target says of itself wins over both.
        """
        netloc = self.metrics_netloc(port)
        scheme = (self.metrics_address or self.address).scheme
        return f"{scheme}://{netloc}{self.metrics_path or path}"

    def metrics_netloc(self, port: int = 0) -> str:
        """Return ``host:port`` of the metrics; ``port`` is the default, 0 the target's own."""
        if self.metrics_address is not None:
            return self.metrics_address.netloc
        return f"{self.address.host}:{port}" if port else self.address.netloc


@dataclass(frozen=True, slots=True)
class Found:
    """The targets of a pool, each once; ``complete`` when every mechanism has answered."""

    targets: tuple[DiscoveredTarget, ...] = ()
    complete: bool = True
