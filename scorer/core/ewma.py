"""TTFT of a target, smoothed per observation and decayed only when it is idle.

Model: an EWMA with alpha 0.2 per observation. A histogram delta of n observations
with mean m counts as n observations of m, that is, with weight 1 - 0.8^n. Silence
alone changes nothing; an idle target's value falls (never rises) towards a
reference, so that an illness long past does not keep traffic away for ever.

Source of the update/projection split: linkerd2-proxy's peak EWMA.
"""

from dataclasses import dataclass

ALPHA = 0.2
HALF_LIFE = 10.0
"""Seconds in which an idle target's distance to the reference halves."""
FORGOTTEN_AFTER = 300.0
"""Seconds without an observation after which nothing is lost to ttft."""


@dataclass(slots=True)
class TtftEwma:
    """Smoothed TTFT in seconds; ``value`` is None until the first observation.

    ``observed_at`` is when the last observation came (monotonic seconds).
    """

    value: float | None = None
    observed_at: float | None = None
    _moved_at: float = 0.0

    def observe(
        self, mean: float, count: float, now: float, *, clip: float, prior: float | None = None
    ) -> None:
        """Take ``count`` observations of ``mean`` seconds, clipped at ``clip`` seconds.

        ``prior`` (the pool's median) is what a first observation is blended with.
        """
        mean = min(mean, clip)
        start = self.value if self.value is not None else prior
        weight = 1.0 - (1.0 - ALPHA) ** count
        self.value = mean if start is None else start + weight * (mean - start)
        self.observed_at = self._moved_at = now

    def decay(self, now: float, reference: float) -> None:
        """Let an idle target's value fall towards ``reference`` seconds; it never rises.

        Long after the last observation it is forgotten: there is no traffic to judge by.
        """
        if self.observed_at is not None and now - self.observed_at > FORGOTTEN_AFTER:
            self.value = self.observed_at = None
        if self.value is not None and self.value > reference:
            share = 0.5 ** (max(0.0, now - self._moved_at) / HALF_LIFE)
            self.value = reference + (self.value - reference) * share
        self._moved_at = now

    def hold(self, now: float) -> None:
        """Note that the target was not idle up to ``now``: that time does not decay it."""
        self._moved_at = now

    def seen_within(self, seconds: float, now: float) -> bool:
        """Return whether there was an observation in the last ``seconds``."""
        return self.observed_at is not None and now - self.observed_at <= seconds
