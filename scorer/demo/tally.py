"""What an emulated engine counts since it started, in the shape of vLLM's metrics."""

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate

TTFT_BOUNDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
"""vLLM's buckets of ``vllm:time_to_first_token_seconds``, in seconds."""

STEP_TOKEN_BOUNDS = (
    *(1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0),
    *(1024.0, 2048.0, 4096.0, 8192.0, 16384.0),
)
"""vLLM's buckets of ``vllm:iteration_tokens_total``, in tokens."""


class Histogram:
    """Counts of observations per bucket and their sum, in the unit of ``bounds``."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.sum = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, value: float) -> None:
        """Count one observation; a value equal to a bound belongs below it."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return ``(le, cumulative count)`` pairs, the last one ``+Inf``."""
        names = [*map(str, self.bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self._counts)), strict=True))


@dataclass(slots=True)
class Tally:
    """Everything an engine has counted since its start."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    finished: int = 0
    aborted: int = 0
    ttft: Histogram = field(default_factory=lambda: Histogram(TTFT_BOUNDS))
    step_tokens: Histogram = field(default_factory=lambda: Histogram(STEP_TOKEN_BOUNDS))
