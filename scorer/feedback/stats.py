"""Counts of feedback, written on the event loop only and read from any thread.

Pools and targets come from the registry and reasons from a closed set, so nothing that a
gateway sends makes up a series.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum

from scorer.core.outcome import OutcomeClass


class Rejection(StrEnum):
    """Why a feedback item was not applied."""

    MALFORMED = "malformed"
    UNKNOWN_TARGET = "unknown_target"
    UNKNOWN_POOL = "unknown_pool"
    ORPHAN = "orphan"
    """It names no target, and its pick is not known (any more)."""
    DUPLICATE = "duplicate"
    """The end of this pick was told before."""
    UNAUTHORIZED = "unauthorized"
    TOO_LARGE = "too_large"
    OVERFLOW = "overflow"
    """More came in than is being applied."""


class FeedbackStats:
    """Outcomes by pool, target and class, and items that were not applied by reason."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self._outcomes: dict[tuple[str, str], dict[OutcomeClass, int]] = {}
        self._rejected = dict.fromkeys(Rejection, 0)

    def count(self, pool: str, target: str, outcome: OutcomeClass) -> None:
        """Count one outcome of a known target."""
        counts = self._outcomes.get((pool, target))
        if counts is None:
            counts = self._outcomes[pool, target] = dict.fromkeys(OutcomeClass, 0)
        counts[outcome] += 1

    def reject(self, reason: Rejection) -> None:
        """Count one item that was not applied."""
        self._rejected[reason] += 1

    def outcomes(self, pool: str, target: str) -> Mapping[OutcomeClass, int]:
        """Return a copy of a target's counts; every class is in it."""
        return dict(self._outcomes.get((pool, target)) or dict.fromkeys(OutcomeClass, 0))

    def rejected(self) -> Mapping[Rejection, int]:
        """Return a copy of the counts of items not applied; every reason is in it."""
        return dict(self._rejected)

    def keep(self, targets: Collection[tuple[str, str]]) -> None:
        """Forget every (pool, target) but ``targets``."""
        counts = dict(self._outcomes)
        self._outcomes = {key: counts[key] for key in counts if key in targets}
