import pytest

from scorer.demo.cost import A100_8B, Chunk

BUDGET = 2048


def prefill_rate(prompt: int) -> float:
    """Return tokens a second of one prompt prefilled alone, in chunks."""
    chunks = [
        Chunk(min(BUDGET, prompt - context), context, decoding=False)
        for context in range(0, prompt, BUDGET)
    ]
    return prompt / sum(A100_8B.step_seconds([chunk]) for chunk in chunks)


def decode_step(batch: int, context: int) -> float:
    """Return milliseconds of one step in which ``batch`` requests decode."""
    return 1000 * A100_8B.step_seconds([Chunk(1, context, decoding=True)] * batch)


@pytest.mark.parametrize(("prompt", "rate"), [(1024, 10_214), (8192, 9_159), (32_768, 6_449)])
def test_prefill_speed_is_that_of_an_8b_model_on_an_a100(prompt, rate):
    """Prefill at 1K, 8K and 32K matches the calibration within 5 %."""
    assert prefill_rate(prompt) == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize(
    ("batch", "context", "milliseconds"), [(1, 1024, 11.7), (64, 2048, 21.7), (256, 1024, 47.8)]
)
def test_decode_step_is_that_of_an_8b_model_on_an_a100(batch, context, milliseconds):
    """A decode step matches the calibration within 5 %."""
    assert decode_step(batch, context) == pytest.approx(milliseconds, rel=0.05)


def test_a_decoding_request_in_a_prefill_step_waits_for_the_whole_step():
    """A 2K chunk makes one decode step more than fifteen times as long."""
    decode = Chunk(1, 1024, decoding=True)
    mixed = A100_8B.step_seconds([decode, Chunk(BUDGET - 1, 0, decoding=False)])
    assert mixed > 15 * A100_8B.step_seconds([decode])
