"""The simulator's engine: calibrated, and the same as the engine that the demo shows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulator.engine import SimEngine
from scorer.demo.cost import (
    A100,
    A100_8B,
    H800,
    LLAMA_8B,
    LLAMA_70B,
    QWEN_14B,
    Chunk,
    CostModel,
    cost_model,
    kv_tokens,
)
from scorer.demo.engine import Engine, Limits

FOREVER = 1e6
CALIBRATION = {
    "A100 8B": (
        LLAMA_8B, A100, 1, 2048, 434_527,
        (10_214, 9_159, 6_449), (0.89, 5.08, 14.2), (11.7, 21.7, 47.8),
    ),
    "H800 8B": (
        LLAMA_8B, H800, 1, 8192, 434_527,
        (23_999, 22_837, 17_163), (0.36, 1.91, 5.1), (8.1, 14.4, 26.2),
    ),
    "A100 14B": (
        QWEN_14B, A100, 1, 2048, 220_817,
        (5_588, 4_962, 3_477), (1.65, 9.42, 26.4), (19.9, 34.7, 78.2),
    ),
    "A100 70B TP4": (
        LLAMA_70B, A100, 4, 2048, 460_381,
        (4_259, 4_062, 3_295), (2.02, 9.95, 24.9), (26.3, 32.8, 78.4),
    ),
    "H800 70B TP4": (
        LLAMA_70B, H800, 4, 8192, 460_381,
        (9_518, 9_528, 8_127), (0.86, 4.03, 9.6), (18.5, 22.6, 40.8),
    ),
}  # fmt: skip
CASES = pytest.mark.parametrize("case", CALIBRATION.values(), ids=CALIBRATION)


def prefill(cost: CostModel, budget: int, tokens: int) -> float:
    """Return the seconds to the first token of a prompt alone on an engine."""
    engine = SimEngine(cost, Limits(step_tokens=budget, kv_blocks=100_000), 0.0)
    engine.submit("a", tokens, 1, 0.0)
    engine.advance(FOREVER)
    return engine.outbox[0][0]


@CASES
def test_prefill_is_calibrated(case):
    """Tokens a second at 1K, 8K and 32K, and seconds of 8K, 32K and 64K, within 3 %."""
    model, gpu, count, budget, _, rates, seconds, _ = case
    cost = cost_model(model, gpu, count)
    for tokens, rate in zip((1024, 8192, 32_768), rates, strict=True):
        assert tokens / prefill(cost, budget, tokens) == pytest.approx(rate, rel=0.03)
    for tokens, took in zip((8192, 32_768, 65_536), seconds, strict=True):
        assert prefill(cost, budget, tokens) == pytest.approx(took, rel=0.03)


@CASES
def test_decoding_is_calibrated(case):
    """Milliseconds of a step of 1, of 64 with 2K and of 256 with 1K tokens each, within 3 %."""
    model, gpu, count, _, _, _, _, steps = case
    cost = cost_model(model, gpu, count)
    for (batch, context), took in zip(((1, 1024), (64, 2048), (256, 1024)), steps, strict=True):
        chunks = [Chunk(1, context, decoding=True)] * batch
        assert 1000 * cost.step_seconds(chunks) == pytest.approx(took, rel=0.03)


@CASES
def test_cache_sizes_are_those_of_the_table(case):
    """Tokens of KV cache, to a token."""
    model, _, count, _, expected, _, _, _ = case
    assert abs(kv_tokens(model, count) - expected) <= 1


def milestones_of_the_demo(requests, limits: Limits, gone: set[int]):
    """Return first tokens and ends by request, and the engine, as the demo's engine has them."""
    engine = Engine(A100_8B, limits, 0.0)
    for number, (prompt, output, at, leaves) in enumerate(requests):
        engine.submit(str(number), prompt, output, at)
        if number in gone:
            engine.abort(str(number), at + leaves)
    made = engine.advance(FOREVER)
    firsts = [(step.at, step.request_id, False) for step in made if step.generated == 1]
    return sorted(firsts + [(step.at, step.request_id, True) for step in made if step.done]), engine


REQUESTS = st.lists(
    st.tuples(st.integers(1, 700), st.integers(1, 400), st.floats(0, 0.3), st.floats(0, 1)),
    min_size=1,
    max_size=20,
)


@settings(max_examples=150, deadline=None)
@given(
    gaps=REQUESTS,
    kv_blocks=st.integers(69, 130),
    sequences=st.integers(1, 8),
    step_tokens=st.integers(8, 700),
    gone=st.sets(st.integers(0, 19)),
)
def test_both_engines_are_one(gaps, kv_blocks, sequences, step_tokens, gone):
    """Whatever comes and leaves: the same milestones at the same time, the same counts."""
    limits = Limits(step_tokens=step_tokens, sequences=sequences, kv_blocks=kv_blocks)
    requests, now = [], 0.0
    for prompt, output, gap, leaves in gaps:
        requests.append((prompt, output, now, leaves * gap))
        now += gap
    expected, demo = milestones_of_the_demo(requests, limits, gone)
    engine = SimEngine(A100_8B, limits, 0.0)
    for number, (prompt, output, at, leaves) in enumerate(requests):
        job = engine.submit(str(number), prompt, output, at)
        if number in gone:
            engine.abort(job, at + leaves)
    engine.advance(FOREVER)
    made = sorted(engine.outbox)
    assert [each[1:] for each in made] == [each[1:] for each in expected]
    assert [each[0] for each in made] == pytest.approx([each[0] for each in expected])
    for name in ("prompt_tokens", "generation_tokens", "preemptions", "finished", "aborted"):
        assert getattr(engine.tally, name) == getattr(demo.tally, name), name
    assert (engine.running, engine.waiting, engine.kv_usage) == (0, 0, 0.0)


def test_slow_engine_takes_that_much_longer():
    """At half speed a first token takes twice as long."""
    usual, slow = (SimEngine(A100_8B, Limits(), 0.0) for _ in range(2))
    slow.slow = 2.0
    for engine in (usual, slow):
        engine.submit("a", 4000, 1, 0.0)
        engine.advance(FOREVER)
    assert slow.outbox[0][0] == pytest.approx(2 * usual.outbox[0][0])


def test_cached_prefix_is_not_computed_again():
    """The same 16 blocks a second time take a tenth of the time to the first token at most."""
    engine = SimEngine(A100_8B, Limits(kv_blocks=10_000), 0.0, prefixes=100)
    engine.submit("cold", 16 * 512 + 50, 1, 0.0, range(17))
    engine.submit("warm", 16 * 512 + 50, 1, 100.0, range(17))
    engine.advance(FOREVER)
    cold, warm = engine.outbox[0][0], engine.outbox[2][0] - 100.0
    assert warm < 0.1 * cold


def test_forecast_of_an_idle_engine_is_what_happens():
    """Nobody else is there: the foreseen and the real time to first token agree."""
    engine = SimEngine(A100_8B, Limits(kv_blocks=10_000), 0.0)
    foreseen = engine.forecast(20_000, 0.0)
    engine.submit("a", 20_000, 1, 0.0)
    engine.advance(FOREVER)
    assert engine.outbox[0][0] == pytest.approx(foreseen, rel=0.01)


def test_forecast_knows_what_is_cached():
    """A prompt whose beginning is cached is foreseen as fast as it is."""
    engine = SimEngine(A100_8B, Limits(kv_blocks=10_000), 0.0, prefixes=100)
    engine.submit("cold", 16 * 512, 1, 0.0, range(16))
    engine.advance(100.0)
    foreseen = engine.forecast(32 * 512, 100.0, range(32))
    engine.submit("warm", 32 * 512, 1, 100.0, range(32))
    engine.advance(FOREVER)
    assert engine.outbox[2][0] - 100.0 == pytest.approx(foreseen, rel=0.05)
