"""The last picks, with all that decided them: what was compared, at what cost, by which draws.

A pick appends one tuple; nothing is rendered before somebody asks. Appending and copying
a deque are atomic, so any thread may read.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scorer.core.pick import Choice

KEPT = 1_000


Fields = tuple[float, str, str, int, bool, int, str, str, Choice, Sequence[float]]
"""The fields of a :class:`Decision`: a plain tuple is all that a pick has time for."""


class Decision(NamedTuple):
    """One pick.

    ``at`` is monotonic seconds, ``tokens`` the length that the prompt was taken to have,
    ``known`` whether the request told it, ``excluded`` how many targets it excluded; ``draws``
    are floats in the order in which they were taken.
    """

    at: float
    pool: str
    pick_id: str
    tokens: int
    known: bool
    excluded: int
    key: str
    lora: str
    choice: Choice
    draws: Sequence[float]

    def names(self, target: str) -> bool:
        """Whether the pick compared or returned ``target``."""
        rows = (self.choice.row, *self.choice.alternates, *self.choice.sample)
        return any(row.target == target for row in rows)


class Decisions:
    """The last thousand decisions; ``add`` takes the fields of one as a tuple."""

    def __init__(self) -> None:
        """Start without any."""
        self._kept: deque[Fields] = deque(maxlen=KEPT)
        self.add = self._kept.append

    def latest(self, *, pool: str = "", target: str = "") -> Iterator[Decision]:
        """Yield decisions, the latest first, of a ``pool`` and about a ``target`` if given."""
        for fields in reversed(self._kept.copy()):
            decision = Decision(*fields)
            if (not pool or decision.pool == pool) and (not target or decision.names(target)):
                yield decision
