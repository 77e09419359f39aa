"""Cooldown of a target: a short suspension after it said that it is saturated, or fails.

Length: uniform between two bounds, so that several targets do not return together, or
what Retry-After says. A cooldown that starts soon after the one before ended is an
episode: each doubles the length. Answers to requests picked before the cooldown began
are old news: they only push its deadline. The deadline never moves back.

A saturated target loses all points that errors can cost; when the cooldown ends, that
extra penalty fades.

An operator's cooldown stands beside: it costs no points, is no part of an episode, and
neither of the two shortens, lengthens or doubles the other. While both last, the cause
is the automatic one.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from scorer.core.overrides import Override

EPISODE_GAP = 60.0
"""Seconds after the end of a cooldown within which the next one is of the same episode."""
LONGEST = 30.0
MOST_DOUBLINGS = 16
"""An episode counts up to here: the shortest cooldown is the longest by then."""
FADE_HALF_LIFE = 5.0
"""Seconds in which the penalty halves once the cooldown is over."""


class CooldownReason(StrEnum):
    """What caused a cooldown; label value of ``scorer_target_cooldowns_total``."""

    ENGINE_SATURATED = "engine_saturated"
    ENGINE_FAULT = "engine_fault"
    MANUAL = "manual"


@dataclass(slots=True)
class Cooldown:
    """The cooldowns of one target; times are monotonic seconds, lengths seconds.

    ``began_at``, ``until`` and ``reason`` are those of the current or last automatic
    one, None before the first; ``by_hand`` is the current or last one of an operator.
    ``entered`` counts cooldowns by reason.
    """

    began_at: float | None = None
    until: float = 0.0
    reason: CooldownReason | None = None
    by_hand: Override | None = None
    entered: dict[CooldownReason, int] = field(default_factory=dict)
    refused_at: float | None = None
    """When the pool last had too many targets in cooldown for one more."""
    length: float = 0.0
    episode: int = 0
    penalty_ends: float | None = None
    """When the penalty begins to fade, None while saturation costs nothing."""
    ended_at: float | None = None
    """When an operator last ended every cooldown."""
    counted_from: float | None = None
    """From when on the seconds are not in the sums yet."""
    _spent: dict[CooldownReason, float] = field(default_factory=dict)

    def active(self, now: float) -> bool:
        """Return whether the target is in cooldown."""
        if self.began_at is not None and now < self.until:
            return True
        return self.by_hand is not None and self.by_hand.active(now)

    def cause(self, now: float) -> CooldownReason | None:
        """Return why the target is in cooldown, None when it is not."""
        if self._automatic(now):
            return self.reason
        return CooldownReason.MANUAL if self._manual(now) else None

    def enter(
        self,
        now: float,
        reason: CooldownReason,
        base: float,
        *,
        picked_at: float | None = None,
        allowed: bool = True,
    ) -> None:
        """Start a cooldown of ``base`` seconds, or push the deadline of the one under way.

        ``picked_at`` is when the request that tells of it was picked. With ``allowed``
        false the pool has too many in cooldown already: only the penalty applies.
        """
        if picked_at is not None and self.ended_at is not None and picked_at < self.ended_at:
            return  # an operator who ended the cooldown knew better than old news
        if reason is CooldownReason.ENGINE_SATURATED and not self._automatic(now):
            self.penalty_ends = now
        if self._automatic(now) or (allowed and self._is_old_news(picked_at)):
            self._push(now, reason)
        elif allowed:
            self._begin(now, reason, base)
        else:
            self.refused_at = now
            return
        if self.reason is CooldownReason.ENGINE_SATURATED:
            self.penalty_ends = self.until

    def impose(self, now: float, seconds: float, note: str = "") -> None:
        """Start a cooldown by hand, or push the deadline of the one under way."""
        self._account(now)
        until, since = now + seconds, now
        if self.by_hand is not None and self._manual(now):
            until, since = max(until, self.by_hand.until), self.by_hand.since
        else:
            self._count(CooldownReason.MANUAL)
        self.by_hand = Override(since, until, note)

    def end(self, now: float) -> None:
        """End every cooldown under way; the penalty goes with it."""
        self.lift(now)
        self.ended_at = now
        if self.by_hand is not None:
            self.by_hand = self.by_hand.ended(now)
        self.penalty_ends = None

    def lift(self, now: float) -> None:
        """End the automatic cooldown under way."""
        self._account(now)
        if self.began_at is not None:
            self.until = min(self.until, now)

    def penalty(self, now: float) -> float:
        """Return the share 0-1 of the error weight that saturation costs at ``now``."""
        if self.penalty_ends is None:
            return 0.0
        return float(0.5 ** (max(0.0, now - self.penalty_ends) / FADE_HALF_LIFE))

    def seconds(self, now: float) -> dict[CooldownReason, float]:
        """Return the seconds spent in cooldown so far, by the cause at each moment."""
        spent = dict(self._spent)
        if self.counted_from is not None:
            for reason, seconds in self._under_way(self.counted_from, now):
                spent[reason] = spent.get(reason, 0.0) + seconds
        return spent

    def _automatic(self, now: float) -> bool:
        return self.began_at is not None and now < self.until

    def _manual(self, now: float) -> bool:
        return self.by_hand is not None and self.by_hand.active(now)

    def _is_old_news(self, picked_at: float | None) -> bool:
        """Whether a request was picked before the last cooldown began."""
        if self.began_at is None or picked_at is None:
            return False
        return picked_at < self.began_at

    def _push(self, now: float, reason: CooldownReason) -> None:
        """Move the deadline; a fault outranks saturation, which takes fewer picks away."""
        self._account(now)
        outranks = reason is CooldownReason.ENGINE_FAULT and self.reason is not reason
        if outranks or not self._automatic(now):
            self.reason = reason
        self.until = max(self.until, now + self.length)

    def _begin(self, now: float, reason: CooldownReason, base: float) -> None:
        self._account(now)
        same_episode = self.began_at is not None and now - self.until < EPISODE_GAP
        self.episode = min(self.episode + 1, MOST_DOUBLINGS) if same_episode else 0
        self.length = min(LONGEST, base * 2.0**self.episode)
        self.began_at, self.until, self.reason = now, now + self.length, reason
        self._count(reason)

    def _count(self, reason: CooldownReason) -> None:
        self.entered[reason] = self.entered.get(reason, 0) + 1

    def _account(self, now: float) -> None:
        """Add the time in cooldown up to ``now`` to the sums; what follows counts from here."""
        self._spent = self.seconds(now)
        self.counted_from = now

    def _under_way(self, since: float, now: float) -> list[tuple[CooldownReason, float]]:
        """Return the seconds of each cause between ``since`` and ``now``."""
        parts = []
        automatic_until = max(since, min(now, self.until)) if self.began_at is not None else since
        if self.reason is not None and automatic_until > since:
            parts.append((self.reason, automatic_until - since))
        if self.by_hand is not None:
            manual = min(now, self.by_hand.until) - automatic_until
            if manual > 0.0:
                parts.append((CooldownReason.MANUAL, manual))
        return parts
