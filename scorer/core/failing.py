"""When a target counts as failing, and when that is over.

Failing: at least 5 failures that are half or more of the window's outcomes, or 3 in a
row with no success for 10 s. It is not over by time alone: one success of a request
picked after it began ends it, another failure renews it. That is what the probe
trickle is for.
"""

from dataclasses import dataclass, field

from scorer.core.window import OutcomeWindow

MANY = 5.0
SHARE = 0.5
IN_A_ROW = 3.0
NO_SUCCESS_FOR = 10.0


@dataclass(slots=True)
class Failing:
    """Failures of one target since it last was not failing; ``since`` is None when it is not."""

    since: float | None = None
    in_row: float = 0.0
    last_success_at: float | None = None
    _window: OutcomeWindow = field(default_factory=OutcomeWindow)

    def failed(self, weight: float, now: float) -> bool:
        """Count a failure (``weight`` 0-1, or several); return whether the target is failing."""
        self.in_row += weight
        self._window.add(weight, 0.0, now)
        if self.since is None and (self._mostly(now) or self._only(now)):
            self.since = now
        return self.since is not None

    def succeeded(self, count: float, now: float, *, picked_at: float | None = None) -> None:
        """Count successes; one picked since the failing began, or not known when, ends it."""
        self.in_row, self.last_success_at = 0.0, now
        self._window.add(0.0, count, now)
        if self.since is not None and (picked_at is None or picked_at >= self.since):
            self.since = None
            self._window.clear()

    def reset(self) -> None:
        """Forget everything: the engine is a new process."""
        self.since, self.in_row = None, 0.0
        self._window.clear()

    def _mostly(self, now: float) -> bool:
        failures = self._window.failures(now)
        return failures >= MANY and failures >= SHARE * self._window.outcomes(now)

    def _only(self, now: float) -> bool:
        silent = self.last_success_at is None or now - self.last_success_at >= NO_SUCCESS_FOR
        return self.in_row >= IN_A_ROW and silent
