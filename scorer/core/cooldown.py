"""Cooldown of a target: a short suspension after it said that it is saturated, or fails.

Length: uniform between two bounds, so that several targets do not return together, or
what Retry-After says. A cooldown that starts soon after the one before ended is an
episode: each doubles the length. Answers to requests picked before the cooldown began
are old news: they only push its deadline. The deadline never moves back.

A saturated target loses all points that errors can cost; when the cooldown ends, that
extra penalty fades.
"""

from dataclasses import dataclass, field
from enum import StrEnum

EPISODE_GAP = 60.0
"""Seconds after the end of a cooldown within which the next one is of the same episode."""
LONGEST = 30.0
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

    ``began_at`` and ``until`` are those of the current or last one, None before the
    first. ``entered`` and ``spent`` count cooldowns and seconds by reason.
    """

    began_at: float | None = None
    until: float = 0.0
    reason: CooldownReason | None = None
    entered: dict[CooldownReason, int] = field(default_factory=dict)
    refused_at: float | None = None
    """When the pool last had too many targets in cooldown for one more."""
    _spent: dict[CooldownReason, float] = field(default_factory=dict)
    _since: float | None = None
    _length: float = 0.0
    _episode: int = 0
    _penalty_ends: float | None = None

    def active(self, now: float) -> bool:
        """Return whether the target is in cooldown."""
        return self.began_at is not None and now < self.until

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
        if reason is CooldownReason.ENGINE_SATURATED and not self.active(now):
            self._penalty_ends = now
        if self._is_news_of_the_last(now, picked_at):
            self._push(now, reason)
        elif allowed:
            self._begin(now, reason, base)
        else:
            self.refused_at = now
            return
        if self.reason is CooldownReason.ENGINE_SATURATED:
            self._penalty_ends = self.until

    def end(self, now: float) -> None:
        """End the cooldown under way, if any; its penalty goes with it."""
        if self.active(now):
            self._account(now)
            self.until = now
        self._penalty_ends = None

    def penalty(self, now: float) -> float:
        """Return the share 0-1 of the error weight that saturation costs at ``now``."""
        if self._penalty_ends is None:
            return 0.0
        return float(0.5 ** (max(0.0, now - self._penalty_ends) / FADE_HALF_LIFE))

    def seconds(self, now: float) -> dict[CooldownReason, float]:
        """Return the seconds spent in cooldown so far, by reason."""
        spent = dict(self._spent)
        if self._since is not None and self.reason is not None:
            under_way = max(0.0, min(now, self.until) - self._since)
            spent[self.reason] = spent.get(self.reason, 0.0) + under_way
        return spent

    def _is_news_of_the_last(self, now: float, picked_at: float | None) -> bool:
        if self.began_at is None:
            return False
        return self.active(now) or (picked_at is not None and picked_at < self.began_at)

    def _push(self, now: float, reason: CooldownReason) -> None:
        """Move the deadline; a fault outranks saturation, which takes fewer picks away."""
        outranks = reason is CooldownReason.ENGINE_FAULT and self.reason is not reason
        if outranks or not self.active(now):
            self._account(now)
            self._since = now
            self.reason = reason
        self.until = max(self.until, now + self._length)

    def _begin(self, now: float, reason: CooldownReason, base: float) -> None:
        same_episode = self.began_at is not None and now - self.until < EPISODE_GAP
        self._episode = self._episode + 1 if same_episode else 0
        self._account(now)
        self._length = min(LONGEST, base * 2.0**self._episode)
        self.began_at = self._since = now
        self.until, self.reason = now + self._length, reason
        self.entered[reason] = self.entered.get(reason, 0) + 1

    def _account(self, now: float) -> None:
        """Add the time of the cooldown under way, or just over, to its reason's sum."""
        self._spent = self.seconds(now)
        self._since = None
