"""Curves that turn a signal into the share of its weight that is lost.

A curve maps a value to a factor 0-1: 0 up to its knee, 1 from its ceiling on, and
in between the shape. Every shape is monotone, so a worse signal never costs less.
"""

import math
from dataclasses import dataclass
from enum import StrEnum


class Shape(StrEnum):
    """How the factor grows between knee and ceiling."""

    LINEAR = "linear"
    QUADRATIC = "quadratic"
    EXPONENTIAL = "exponential"


_STEEPNESS = 3.0
"""k of the exponential shape (e^(kx) - 1) / (e^k - 1)."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A shape between ``knee`` and ``ceiling``, both in the signal's unit; knee < ceiling."""

    ceiling: float
    knee: float = 0.0
    shape: Shape = Shape.LINEAR

    def factor(self, value: float) -> float:
        """Return the share 0-1 of the weight that ``value`` costs."""
        x = min(1.0, max(0.0, (value - self.knee) / (self.ceiling - self.knee)))
        match self.shape:
            case Shape.LINEAR:
                return x
            case Shape.QUADRATIC:
                return x * x
            case Shape.EXPONENTIAL:
                return min(1.0, math.expm1(_STEEPNESS * x) / math.expm1(_STEEPNESS))
