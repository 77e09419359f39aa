"""What a provider answers when it is asked for targets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from scorer.sources.discovery.groups import LabelSet

LabelSets = tuple[LabelSet, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer, and why: one line for people."""

    reason: str


Answer = Mapping[str, LabelSets | Failure]
"""The answer of each part that a provider asks: a file, a URL, a name.

A part that is missing has gone, with its targets; one that failed keeps those it had.
"""


class Provider(Protocol):
    """Asks one configured source of targets. ``name`` is how logs call that source."""

    name: str

    def close(self) -> None:
        """Give back what is held."""


class Asked(Provider, Protocol):
    """A provider that is asked every ``interval`` seconds, by one thread at a time.

    ``retry`` is the interval after a failure.
    """

    interval: float
    retry: float

    def ask(self) -> Answer:
        """Return the answer of the moment."""


class Watching(Provider, Protocol):
    """A provider that says by itself when something changes."""

    def watch(self, tell: Callable[[Answer], object]) -> None:
        """Call ``tell`` with each answer, from this thread, until closed."""
