"""Probe trickle: the way back for targets that the normal draw does not reach.

A target that is failing, frozen, stuck, starved or just back gets one short prompt at
most every 10 s, one at a time; if no short prompt came for 30 s, any. A probe without
an answer expires after 30 s. All probes together are at most a twentieth of the pool's
picks, so a pool of sick targets does not make its clients pay.
"""

from collections.abc import Container
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scorer.core.table import PickTable, Row

EVERY = 10.0
"""Seconds between two probes of a target."""
EXPIRES = 30.0
"""Seconds after which a probe that was not answered counts as unknown."""
ANY_PROMPT_AFTER = 30.0
"""Seconds without a short prompt after which a long one may probe."""
PRICE = 20
"""Picks of the pool that earn one probe."""
SAVED = 3 * PRICE
"""The most that is saved up while nothing needs a probe."""
LOOKED_AT = 16
"""Targets that one pick looks at."""
PAUSE = 0.25
"""Seconds until the next look after one that found nothing due."""
STARVED_SHARE, STARVED_FOR = 10, 30.0
"""A target is starved after ten times the picks in which it was due one, and 30 s."""


class ProbeTrickle:
    """Decides for each pick of a pool whether it is a probe; counts its ``picks``."""

    __slots__ = ("_credit", "_look_at", "_next", "_short_at", "picks")

    def __init__(self) -> None:
        """Start without credit: the first picks are no probes."""
        self.picks = 0
        self._credit = 0
        self._look_at = 0.0
        self._next = 0
        self._short_at: float | None = None

    def turn(
        self, table: "PickTable", tokens: int, out: Container[str], now: float
    ) -> "Row | None":
        """Count a pick of a prompt of ``tokens``; return the target that it shall probe, if any.

        ``out`` are targets that the request may not go to.
        """
        self.picks += 1
        if self._credit < SAVED:
            self._credit += 1
        if self._short_at is None or tokens < table.params.long_prompt_tokens:
            self._short_at = now
        if tokens >= table.params.long_prompt_tokens and now - self._short_at < ANY_PROMPT_AFTER:
            return None
        if not table.probed or self._credit < PRICE or now < self._look_at:
            return None
        rows = table.probed
        for _ in range(min(LOOKED_AT, len(rows))):
            self._next = (self._next + 1) % len(rows)
            row = rows[self._next]
            if row.target not in out and due(row, now):
                self._start(row, now)
                return row
        self._look_at = now + PAUSE
        return None

    def _start(self, row: "Row", now: float) -> None:
        self._credit -= PRICE
        load = row.load
        load.probed_at = load.probe_since = now
        load.probes += 1


def due(row: "Row", now: float) -> bool:
    """Return whether a target may be probed: none is under way, and the last is a while ago."""
    load = row.load
    if load.probe_since is not None and now - load.probe_since < EXPIRES:
        return False
    return load.probed_at is None or now - load.probed_at >= EVERY


def starved(picked_at: float, pool_picks: int, pool_size: int, now: float) -> bool:
    """Return whether a target last picked at ``picked_at`` gets too little.

    ``pool_picks`` are the picks of its pool of ``pool_size`` since then.
    """
    return pool_picks >= STARVED_SHARE * max(pool_size, 2) and now - picked_at >= STARVED_FOR
