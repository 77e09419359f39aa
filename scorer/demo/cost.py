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
    """Memory bandwidth (bytes/s), peak FLOP/s and the share of it that prefill reaches.

    ``link`` is the bandwidth (bytes/s) that an all-reduce between several of them reaches.
    """

    bandwidth: float
    flops: float
    efficiency: float
    link: float


def cost_model(model: Model, gpu: Accelerator, count: int = 1) -> CostModel:
    """Return the coefficients of ``model`` in 16 bit on ``count`` GPUs, tensor parallel.

    0.87 and 0.85 are the shares of the bandwidth that reading weights and KV cache
    reach, 0.45 the share of the peak that attention reaches. Several GPUs add up what
    they computed twice a layer: that costs another 30 µs a layer, and per token its
    activations over the link.
    """
    layer = 30e-6 if count == 1 else 60e-6
    reduced = 2 * model.layers * 2 * model.hidden * 2 * (count - 1) / count
    return CostModel(
        overhead=1.5e-3 + layer * model.layers,
        weights=2 * model.parameters / (count * gpu.bandwidth * 0.87),
        token=2 * model.parameters / (count * gpu.flops * gpu.efficiency) + reduced / gpu.link,
        sequence=8e-6,
        kv_token=model.kv_bytes / (count * gpu.bandwidth * 0.85),
        pair=4 * model.layers * model.hidden / (count * gpu.flops * 0.45),
    )


def kv_tokens(model: Model, count: int = 1) -> int:
    """Return the tokens of KV cache that ``count`` GPUs of 80 GiB have beside the weights.

    The engine takes 90 % of the memory, of which 4 GiB on each GPU are for activations.
    """
    memory = (80 * 0.90 - 4) * 2**30 * count
    return int((memory - 2 * model.parameters) / model.kv_bytes)


LLAMA_8B = Model(parameters=8.03e9, layers=32, hidden=4096, kv_bytes=131_072)
QWEN_14B = Model(parameters=14.8e9, layers=48, hidden=5120, kv_bytes=196_608)
LLAMA_70B = Model(parameters=70.6e9, layers=80, hidden=8192, kv_bytes=327_680)
A100 = Accelerator(bandwidth=2.039e12, flops=312e12, efficiency=0.55, link=214e9)
H800 = Accelerator(bandwidth=3.35e12, flops=989e12, efficiency=0.42, link=298e9)
A100_8B = cost_model(LLAMA_8B, A100)
