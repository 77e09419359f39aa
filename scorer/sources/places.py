"""Where an engine may have its page: each path with the connection and the reader of its own."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from scorer.config.http_client import HttpClientConfig
from scorer.core.samples import Page, ScrapeFailed
from scorer.core.vocabulary import Engine, ScrapeFailure
from scorer.mappings.engine import Mapping
from scorer.mappings.shipped import engine_mappings
from scorer.sources.fetch import Fetched, Fetcher
from scorer.sources.http_client import NO_CLIENT
from scorer.sources.mapping import PageReader

DEFAULT_PATH = "/metrics"

_NOT_HERE = ("status 404", "status 405", "status 410")


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """What to scrape and how.

    ``site`` is scheme, host and port. ``path`` empty means where the engine has its
    page. ``timeout`` is the total deadline in seconds; ``paced`` lets a mapping ask for
    a deadline and an interval of its own. ``mappings`` are tried in their order.
    """

    site: str
    timeout: float
    path: str = ""
    paced: bool = True
    models: tuple[str, ...] = ()
    engine: Engine | None = None
    mappings: tuple[Mapping, ...] | None = None
    client: HttpClientConfig = NO_CLIENT

    def known_mappings(self) -> tuple[Mapping, ...]:
        """Return the mappings to try: those given, else those that ship."""
        return engine_mappings() if self.mappings is None else self.mappings

    def paths(self) -> tuple[str, ...]:
        """Return the paths at which the page may be, the likeliest first."""
        if self.path:
            return (self.path,)
        known = self.known_mappings()
        paths = [each.path for each in known if self.engine in (None, each.engine)]
        usual = [DEFAULT_PATH] if self.engine is None or not paths else []
        return tuple(dict.fromkeys((*usual, *paths)))


class Verdict(IntEnum):
    """What a scrape of one place means for the search, the better the higher."""

    UNTRIED = 0
    ELSEWHERE = 1
    """There is something, but no page of an engine."""
    SILENT = 2
    """No answer in time: perhaps it only takes longer."""
    BROKEN = 3
    """It fails for a reason that no other path would change."""
    FAIR = 4
    """A page that empties as it is read, which another place may make unnecessary."""
    GOOD = 5


class Place:
    """One path of a target."""

    def __init__(
        self, target: ScrapeTarget, path: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = path
        self.verdict = Verdict.UNTRIED
        self.fetched: Fetched | None = None
        """What was fetched last, None after a failure."""
        mappings = target.known_mappings()
        self._target = target
        self._fetcher = Fetcher(
            target.site + path, target.timeout, client=target.client, clock=clock
        )
        self._reader = PageReader(mappings, target.models, target.engine)
        self._slow = _slow(mappings, target, path)

    @property
    def mapping(self) -> Mapping | None:
        """The mapping of the last good page."""
        return self._reader.mapping

    @property
    def patience(self) -> float:
        """The longest that an answer from here may take, in seconds.

        An engine of unknown kind that is slow is slow: only one that is known to take
        long gets the time.
        """
        known = [each for each in self._slow if each is self.mapping or self._named(each)]
        return max([self._target.timeout, *(each.deadline or 0.0 for each in known)])

    def _named(self, mapping: Mapping) -> bool:
        return mapping.engine is self._target.engine

    def scrape(self, timeout: float) -> Page | ScrapeFailed:
        """Scrape once, within ``timeout`` seconds."""
        got = self._fetcher.fetch(timeout)
        if isinstance(got, ScrapeFailed):
            result: Page | ScrapeFailed = got
            self.fetched = None
        else:
            self.fetched = got
            result = self._reader.read(
                got.body, got.content_type, complete=got.complete, check=got.check
            )
        self.verdict = self._judged(result)
        return result

    def _judged(self, result: Page | ScrapeFailed) -> Verdict:
        if isinstance(result, Page):
            if result.samples is None:
                return Verdict.ELSEWHERE
            drains = self.mapping is not None and self.mapping.format == "json"
            return Verdict.FAIR if drains else Verdict.GOOD
        if result.reason is ScrapeFailure.TIMEOUT:
            return Verdict.SILENT
        foreign = result.reason is ScrapeFailure.WRONG_CONTENT
        absent = foreign or result.detail.startswith(_NOT_HERE)
        return Verdict.ELSEWHERE if absent else Verdict.BROKEN

    def close(self) -> None:
        """Close the connection that is kept between scrapes."""
        self._fetcher.close()


def _slow(mappings: Sequence[Mapping], target: ScrapeTarget, path: str) -> list[Mapping]:
    """Return the mappings that may be read here and that ask for a deadline of their own."""
    if not target.paced:
        return []
    return [each for each in mappings if each.deadline and each.path == path]
