"""What an operator decided about a target: since when, until when, and why.

An override ends by itself. It is looked at with the time at hand, so nothing has to
happen for it to end: the first judgement after its end goes by the target's health again.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Override:
    """A decision from ``since`` until ``until`` (monotonic seconds); ``note`` is free text."""

    since: float
    until: float
    note: str = ""

    def active(self, now: float) -> bool:
        """Return whether it applies at ``now``."""
        return now < self.until

    def ended(self, now: float) -> "Override":
        """Return the same decision, over at ``now`` at the latest."""
        return Override(self.since, min(self.until, now), self.note)
