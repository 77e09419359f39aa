"""The pick: power of two choices on the score, less a penalty per pick not yet seen.

Two distinct candidates are drawn uniformly; the better one is picked, the other one
is the alternate. Never the best of all: two draws spread a burst that the scores,
refreshed once a scrape, cannot see, and the penalty makes the picker's own picks
count before the next scrape does. Equal ones are a toss, not first come.

Pure: the answer depends on the pool's view, what is excluded, the picks not yet seen
and the dice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from scorer.core.snapshot import PoolView, TargetView

PENALTY = 0.25
"""Points a target loses in a comparison for each pick that no scrape has seen yet."""
MAX_ALTERNATES = 2


class Dice(Protocol):
    """Source of chance, such as :class:`random.Random`."""

    def randrange(self, stop: int, /) -> int:
        """Return an integer from 0 to ``stop`` - 1, uniformly."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The target picked, whom to try next, and whether the pool is in panic."""

    target: TargetView
    alternates: tuple[TargetView, ...]
    panic: bool


def pick(
    pool: PoolView,
    exclude: frozenset[str],
    unseen: Callable[[TargetView], int],
    dice: Dice,
) -> Choice | None:
    """Pick a target of ``pool``; None when it has none that is not excluded.

    ``exclude`` holds targets already tried. When it covers every candidate, the
    pool's other targets that are not excluded are used: an answer beats none.
    """
    candidates = pool.candidates
    panic = pool.panic
    if exclude:
        candidates = tuple(view for view in candidates if view.target not in exclude)
        if not candidates:
            candidates = tuple(view for view in pool.targets if view.target not in exclude)
            panic = True
    match len(candidates):
        case 0:
            return None
        case 1:
            return Choice(candidates[0], (), panic)
        case size:
            first, second = two_distinct(size, dice)
            winner, loser = candidates[first], candidates[second]
            if better(loser, winner, unseen):
                winner, loser = loser, winner
            return Choice(winner, (loser, *_third(candidates, first, second, dice)), panic)


def two_distinct(size: int, dice: Dice) -> tuple[int, int]:
    """Return two different indexes below ``size`` (at least 2), every ordered pair as likely."""
    first = dice.randrange(size)
    second = dice.randrange(size - 1)
    return first, second + (second >= first)


def better(one: TargetView, other: TargetView, unseen: Callable[[TargetView], int]) -> bool:
    """Return whether ``one`` beats ``other``; a tie leaves the order of the draw.

    A target without a score counts as 0: not knowing must not look like being idle.
    """
    return (one.score or 0.0) - PENALTY * unseen(one) > (other.score or 0.0) - PENALTY * unseen(
        other
    )


def _third(
    candidates: tuple[TargetView, ...], first: int, second: int, dice: Dice
) -> tuple[TargetView, ...]:
    """Return one more alternate, uniformly from the rest; nothing in a pool of two."""
    if len(candidates) <= MAX_ALTERNATES:
        return ()
    low, high = min(first, second), max(first, second)
    third = dice.randrange(len(candidates) - 2)
    third += third >= low
    third += third >= high
    return (candidates[third],)
