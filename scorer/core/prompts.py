"""How long prompts are, when a request does not say it."""

from collections import deque

KNOWN = 500
"""Known prompts whose mean stands in for an unknown one."""
DEFAULT_TOKENS = 1_000
"""Tokens of a prompt in a pool that has seen no known one."""
BYTES_PER_TOKEN = 4
MOST_TOKENS = 10_000_000
"""No engine takes a longer prompt; a larger number is a mistake that must not spread."""


class Prompts:
    """The pool's last known prompt lengths, in tokens."""

    __slots__ = ("_lengths", "_sum", "mean")

    def __init__(self) -> None:
        """Start with nothing known."""
        self.mean: int = DEFAULT_TOKENS
        self._lengths: deque[int] = deque()
        self._sum = 0

    @property
    def known(self) -> int:
        """How many lengths the mean is of."""
        return len(self._lengths)

    def recall(self, mean: int, known: int) -> None:
        """Start from the ``mean`` of so many ``known`` lengths."""
        self._lengths = deque([mean] * known)
        self._sum = mean * known
        self.mean = mean if known else DEFAULT_TOKENS

    def length(self, tokens: int | None) -> int:
        """Return the tokens to reckon with: those known, or the mean of the last 500 known."""
        if tokens is None:
            return self.mean
        lengths = self._lengths
        lengths.append(tokens)
        self._sum += tokens
        if len(lengths) > KNOWN:
            self._sum -= lengths.popleft()
        self.mean = self._sum // len(lengths)
        return tokens
