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

    def metrics_site(self) -> str:
        """Return scheme, host and port of its metrics."""
        where = self.metrics_address or self.address
        return f"{where.scheme}://{where.netloc}"

    def metrics_netloc(self) -> str:
        """Return host and port of its metrics."""
        return (self.metrics_address or self.address).netloc


@dataclass(frozen=True, slots=True)
class Found:
    """The targets of a pool, each once; ``complete`` when every mechanism has answered."""

    targets: tuple[DiscoveredTarget, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class ListedTarget:
    """A target for other programs to find: its name, and where its metrics are.

    ``metrics_site`` is a URL without path; ``metrics_path`` is empty until it is known.
    """

    target: str
    metrics_site: str
    metrics_path: str
    labels: Mapping[str, str]
