"""``/metrics``: the state collector in Prometheus' formats.

The registry is our own: nothing that a library registers globally appears here.
"""

import gzip
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from exporters.catalogue import BUCKETS
from exporters.collector import Inputs, StateCollector
from exporters.text import encode, negotiated, refused

__all__ = ["Exposition", "Inputs", "build_exposition"]

GZIP_LEVEL = 4
"""A page of 500 targets shrinks to a twentieth at this level; higher ones gain little."""

PARTS = ("bucket", "sum", "count")

Exposition = Callable[[str, str, Sequence[str]], tuple[list[tuple[str, str]], bytes]]
"""``(accept, accept_encoding, names) -> (headers, body)``; ``names`` restricts the page
to metrics of these names, empty means all. May be called from several threads."""


def build_exposition(inputs: Inputs) -> Exposition:
    """Return the renderer of ``/metrics``."""
    registry = CollectorRegistry()
    registry.register(StateCollector(inputs))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)

    def render(
        accept: str, accept_encoding: str, names: Sequence[str]
    ) -> tuple[list[tuple[str, str]], bytes]:
        content_type = negotiated(accept)
        chosen = registry.restricted_registry(expanded(names)) if names else registry
        body = encode(chosen.collect(), content_type)
        headers = [("Content-Type", content_type), ("Vary", "Accept, Accept-Encoding")]
        if accepts_gzip(accept_encoding):
            body = gzip.compress(body, GZIP_LEVEL, mtime=0)
            headers.append(("Content-Encoding", "gzip"))
        return headers, body

    return render


def expanded(names: Iterable[str]) -> set[str]:
    """Return sample names: a histogram is asked for by its own name, too."""
    return {
        sample
        for name in names
        for sample in ([f"{name}_{part}" for part in PARTS] if name in BUCKETS else [name])
    }


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an ``Accept-Encoding`` header names gzip and does not rule it out."""
    for item in accept_encoding.lower().split(","):
        coding, _, weight = item.partition(";")
        if coding.strip() == "gzip":
            return not refused(weight.partition("=")[2].strip())
    return False
