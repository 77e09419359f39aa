"""Leases: picks whose requests are under way.

A lease opens with a pick. The first token releases its *outstanding* work, the end of
the request releases it altogether; :mod:`scorer.core.load` adds leases up by target and
closes those of which nothing is heard.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from scorer.core.load import TargetLoad


class LeaseRef(NamedTuple):
    """What is told of a lease: its target, and when it opened and had its first token.

    Times are monotonic seconds; ``first_token_at`` is None while none was told.
    """

    pool: str
    target: str
    opened_at: float
    tokens: int
    first_token_at: float | None


class Mark(NamedTuple):
    """A target's counts at one moment: picks, picks without first token, tokens picked."""

    picks: int = 0
    pending: int = 0
    tokens: int = 0


class Lease:
    """One pick under way.

    ``work`` is in token-equivalents; ``ahead`` is the work before its first token, its own
    included, when it was picked (0 when that teaches nothing); ``due`` is when its first
    token is estimated for. ``placed_at`` is when it came to its target, ``settled`` says
    that this is long enough ago for the engine to know it, ``waits`` that its first token is
    still to be told. With slots it takes half the memory, which is most of what closing one of
    a hundred thousand costs.
    """

    __slots__ = (
        "ahead", "due", "id", "load", "open", "opened_at", "placed_at", "probe", "settled",
        "tokens", "told_at", "waits", "work",
    )  # fmt: skip

    def __init__(
        self, lease_id: str, load: "TargetLoad", tokens: int, work: int, now: float
    ) -> None:
        """Open a lease on ``load``."""
        self.id = lease_id
        self.load = load
        self.tokens = tokens
        self.work = work
        self.opened_at = self.placed_at = self.due = now
        self.ahead = 0.0
        self.told_at: float | None = None
        self.open = self.waits = True
        self.settled = self.probe = False

    @property
    def ref(self) -> LeaseRef:
        """What is told of it."""
        load = self.load
        return LeaseRef(load.pool, load.target, self.opened_at, self.tokens, self.told_at)
