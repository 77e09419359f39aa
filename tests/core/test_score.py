"""The raw score: golden vectors of the reference formula, and what always holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.params import ScoreParams
from scorer.core.score import BLIND_LIMIT, Signals, raw_score
from scorer.core.window import OutcomeWindow

PARAMS = ScoreParams()
BEST = {"ttft": 0.0, "errors": 0.0, "queue": 0.0, "kv_cache": 0.0}


def errors(failures: int, successes: int) -> float:
    window = OutcomeWindow()
    window.add(failures, successes, 0.0)
    return window.ratio(0.0)


GOLDEN = {
    "nothing wrong": ({}, 100),
    "ttft 0.4 s": ({"ttft": 0.4}, 98.6),
    "ttft 1.0 s": ({"ttft": 1.0}, 91.25),
    "ttft 2.0 s": ({"ttft": 2.0}, 65),
    "ttft 3.0 s": ({"ttft": 3.0}, 65),
    "5 errors, 95 successes": ({"errors": errors(5, 95)}, 90),
    "20 errors, 80 successes": ({"errors": errors(20, 80)}, 60),
    "waiting 15": ({"queue": 15}, 87.5),
    "ttft unavailable, waiting 30": ({"queue": 30, "ttft": None, "has_ttft": False}, 40),
    "waiting 60": ({"queue": 60}, 75),
    "kv 0.80": ({"kv_cache": 0.80}, 100),
    "kv 0.90": ({"kv_cache": 0.90}, 87.5),
    "kv 1.00 with waiting 3": ({"kv_cache": 1.0, "queue": 3}, 75),
    "ttft 1 s, 5 %, waiting 15, kv 0.9": (
        {"ttft": 1.0, "errors": 0.05, "queue": 15, "kv_cache": 0.9},
        68.75,
    ),
    "ttft 20 s, waiting 60, kv 1": ({"ttft": 20.0, "queue": 60, "kv_cache": 1.0}, 40),
    "everything at its worst": ({"ttft": 99.0, "errors": 1.0, "queue": 999, "kv_cache": 1.0}, 0),
    "one failure of one request": ({"errors": errors(1, 0)}, 90),
}


@pytest.mark.parametrize(("changes", "score"), GOLDEN.values(), ids=GOLDEN.keys())
def test_golden_vector(changes: dict[str, float], score: float) -> None:
    """The reference formula gives the published score."""
    signals = Signals(**{**BEST, **changes})
    assert raw_score(signals, PARAMS, pool_median=None).score == pytest.approx(score, abs=1e-9)


values = st.floats(min_value=0, max_value=1e6)
ratios = st.floats(min_value=0, max_value=1)
anything = st.builds(
    Signals,
    ttft=st.none() | values,
    errors=st.none() | ratios,
    queue=st.none() | values,
    kv_cache=st.none() | ratios,
    has_ttft=st.booleans(),
    has_errors=st.booleans(),
)
medians = st.none() | st.floats(min_value=0, max_value=100)


@given(anything, medians)
def test_score_is_bounded_and_accounted_for(signals: Signals, median: float | None) -> None:
    """Every score lies in 0-100, and 100 minus the points lost is the score."""
    raw = raw_score(signals, PARAMS, pool_median=median)
    assert 0.0 <= raw.score <= 100.0
    assert all(points >= 0.0 for points in raw.points_lost.values())
    assert 100.0 - sum(raw.points_lost.values()) == pytest.approx(raw.score, abs=1e-9)


@given(anything, medians, st.sampled_from(["ttft", "errors", "queue", "kv_cache"]), values)
def test_score_is_monotone_in_every_signal(
    signals: Signals, median: float | None, name: str, more: float
) -> None:
    """A signal that gets worse never raises the score."""
    before = getattr(signals, name)
    if before is None:
        return
    worse = before + more if name in ("ttft", "queue") else min(1.0, before + more)
    fields = {key: getattr(signals, key) for key in Signals.__dataclass_fields__}
    changed = Signals(**{**fields, name: worse})
    after = raw_score(changed, PARAMS, pool_median=median).score
    assert after <= raw_score(signals, PARAMS, pool_median=median).score + 1e-9


@given(anything, medians, ratios)
def test_errors_never_raise_a_score(signals: Signals, median: float | None, ratio: float) -> None:
    """A score with errors is at most the score without."""
    fields = {key: getattr(signals, key) for key in Signals.__dataclass_fields__}
    without = raw_score(Signals(**{**fields, "errors": None}), PARAMS, pool_median=median)
    with_errors = raw_score(Signals(**{**fields, "errors": ratio}), PARAMS, pool_median=median)
    assert with_errors.score <= without.score + 1e-9


def test_queue_takes_the_weight_of_unreadable_ttft() -> None:
    """Without ttft the queue dimension carries 0.60."""
    signals = Signals(ttft=None, has_ttft=False, errors=0.0, queue=30.0)
    assert raw_score(signals, PARAMS, pool_median=None).score == pytest.approx(40.0)


def test_ttft_takes_the_weight_of_an_unreadable_queue() -> None:
    """Without queue and kv_cache the ttft dimension carries 0.60."""
    signals = Signals(ttft=2.0, errors=0.0)
    assert raw_score(signals, PARAMS, pool_median=None).score == pytest.approx(40.0)


def test_only_the_larger_of_queue_and_kv_cache_costs_points() -> None:
    """A full KV cache with a short queue loses points to kv_cache alone."""
    lost = raw_score(
        Signals(ttft=0.1, queue=3.0, kv_cache=1.0), PARAMS, pool_median=None
    ).points_lost
    assert (lost["queue"], lost["kv_cache"]) == (0.0, pytest.approx(25.0))


def test_blind_target_scores_as_its_pool() -> None:
    """A target with neither ttft nor queue takes the pool's median."""
    blind = Signals(has_ttft=False)
    assert raw_score(blind, PARAMS, pool_median=40.0).score == 40.0


def test_blind_target_never_looks_idle() -> None:
    """However healthy the pool, a blind target scores at most the limit."""
    blind = Signals(has_ttft=False)
    assert raw_score(blind, PARAMS, pool_median=100.0).score == BLIND_LIMIT
    assert raw_score(blind, PARAMS, pool_median=None).score == BLIND_LIMIT


def test_errors_cost_a_blind_target_points_too() -> None:
    """What errors cost comes off the blind score."""
    blind = Signals(has_ttft=False, errors=0.1)
    assert raw_score(blind, PARAMS, pool_median=None).score == pytest.approx(BLIND_LIMIT - 20.0)


def test_confidence_is_the_weight_of_what_can_be_read() -> None:
    """Confidence counts only available dimensions."""
    assert raw_score(Signals(has_ttft=False, queue=1.0), PARAMS, pool_median=None).confidence == (
        pytest.approx(0.65)
    )
