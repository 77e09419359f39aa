"""The source of one engine target: fetch its page, read it, never raise."""

import logging
import time
from collections.abc import Callable, Sequence

from scorer.core.samples import Page, ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.sources.failures import failed, without_userinfo
from scorer.sources.fetch import Fetcher
from scorer.sources.mapping import read_page
from scorer.sources.schema import Mapping, load_mappings

logger = logging.getLogger(__name__)


class EngineSource:
    """Scrapes ``url`` within ``timeout`` seconds; not for two threads at once.

    ``models`` are the pool's model patterns; ``mappings`` default to the shipped ones.
    """

    def __init__(
        self,
        url: str,
        timeout: float,
        models: Sequence[str],
        mappings: Sequence[Mapping] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher = Fetcher(url, timeout, clock=clock)
        self._models = tuple(models)
        self._mappings = load_mappings() if mappings is None else tuple(mappings)
        self._shown = without_userinfo(url)
        self._surprised = False

    def scrape(self) -> Page | ScrapeFailed:
        """Scrape once. An exception nobody expects is a failed scrape too, logged once."""
        try:
            return self._scrape()
        except Exception as error:
            if not self._surprised:
                self._surprised = True
                logger.exception("scrape of %s failed unexpectedly", self._shown)
            return failed(ScrapeFailure.PARSE, f"unexpected {type(error).__name__}: {error}")

    def _scrape(self) -> Page | ScrapeFailed:
        got = self._fetcher.fetch()
        if isinstance(got, ScrapeFailed):
            return got
        return read_page(got.body, got.content_type, got.complete, self._mappings, self._models)

    def close(self) -> None:
        """Close the connection that is kept between scrapes."""
        self._fetcher.close()
