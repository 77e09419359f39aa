"""Whether scrapes reach a target: failures in a row, refusals, and how long nothing was heard.

One failure is no news, a refused connection nearly is. A scrape that failed on this side
says nothing of the target. A good page ends all of it.
"""

from dataclasses import dataclass

from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import Reason, ScrapeFailure

FALL = 3
"""Failed scrapes in a row after which a target is unreachable."""
REFUSED = 2
"""Refused connections without a success since, after which a target is unreachable."""
LONGEST_LOOK = 3.0
"""Seconds between two looks that count at most: a daemon that stood still saw nothing."""


@dataclass(slots=True)
class Contact:
    """What scrapes of one target came to since the last good page; times are seconds.

    ``unheard`` is how long no scrape has ended, ``refused_at`` when the first of the
    connections ``refused`` since then was.
    """

    failed_in_row: int = 0
    refused: int = 0
    refused_at: float = 0.0
    unheard: float = 0.0
    _looked_at: float | None = None

    def look(self, now: float) -> None:
        """Note that the target is being judged: time passes without news of it."""
        if self._looked_at is not None:
            self.unheard += min(max(0.0, now - self._looked_at), LONGEST_LOOK)
        self._looked_at = now

    def failed(self, failure: ScrapeFailed, now: float) -> None:
        """Take a failed scrape."""
        if failure.reason is ScrapeFailure.LOCAL:
            return
        self.unheard = 0.0
        self.failed_in_row += 1
        if failure.refused:
            self.refused_at = self.refused_at if self.refused else now
            self.refused += 1

    def made(self) -> None:
        """Take a good page."""
        self.failed_in_row = self.refused = 0
        self.unheard = 0.0

    def lost(self, patience: float) -> Reason | None:
        """Return why scrapes do not reach the target, None when they do.

        ``patience`` is the seconds without the end of any scrape after which they do not.
        """
        if self.refused >= REFUSED:
            return Reason.CONNECTION_REFUSED
        silent = self.failed_in_row >= FALL or self.unheard > patience
        return Reason.SCRAPES_FAILED if silent else None

    def refused_since(self, at: float) -> bool:
        """Return whether connections were refused after ``at``."""
        return self.refused > 0 and at < self.refused_at
