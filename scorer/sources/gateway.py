"""One gateway as a source: what its counters gained since the last read, by target.

Deltas are taken per series, so a gateway that restarts, a worker that joins and new
buckets after an upgrade do no harm. The first page is a baseline; a target that turns
up on a later page had counted nothing before.

A target that a page lacks is remembered for a while, beyond that only its name: its history
is not one interval's traffic when it comes back, so it is a baseline again. When so many
were forgotten that not even their names are known, every newcomer is a baseline: a gain is
told a page late rather than invented.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from scorer.core.deltas import CounterDelta, HistogramDelta
from scorer.core.gateway import GatewayReading
from scorer.core.samples import Histogram, ScrapeFailed
from scorer.core.vocabulary import Gap, ScrapeFailure
from scorer.mappings.gateway import GatewayPreset
from scorer.mappings.promql import selection
from scorer.sources.exposition import Row
from scorer.sources.fetch import Fetcher
from scorer.sources.gateway_page import (
    ANY,
    Counted,
    GatewayPage,
    Named,
    parse_gateway,
    parse_named,
    read_gateway,
)
from scorer.sources.prometheus_api import PrometheusApi, QueryRefused
from scorer.sources.view import View

FORGOTTEN_AFTER = 600
"""Pages without a target after which its counters are forgotten."""
MOST_ABSENT = 1000
"""Targets not on the page whose counters are kept, and of those forgotten the names."""
MOST_SERIES = 20_000
"""Series of all targets together that are not on the page."""

Health = TypeVar("Health")

ReadPage = Callable[[], GatewayPage | ScrapeFailed]


@dataclass(slots=True)
class _Memory:
    """The last counters of one target, how many, and the page that had them."""

    page: int = 0
    series: int = 0
    ttft: HistogramDelta = field(default_factory=HistogramDelta)
    requests: dict[float, CounterDelta] = field(default_factory=dict)

    @classmethod
    def of_newcomer(cls) -> "_Memory":
        """Return the memory of a target that had no counters before."""
        memory = cls()
        memory.ttft.advance(Histogram())
        return memory


class GatewaySource:
    """Reads ``name`` by ``read_page``; not for two threads at once."""

    def __init__(self, name: str, read_page: ReadPage) -> None:
        self._name = name
        self._read_page = read_page
        self.gap: Gap | None = None
        """Why the last good page told no TTFT, None when it did."""
        self._memories: dict[Named, _Memory] = {}
        """Those that are absent for longest come first."""
        self._forgotten: dict[Named, None] = {}
        self._overflowed = False
        self._pages = 0

    def read(self, clock: Callable[[], float]) -> Mapping[Named, GatewayReading] | ScrapeFailed:
        """Return what each target gained since the last good page, or why there is no page."""
        try:
            page = self._read_page()
        except Exception as error:  # noqa: BLE001 - one gateway must not stop the schedule
            return ScrapeFailed(ScrapeFailure.PARSE, f"unexpected {type(error).__name__}: {error}")
        if isinstance(page, ScrapeFailed):
            return page
        self.gap = page.gap
        return self._gained(page, clock())

    def _gained(self, page: GatewayPage, now: float) -> dict[Named, GatewayReading]:
        self._pages += 1
        readings = {name: self._advance(name, told, now) for name, told in page.targets.items()}
        self._forget(len(self._memories) - len(page.targets))
        return {name: reading for name, reading in readings.items() if not reading.empty}

    def _advance(self, name: Named, told: Counted, now: float) -> GatewayReading:
        memory, baseline = self._memories.pop(name, None), False
        if memory is None:
            baseline = self._may_have_counted(name)
            memory = _Memory() if baseline else _Memory.of_newcomer()
        self._memories[name] = memory
        memory.page = self._pages
        memory.series = len(told.ttft.counts) + sum(map(len, told.requests.values()))
        count, mean = memory.ttft.advance(told.ttft)
        failures = successes = 0.0
        for share, counters in told.requests.items():
            delta = memory.requests.get(share)
            if delta is None:
                delta = memory.requests[share] = CounterDelta()
                if not baseline:
                    delta.advance({})
            gained = delta.advance(counters)
            failures += gained * share
            successes += gained if share == 0 else 0.0
        return GatewayReading(self._name, now, count, mean, failures, successes)

    def _may_have_counted(self, name: Named) -> bool:
        """Return whether a target that is not remembered may have been on a page before."""
        known = name in self._forgotten
        self._forgotten.pop(name, None)
        return known or self._overflowed or self._pages == 1

    def _forget(self, absent: int) -> None:
        """Forget those absent for long, and of ``absent`` that are too many the longest."""
        found = list(islice(self._memories.items(), absent))
        series = sum(memory.series for _, memory in found)
        for name, memory in found:
            fresh = self._pages - memory.page <= FORGOTTEN_AFTER
            if fresh and absent <= MOST_ABSENT and series <= MOST_SERIES:
                break
            del self._memories[name]
            absent, series = absent - 1, series - memory.series
            if len(self._forgotten) < MOST_ABSENT:
                self._forgotten[name] = None
            else:
                self._overflowed = True


def page_reader(fetcher: Fetcher, preset: GatewayPreset) -> ReadPage:
    """Return a function that scrapes a gateway's own page."""

    def read() -> GatewayPage | ScrapeFailed:
        got = fetcher.fetch()
        if isinstance(got, ScrapeFailed):
            return got
        return parse_gateway(
            got.body, got.content_type, preset, complete=got.complete, check=got.check
        )

    return read


class TargetIndex(Generic[Health]):
    """Finds the target of a pool that a gateway calls by some name."""

    def __init__(self, targets: Mapping[str, Health]) -> None:
        """Index ``targets`` by their address."""
        self._all = list(targets.values())
        self._by_netloc: dict[tuple[str, int], list[tuple[str, Health]]] = {}
        self._by_host: dict[str, list[Health]] = {}
        for address, health in targets.items():
            named = parse_named(address)
            if named is not None:
                key = (named.host, named.port)
                self._by_netloc.setdefault(key, []).append((named.path, health))
                self._by_host.setdefault(named.host, []).append(health)

    def find(self, named: Named) -> Health | None:
        """Return the target that is meant, None when there is none or it is not clear which.

        Without a port the host decides if it is unique; of several targets on one port
        the longest path does.
        """
        if named is ANY or named == ANY:
            return _only(self._all)
        if not named.port:
            return _only(self._by_host.get(named.host, ()))
        found = self._by_netloc.get((named.host, named.port), [])
        if len(found) > 1:
            fitting = [each for each in found if _within(named.path, each[0])]
            longest = max((len(path) for path, _ in fitting), default=0)
            found = [each for each in fitting if len(each[0]) == longest]
        return _only([health for _, health in found])


def _only(found: Sequence[Health]) -> Health | None:
    return found[0] if len(found) == 1 else None


def _within(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


def addressed(
    readings: Mapping[Named, GatewayReading],
    indexes: Mapping[str, TargetIndex[Health]],
    only_pool: str | None,
) -> Iterator[tuple[Named, list[tuple[str, Health]]]]:
    """Yield for each name that a gateway uses the pools that have the target, with it."""
    for named in readings:
        wanted = only_pool or (named.pool if named.pool in indexes else None)
        found = [
            (pool, health)
            for pool, index in indexes.items()
            if wanted in (None, pool) and (health := index.find(named)) is not None
        ]
        yield named, found if named.host != ANY.host or len(found) == 1 else []


def series_reader(
    api: PrometheusApi, timeout: float, preset: GatewayPreset, selector: str
) -> ReadPage:
    """Return a function that reads a gateway's counters as Prometheus has them."""
    bases = {source.family for source in preset.ttft if source.sum is None}
    query = selection(sorted(preset.names - bases), selector)

    def read() -> GatewayPage | ScrapeFailed:
        got = api.instant(query, timeout)
        if isinstance(got, QueryRefused):
            return ScrapeFailed(ScrapeFailure.HTTP_STATUS, f"Prometheus: {got.detail}")
        if isinstance(got, ScrapeFailed):
            return ScrapeFailed(got.reason, f"Prometheus: {got.detail}"[:200])
        rows: dict[str, list[Row]] = {}
        for series in got.series:
            rows.setdefault(series.name, []).append(series.row(frozenset()))
        return read_gateway(View(rows), preset)

    return read
