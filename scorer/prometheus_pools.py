"""Pools whose signals come from Prometheus: one job asks for all targets of a pool.

What Prometheus cannot answer is no news of a target: each of the pool's targets gets a
failed scrape with the reason. Its errors and warnings are logged once per change.
"""

from collections import deque
from collections.abc import Callable, Mapping

import structlog

from scorer.clocks import Clocks
from scorer.core.health import TargetHealth
from scorer.core.samples import Scrape, ScrapeFailed
from scorer.inflight import InFlight
from scorer.registry import Pool
from scorer.sources.prometheus import PrometheusSource, Told

logger = structlog.stdlib.get_logger(__name__)

KEPT_COUNTS = 600
"""Pick counts remembered per target, to find the one that a sample's age calls for."""


class PrometheusJob:
    """Asks for one pool and leaves scrapes in its inbox.

    ``addresses`` gives the targets' names by the address that Prometheus scrapes.
    """

    def __init__(
        self,
        pool: Pool,
        source: PrometheusSource,
        timeout: float,
        addresses: Callable[[], Mapping[str, str]],
        inflight: InFlight,
        clocks: Clocks,
        done: Callable[[float], None],
    ) -> None:
        self._pool = pool
        self._source = source
        self._timeout = timeout
        self._addresses = addresses
        self._inflight = inflight
        self._clocks = clocks
        self._done = done
        self._picks: dict[str, deque[tuple[float, int]]] = {}
        self._remarks: tuple[str, ...] = ()

    def run(self) -> None:
        """Ask once."""
        clock = self._clocks.monotonic
        addresses = self._addresses()
        targets = self._pool.targets
        self._count_picks(targets)
        started = clock()
        got = self._source.ask(addresses, self._timeout, clock, self._clocks.wall())
        ended = clock()
        self._done(ended - started)
        if isinstance(got, ScrapeFailed):
            self._note((str(got.detail),))
            told = {name: Told(got) for name in addresses.values()}
        else:
            self._note(got.remarks)
            told = dict(got.told)
        for name, news in told.items():
            if health := targets.get(name):
                self._pool.inbox.append((health, self._scrape(name, news, started, ended)))

    def close(self) -> None:
        """Close the connection to Prometheus."""
        self._source.close()

    def _scrape(self, name: str, news: Told, started: float, ended: float) -> Scrape:
        at = started - news.age
        if isinstance(news.result, ScrapeFailed):
            return Scrape(news.result, started, ended)
        return Scrape(news.result, at, at, self._picks_before(name, at))

    def _count_picks(self, targets: Mapping[str, TargetHealth]) -> None:
        now, pool = self._clocks.monotonic(), self._pool.facts.name
        self._picks = {name: self._picks.get(name) or _empty() for name in targets}
        for name, counts in self._picks.items():
            counts.append((now, self._inflight.count(pool, name)))

    def _picks_before(self, name: str, at: float) -> int:
        """Return the target's pick count at the time of the sample, or the oldest known."""
        counts = self._picks.get(name) or _empty()
        known = [count for counted_at, count in counts if counted_at <= at]
        return known[-1] if known else (counts[0][1] if counts else 0)

    def _note(self, remarks: tuple[str, ...]) -> None:
        if remarks == self._remarks:
            return
        self._remarks = remarks
        for remark in remarks:
            logger.warning("Prometheus remarks", pool=self._pool.facts.name, remark=remark)
        if not remarks:
            logger.info("Prometheus answers again", pool=self._pool.facts.name)


def _empty() -> deque[tuple[float, int]]:
    return deque(maxlen=KEPT_COUNTS)
