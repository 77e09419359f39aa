"""``/metrics``: the state collector in Prometheus' formats.

The registry is our own: nothing that a library registers globally appears here.
"""

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from exporters.catalogue import BUCKETS
from exporters.collector import Inputs, StateCollector
from exporters.text import encode, negotiated

__all__ = ["Exposition", "Inputs", "build_exposition"]

PARTS = ("bucket", "sum", "count")

Exposition = Callable[[str, Sequence[str]], tuple[list[tuple[str, str]], bytes]]
"""``(accept, names) -> (headers, body)``; ``names`` restricts the page to metrics of these
names, empty means all. May be called from several threads."""


def build_exposition(inputs: Inputs) -> Exposition:
    """Return the renderer of ``/metrics``."""
    registry = CollectorRegistry()
    registry.register(StateCollector(inputs))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)

    def render(accept: str, names: Sequence[str]) -> tuple[list[tuple[str, str]], bytes]:
        content_type = negotiated(accept)
        chosen = registry.restricted_registry(expanded(names)) if names else registry
        body = encode(chosen.collect(), content_type)
        return [("Content-Type", content_type), ("Vary", "Accept")], body

    return render


def expanded(names: Iterable[str]) -> set[str]:
    """Return sample names: a histogram is asked for by its own name, too."""
    return {
        sample
        for name in names
        for sample in ([f"{name}_{part}" for part in PARTS] if name in BUCKETS else [name])
    }
