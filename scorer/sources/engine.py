"""The source of one engine target: find its page, fetch it, read it, never raise.

An engine that has more than one page, or whose kind is not known, is looked for at all
paths that the mappings name. Once a page is found only that place is scraped, until it
is there no more.
"""

import logging
import time
from collections.abc import Callable

from scorer.core.samples import Page, ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.mappings.engine import Mapping
from scorer.sources.failures import failed, without_userinfo
from scorer.sources.places import Place, ScrapeTarget, Verdict

logger = logging.getLogger(__name__)

SEARCH_AGAIN = 20
"""Scrapes between two looks at places that had nothing."""

_FOUND = (Verdict.FAIR, Verdict.GOOD)


class EngineSource:
    """Scrapes ``target``; not for two threads at once."""

    def __init__(self, target: ScrapeTarget, clock: Callable[[], float] = time.monotonic) -> None:
        self._target = target
        self._clock = clock
        self._places = [Place(target, path, clock) for path in target.paths()]
        self._current = self._places[0]
        self._resting = 0
        self._found = False
        self._surprised = False

    @property
    def place(self) -> Place:
        """Where the page is, as far as is known."""
        return self._current

    @property
    def interval(self) -> float | None:
        """The seconds between two scrapes that the page asks for, None when it does not."""
        mapping: Mapping | None = self._current.mapping if self._target.paced else None
        return mapping.interval if mapping else None

    @property
    def patience(self) -> float:
        """The longest that the next scrape may take, in seconds."""
        return self._deadline(self._current)

    def scrape(self) -> Page | ScrapeFailed:
        """Scrape once. An exception nobody expects is a failed scrape too, logged once."""
        try:
            return self._scrape()
        except Exception as error:
            if not self._surprised:
                self._surprised = True
                logger.exception(
                    "scrape of %s failed unexpectedly", without_userinfo(self._target.site)
                )
            return failed(ScrapeFailure.PARSE, f"unexpected {type(error).__name__}: {error}")

    def _scrape(self) -> Page | ScrapeFailed:
        begun = self._clock()
        place = self._current
        result = place.scrape(self._deadline(place))
        lost = place.verdict is Verdict.ELSEWHERE
        unknown = place.verdict is Verdict.SILENT and not self._found
        self._found = self._found or place.verdict in _FOUND
        if len(self._places) == 1 or not (lost or unknown or place.verdict is Verdict.FAIR):
            return result
        self._resting -= 1
        return result if self._resting > 0 else self._search(result, begun)

    def _deadline(self, place: Place) -> float:
        """Return how long to wait: longer at the only place left that may yet answer."""
        others = [each for each in self._places if each is not place]
        alone = all(each.verdict is Verdict.ELSEWHERE for each in others)
        return place.patience if alone or place.verdict is Verdict.FAIR else self._target.timeout

    def _search(self, first: Page | ScrapeFailed, begun: float) -> Page | ScrapeFailed:
        """Look at the other places; go on from the best, and return what was found there.

        Those that were silent come last, because they may use up the deadline.
        """
        found = {self._current.path: first}
        until = begun + self._deadline(self._current)
        for place in sorted(self._places, key=lambda each: each.verdict is Verdict.SILENT):
            left = max(until, begun + self._deadline(place)) - self._clock()
            if place.path not in found and left > 0:
                found[place.path] = place.scrape(left)
            if place.verdict is Verdict.GOOD:
                break
        tried = [place for place in self._places if place.path in found]
        best = max(tried, key=lambda place: place.verdict)
        self._current, self._resting = best, SEARCH_AGAIN
        self._found = self._found or best.verdict in _FOUND
        if best.verdict is Verdict.SILENT:
            untried = [place for place in self._places if place.path not in found]
            self._current, self._resting = (untried or [best])[0], 0
        return found[best.path]

    def close(self) -> None:
        """Close the connections that are kept between scrapes."""
        for place in self._places:
            place.close()
