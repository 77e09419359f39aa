"""Signals that several sources can tell: one of them is believed at a time, never a sum.

What the gateway reports of each request is nearest to the user, then the gateway's own
counters, then the engine's. The first that had an observation in the last 30 s counts;
when none had, the one that was heard last.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from scorer.core.ewma import TtftEwma
from scorer.core.window import OutcomeWindow

RECENT = 30.0
"""Seconds for which a source that was heard counts before one that is trusted less."""


class Source(StrEnum):
    """Where an observation comes from, the most trusted first."""

    FEEDBACK = "feedback"
    GATEWAY = "gateway"
    ENGINE = "engine"


BY_TRUST = tuple(Source)


@dataclass(slots=True)
class SourcedTtft:
    """One EWMA of TTFT per source."""

    _ewmas: dict[Source, TtftEwma] = field(default_factory=dict)

    def of(self, source: Source) -> TtftEwma:
        """Return the EWMA that observations of ``source`` go into."""
        ewma = self._ewmas.get(source)
        if ewma is None:
            ewma = self._ewmas[source] = TtftEwma()
        return ewma

    def chosen(self, now: float) -> Source:
        """Return the source that is believed at ``now``."""
        ewmas = self._ewmas
        if not ewmas:
            return Source.ENGINE
        if len(ewmas) == 1:
            return next(iter(ewmas))
        for source in BY_TRUST:
            if source in ewmas and ewmas[source].seen_within(RECENT, now):
                return source
        return max(ewmas, key=lambda source: ewmas[source].observed_at or 0.0)

    def current(self, now: float) -> TtftEwma:
        """Return the EWMA that is believed at ``now``; an empty one before any observation."""
        return self._ewmas.get(self.chosen(now)) or TtftEwma()

    def decay(self, now: float, reference: float) -> None:
        """Let every source's value fall towards ``reference`` seconds."""
        for ewma in self._ewmas.values():
            ewma.decay(now, reference)

    def hold(self, now: float) -> None:
        """Note that the target was not idle up to ``now``."""
        for ewma in self._ewmas.values():
            ewma.hold(now)

    def forget(self) -> None:
        """Drop every observation: the engine is a new process."""
        self._ewmas.clear()


@dataclass(slots=True)
class SourcedOutcomes:
    """One window of outcomes per source; ``length`` in seconds."""

    length: int = 30
    _windows: dict[Source, OutcomeWindow] = field(default_factory=dict)

    def of(self, source: Source) -> OutcomeWindow:
        """Return the window that outcomes of ``source`` go into."""
        window = self._windows.get(source)
        if window is None:
            window = self._windows[source] = OutcomeWindow()
        window.length = self.length
        return window

    def chosen(self, now: float) -> Source:
        """Return the first source that had an outcome within the window."""
        windows = self._windows
        if len(windows) > 1:
            for source in BY_TRUST:
                if source in windows and windows[source].outcomes(now) > 0:
                    return source
        return next(iter(windows), Source.ENGINE)

    def ratio(self, now: float) -> float:
        """Return the error ratio 0-1 of the source that is believed; 0 without outcomes."""
        window = self._windows.get(self.chosen(now))
        return window.ratio(now) if window else 0.0

    def heard(self, source: Source, now: float) -> bool:
        """Return whether ``source`` had an outcome within the window."""
        return source in self._windows and self._windows[source].outcomes(now) > 0
