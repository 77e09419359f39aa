"""What a gateway's counters gained for one target, and what that teaches.

A gateway sees the same requests as feedback and the engine do, so the three are kept
apart: :mod:`scorer.core.sourced` believes one of them at a time.
"""

from dataclasses import dataclass

from scorer.core.health import TargetHealth
from scorer.core.outcome import OutcomeClass
from scorer.core.sourced import Source

HALF = 0.5


@dataclass(frozen=True, slots=True)
class GatewayReading:
    """What ``gateway`` counted for a target between two scrapes.

    ``at`` is when the later one ended (monotonic seconds). ``count`` first tokens took
    ``mean`` seconds each; ``failures`` and ``successes`` are requests, the former in
    shares of a failure.
    """

    gateway: str
    at: float
    count: float = 0.0
    mean: float = 0.0
    failures: float = 0.0
    successes: float = 0.0

    @property
    def empty(self) -> bool:
        """Whether nothing was counted."""
        return self.count <= 0 and self.failures <= 0 and self.successes <= 0


def failure_share(status: int) -> float | None:
    """Return how much of a failure an answer with this HTTP status is, None when it is neither.

    A counter has no body to tell a saturated engine from a broken one, so a 503 counts
    half; refusals of clients and limits count neither way.
    """
    if 200 <= status < 400:
        return 0.0
    if status in (424, 0):
        return 1.0
    if status == 503:
        return HALF
    return 1.0 if 500 <= status < 600 and status != 529 else None


def hear(health: TargetHealth, reading: GatewayReading, prior: float | None) -> None:
    """Apply one reading to the memory of its target; ``prior`` is the pool's median TTFT."""
    if reading.count > 0:
        health.observe(Source.GATEWAY, reading.mean, reading.count, reading.at, prior)
    health.outcomes.of(Source.GATEWAY).add(reading.failures, reading.successes, reading.at)
    health.counted(Source.GATEWAY, OutcomeClass.ENGINE_FAULT, reading.failures, reading.at)
