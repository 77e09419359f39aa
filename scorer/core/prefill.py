"""What a prompt costs an engine before its first token, and how fast each engine is.

Work is measured in token-equivalents: attention makes long prompts superlinear, so a
prompt of ``n`` tokens is ``n · (1 + n / L0)`` of them. Rates are token-equivalents a
second, learned per target from first tokens; members of a group of similar rates share
their mean, because one target alone sees too few long prompts to tell it from its twins.
"""

from collections.abc import Sequence

L0 = 50_000.0
"""Tokens at which attention costs as much as everything else of a prefill."""
LOWEST, HIGHEST = 300.0, 100_000.0
INITIAL = 8_000.0
"""Rate of a target of capacity 1 before anything was learned."""
LEARNS_ABOVE = 2_000
"""Tokens of a prompt below which overhead, not prefill, decides its time to first token."""
FALLING, RISING = 0.05, 0.01
"""Weights of an observation: slow ones are the truth sooner than fast ones."""
CACHED = 2.0
"""An observation above this multiple of the rate is a cached prefix, not a fast engine …"""
UNDOUBTED = 64
"""… unless none of so many in a row was below the rate: some prompt is always new."""
ALIKE = 1.3
"""A group takes members up to this multiple of its smallest rate."""


def work(tokens: float) -> float:
    """Return the token-equivalents of a prompt of ``tokens`` tokens."""
    return tokens * (1.0 + tokens / L0)


def initial_rate(capacity: float = 1.0) -> float:
    """Return the rate to start from, for a target ``capacity`` times as fast as usual."""
    return _clamped(INITIAL * capacity)


def learned(rate: float, seen: float, *, row: int = 0) -> float:
    """Return ``rate`` after an observation of ``seen``, both in token-equivalents a second.

    ``row`` is how many observations in a row, this one included, were not below the rate.
    """
    if seen > CACHED * rate:
        if row < UNDOUBTED:
            return rate
        seen = CACHED * rate
    weight = FALLING if seen < rate else RISING
    return _clamped(rate + weight * (seen - rate))


def shared(rates: Sequence[float]) -> list[float]:
    """Return for each rate the mean of its group, in the order given.

    Sorted by rate, a group takes members up to 1.3 times its smallest.
    """
    order = sorted(range(len(rates)), key=rates.__getitem__)
    means = [0.0] * len(rates)
    start = 0
    while start < len(order):
        limit = ALIKE * rates[order[start]]
        end = start
        total = 0.0
        while end < len(order) and rates[order[end]] <= limit:
            total += rates[order[end]]
            end += 1
        mean = total / (end - start)
        for index in order[start:end]:
            means[index] = mean
        start = end
    return means


def _clamped(rate: float) -> float:
    return min(HIGHEST, max(LOWEST, rate))
