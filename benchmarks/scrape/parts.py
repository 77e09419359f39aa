"""What one scrape costs by itself: reading a page, and fetching and reading it over a socket."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scorer.core.samples import Page
from scorer.mappings.shipped import engine_mappings
from scorer.sources.engine import EngineSource
from scorer.sources.mapping import PageReader
from scorer.sources.places import ScrapeTarget

BATCHES = 7
"""Batches of which the median counts, so that one disturbance does not."""
SECONDS = 0.3
"""Of each batch, roughly."""


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU of one scrape in milliseconds: ``read`` of its page alone, ``whole`` over a socket."""

    page: str
    kib: float
    mapping: str
    read: float
    whole: float


def cpu_of(run: Callable[[], object]) -> float:
    """Return the CPU milliseconds that one run takes: the median over batches."""
    run()
    began = time.process_time()
    for _ in range(5):
        run()
    times = max(5, int(SECONDS * 5 / max(1e-6, time.process_time() - began)))
    batches = []
    for _ in range(BATCHES):
        began = time.process_time()
        for _ in range(times):
            run()
        batches.append((time.process_time() - began) / times * 1e3)
    return statistics.median(batches)


def reading(page: Path) -> tuple[float, str]:
    """Return what it costs to read a page again and again, and the mapping that reads it."""
    body, reader = page.read_bytes(), PageReader(engine_mappings())
    result = reader.read(body, "text/plain", complete=True)
    if not isinstance(result, Page) or result.samples is None:
        message = f"{page.name} is no engine's page"
        raise ValueError(message)
    cost = cpu_of(lambda: reader.read(body, "text/plain", complete=True))
    return cost, result.samples.mapping


def scraping(port: int) -> float:
    """Return what it costs to scrape the page that is served on a port of loopback."""
    source = EngineSource(ScrapeTarget(f"http://127.0.0.1:{port}", 5.0, "/metrics"))
    try:
        return cpu_of(source.scrape)
    finally:
        source.close()
