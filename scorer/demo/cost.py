"""How long one step of an engine takes.

``overhead + max(W, c_tok·T) + c_seq·n + c_kv·K + c_pair·Σ chunk·(ctx + chunk/2)``
with T batched tokens, n decoding sequences and K the KV tokens they attend to. A step
reads all weights once (W, memory bound) or multiplies T tokens with them (compute
bound), whichever is longer; decoding reads the KV cache; attention of a prefill chunk
grows with what lies before it.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chunk:
    """One request's share of a step: ``tokens`` computed after ``context`` tokens of KV."""

    tokens: int
    context: int
    decoding: bool


@dataclass(frozen=True, slots=True)
class CostModel:
    """Coefficients of the step time, each in seconds (per unit of its name)."""

    overhead: float
    weights: float
    token: float
    sequence: float
    kv_token: float
    pair: float

    def step_seconds(self, chunks: Iterable[Chunk]) -> float:
        """Return the duration of one step over ``chunks``, in seconds."""
        tokens = sequences = resident = 0
        pairs = 0.0
        for chunk in chunks:
            tokens += chunk.tokens
            if chunk.decoding:
                sequences += 1
                resident += chunk.context
            else:
                pairs += chunk.tokens * (chunk.context + chunk.tokens / 2)
        return (
            self.overhead
            + max(self.weights, self.token * tokens)
            + self.sequence * sequences
            + self.kv_token * resident
            + self.pair * pairs
        )


@dataclass(frozen=True, slots=True)
class Model:
    """What the cost depends on: parameters, layers, hidden width, KV bytes per token."""

    parameters: float
    layers: int
    hidden: int
    kv_bytes: int


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Memory bandwidth (bytes/s), peak FLOP/s and the share of it that prefill reaches."""

    bandwidth: float
    flops: float
    efficiency: float


def cost_model(model: Model, gpu: Accelerator) -> CostModel:
    """Return the coefficients of ``model`` in 16 bit on one ``gpu``.

    0.87 and 0.85 are the shares of the bandwidth that reading weights and KV cache
    reach, 0.45 the share of the peak that attention reaches.
    """
    return CostModel(
        overhead=1.5e-3 + 30e-6 * model.layers,
        weights=2 * model.parameters / (gpu.bandwidth * 0.87),
        token=2 * model.parameters / (gpu.flops * gpu.efficiency),
        sequence=8e-6,
        kv_token=model.kv_bytes / (gpu.bandwidth * 0.85),
        pair=4 * model.layers * model.hidden / (gpu.flops * 0.45),
    )


LLAMA_8B = Model(parameters=8.03e9, layers=32, hidden=4096, kv_bytes=131_072)
A100 = Accelerator(bandwidth=2.039e12, flops=312e12, efficiency=0.55)
A100_8B = cost_model(LLAMA_8B, A100)
