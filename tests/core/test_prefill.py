"""Work of prompts, learned rates, groups of alike targets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.prefill import HIGHEST, LOWEST, UNDOUBTED, initial_rate, learned, shared, work


@pytest.mark.parametrize(
    ("tokens", "wanted"), [(0, 0.0), (1000, 1020.0), (50_000, 100_000.0), (32_768, 54_242.8)]
)
def test_work_grows_faster_than_the_prompt(tokens: int, wanted: float) -> None:
    """Attention doubles the work at 50,000 tokens."""
    assert work(tokens) == pytest.approx(wanted, rel=1e-5)


def test_slow_observation_lowers_the_rate_by_a_twentieth_of_the_gap() -> None:
    """8,000 seen at 4,000 goes down to 7,800."""
    assert learned(8000.0, 4000.0) == 7800.0


def test_fast_observation_raises_the_rate_by_a_hundredth_of_the_gap() -> None:
    """8,000 seen at 12,000 goes up to 8,040."""
    assert learned(8000.0, 12_000.0) == 8040.0


def test_cached_prefix_teaches_nothing() -> None:
    """Above twice the rate an answer came from a cache."""
    assert learned(8000.0, 16_001.0, row=UNDOUBTED - 1) == 8000.0


def test_engine_that_is_never_slow_is_fast() -> None:
    """After 64 observations in a row of which none was slower, such a one counts as twice."""
    assert learned(8000.0, 1e6, row=UNDOUBTED) == 8080.0


@given(
    st.floats(LOWEST, HIGHEST),
    st.floats(0.0, 1e12, allow_nan=False),
    st.integers(0, 100),
)
def test_rate_stays_in_bounds(rate: float, seen: float, row: int) -> None:
    """Whatever is observed, the rate is one that an engine can have."""
    assert LOWEST <= learned(rate, seen, row=row) <= HIGHEST


def test_capacity_scales_the_initial_rate() -> None:
    """A target twice as fast starts at twice the rate, and never out of bounds."""
    assert (initial_rate(), initial_rate(2.0), initial_rate(1e-9)) == (8000.0, 16_000.0, LOWEST)


def test_alike_targets_share_their_mean() -> None:
    """8,000, 9,000 and 10,000 are alike; 20,000 is not, nor is 10,500, beyond 1.3 × 8,000."""
    assert shared([20_000.0, 8_000.0, 10_000.0, 9_000.0]) == [20_000.0, 9_000.0, 9_000.0, 9_000.0]
    assert shared([8_000.0, 10_500.0]) == [8_000.0, 10_500.0]


@given(st.lists(st.floats(LOWEST, HIGHEST), max_size=20))
def test_sharing_keeps_order_and_bounds(rates: list[float]) -> None:
    """A faster target is never taken for a slower one, and none leaves the pool's range."""
    means = shared(rates)
    for one, mine in zip(rates, means, strict=True):
        assert min(rates) * 0.999 <= mine <= max(rates) * 1.001
        faster = [mean for rate, mean in zip(rates, means, strict=True) if one <= rate]
        assert all(mine <= mean * 1.001 for mean in faster)
