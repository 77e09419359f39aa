"""One rule of the classifier: what it looks at, and whose fault it then was.

A rule is data. It names the statuses it is about and what must be found in headers,
body, termination flags and circumstances; everything that it names must hold. Words are
looked for literally, which costs the same whatever the text; expressions are for what
words cannot say and repeat nothing without a bound.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from scorer.core.evidence import Evidence, grams
from scorer.core.outcome import OutcomeClass


class Fact:
    """What is known about a request besides its answer, as bits. Not known is no fact."""

    UPSTREAM: Final = 1
    """An upstream was asked."""
    NO_UPSTREAM: Final = 2
    """No upstream was asked: the gateway answered by itself."""
    ANSWERED: Final = 4
    """Headers and body of the answer were seen, even if they were empty."""
    STREAM_ERROR: Final = 8
    FIRST_TOKEN: Final = 16
    NO_TOKEN: Final = 32
    """A stream ended well and carried no token."""
    WAITED: Final = 64
    """It is known how long the request took."""
    WAITED_LONG: Final = 128
    """It took at least as long as a first token may take."""


class Found(NamedTuple):
    """What must be found in a text: one of ``words`` (lower case), or of ``patterns``.

    ``grams`` has the pieces of each word. A word whose pieces are not all in the index
    of a text is not in the text, and that is told without searching: so a long text
    made of beginnings of words costs no more than any other.
    """

    words: tuple[str, ...] = ()
    patterns: tuple[re.Pattern[str], ...] = ()
    grams: tuple[frozenset[int], ...] = ()

    def within(self, text: str, index: frozenset[int] | None = None) -> bool:
        """Return whether it is in ``text``, of which ``index`` has the pieces."""
        if index is None:
            for word in self.words:
                if word in text:
                    return True
        else:
            for word, pieces in zip(self.words, self.grams, strict=True):
                if pieces <= index and word in text:
                    return True
        return any(pattern.search(text) for pattern in self.patterns)


def found(*words: str, patterns: Iterable[str] = ()) -> Found:
    """Return the condition that one of ``words`` or ``patterns`` is in a lower-case text."""
    return Found(words, tuple(map(re.compile, patterns)), tuple(map(grams, words)))


@dataclass(frozen=True, slots=True)
class Rule:
    """When an outcome is of a class.

    ``statuses`` empty means any. ``text`` and ``head`` must be found, ``no_text`` and
    ``no_head`` must not; ``also`` is a second thing to find in the text, ``any_text`` is
    looked for in the body as it came, too. ``bare`` asks for an answer that says
    nothing of an error (False: for one that does). ``weight`` is the share of a failure.
    """

    name: str
    outcome: OutcomeClass
    statuses: frozenset[int] = frozenset()
    text: Found | None = None
    also: Found | None = None
    no_text: Found | None = None
    any_text: re.Pattern[str] | None = None
    head: Found | None = None
    no_head: Found | None = None
    bare: bool | None = None
    termination: re.Pattern[str] | None = None
    facts: int = 0
    no_facts: int = 0
    weight: float = 1.0

    def matches(self, evidence: Evidence, facts: int, termination: str) -> bool:
        """Return whether everything the rule names, but the status, holds."""
        if self.facts & ~facts or self.no_facts & facts:
            return False
        if self.bare is not None and self.bare == bool(evidence.text):
            return False
        if self.termination is not None and not self.termination.search(termination):
            return False
        return self._in_head(evidence.head) and self._in_text(evidence)

    def _in_head(self, head: str) -> bool:
        if self.head is not None and not self.head.within(head):
            return False
        return self.no_head is None or not self.no_head.within(head)

    def _in_text(self, evidence: Evidence) -> bool:
        text, index = evidence.text, evidence.pieces
        if self.text is not None and not self.text.within(text, index):
            return False
        if self.also is not None and not self.also.within(text, index):
            return False
        if self.no_text is not None and self.no_text.within(text, index):
            return False
        anywhere = self.any_text
        return anywhere is None or bool(anywhere.search(evidence.body) or anywhere.search(text))


def codes(*parts: int | str) -> frozenset[int]:
    """Return the statuses of numbers and of classes such as ``"5xx"``."""
    return frozenset(status for part in parts for status in _codes(part))


def _codes(part: int | str) -> Iterable[int]:
    if isinstance(part, int):
        return (part,)
    first = int(part[0]) * 100
    return range(first, first + 100)
