"""Signals over time: EWMA, error window, deltas, curves, rise limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.curves import Curve, Shape
from scorer.core.damping import rise
from scorer.core.deltas import CounterDelta, HistogramDelta, OutcomeDelta
from scorer.core.ewma import HALF_LIFE, TtftEwma
from scorer.core.samples import Histogram, Outcomes, SeriesKey
from scorer.core.window import OutcomeWindow
from tests.core.builders import FAILED, SUCCEEDED

ONE: SeriesKey = ("f", (("engine", "0"),))
TWO: SeriesKey = ("f", (("engine", "1"),))


def histogram(**series: tuple[float, float]) -> Histogram:
    keys = {"one": ONE, "two": TWO}
    return Histogram(
        counts={keys[name]: count for name, (count, _) in series.items()},
        sums={keys[name]: total for name, (_, total) in series.items()},
    )


def test_n_observations_of_a_mean_count_as_n_updates() -> None:
    """A delta of n observations weighs 1 - 0.8^n, as n single ones would."""
    together, single = TtftEwma(), TtftEwma()
    for ewma in (together, single):
        ewma.observe(1.0, 1, 0.0, clip=4.0)
    together.observe(3.0, 5, 1.0, clip=4.0)
    for _ in range(5):
        single.observe(3.0, 1, 1.0, clip=4.0)
    assert together.value == pytest.approx(single.value)


def test_first_observation_is_blended_with_the_pool() -> None:
    """A first sample moves a fifth of the way from the pool's median."""
    ewma = TtftEwma()
    ewma.observe(2.0, 1, 0.0, clip=4.0, prior=1.0)
    assert ewma.value == pytest.approx(1.2)


def test_observations_are_clipped() -> None:
    """One absurd sample counts as the clip, not as itself."""
    ewma = TtftEwma()
    ewma.observe(500.0, 1, 0.0, clip=4.0)
    assert ewma.value == 4.0


def test_idle_value_halves_its_distance_each_half_life() -> None:
    """An idle target's EWMA falls towards the reference with the half-life."""
    ewma = TtftEwma()
    ewma.observe(2.0, 1, 0.0, clip=4.0)
    ewma.decay(HALF_LIFE, 1.0)
    assert ewma.value == pytest.approx(1.5)


def test_decay_never_raises() -> None:
    """A reference above the value leaves it alone."""
    ewma = TtftEwma()
    ewma.observe(0.2, 1, 0.0, clip=4.0)
    ewma.decay(60.0, 1.0)
    assert ewma.value == 0.2


def test_busy_time_does_not_decay() -> None:
    """Only the idle seconds count: silence of a busy target heals nothing."""
    ewma = TtftEwma()
    ewma.observe(2.0, 1, 0.0, clip=4.0)
    ewma.hold(100.0)
    ewma.decay(100.0 + HALF_LIFE, 1.0)
    assert ewma.value == pytest.approx(1.5)


def test_long_idle_target_has_no_ttft() -> None:
    """Five minutes after its last observation an idle target loses nothing to ttft."""
    ewma = TtftEwma()
    ewma.observe(2.0, 1, 0.0, clip=4.0)
    ewma.decay(301.0, 1.0)
    assert ewma.value is None


def test_burst_of_errors_counts_each() -> None:
    """Twenty errors within 50 ms are twenty, however short they were."""
    window = OutcomeWindow()
    for index in range(20):
        window.add(1, 0, index * 0.0025)
    assert window.ratio(0.05) == 1.0


def test_window_forgets_after_its_length() -> None:
    """An outcome older than the window no longer counts."""
    window = OutcomeWindow(length=30)
    window.add(20, 0, 0.5)
    assert window.ratio(29.9) == 1.0
    assert window.ratio(30.5) == 0.0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=60))
def test_error_ratio_is_a_ratio(outcomes: list[tuple[int, int]]) -> None:
    """Whatever comes in, the ratio lies in 0-1."""
    window = OutcomeWindow()
    for second, (failures, successes) in enumerate(outcomes):
        window.add(failures, successes, float(second))
        assert 0.0 <= window.ratio(float(second)) <= 1.0


def test_first_page_is_a_baseline() -> None:
    """A million observations on the first page are history, not traffic."""
    assert HistogramDelta().advance(histogram(one=(1_000_000, 5e5))) == (0.0, 0.0)


def test_delta_is_taken_per_series_before_summing() -> None:
    """One engine that starts over does not hide what the other one observed."""
    delta = HistogramDelta()
    delta.advance(histogram(one=(100, 50.0), two=(10, 5.0)))
    assert delta.advance(histogram(one=(4, 2.0), two=(16, 8.0))) == (10.0, pytest.approx(0.5))


def test_series_that_appears_later_counts_from_zero() -> None:
    """A series new on a later page did not exist before: all of it is new."""
    delta = HistogramDelta()
    delta.advance(Histogram())
    assert delta.advance(histogram(one=(3, 1.5))) == (3.0, pytest.approx(0.5))


def test_series_missing_from_one_page_keeps_its_last_value() -> None:
    """A series that is gone for a page and comes back gains only what is new."""
    delta = HistogramDelta()
    delta.advance(histogram(one=(100, 50.0)))
    delta.advance(Histogram())
    assert delta.advance(histogram(one=(101, 50.5))) == (1.0, pytest.approx(0.5))


def test_restart_counts_from_zero_even_above_the_old_count() -> None:
    """After a restart 4100 observations are 4100 new ones, not 100."""
    delta = HistogramDelta()
    delta.advance(histogram(one=(4000, 400.0)))
    count, mean = delta.advance(histogram(one=(4100, 410.0)), restarted=True)
    assert (count, mean) == (4100, pytest.approx(0.1))


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), min_size=1, max_size=20))
def test_histogram_gain_is_never_negative(pages: list[tuple[float, float]]) -> None:
    """No sequence of pages, however erratic, gives a negative count or mean."""
    delta = HistogramDelta()
    for count, total in pages:
        gained, mean = delta.advance(histogram(one=(count, total)))
        assert gained >= 0.0
        assert mean >= 0.0


def test_one_family_that_starts_over_is_no_restart() -> None:
    """Only when every family's sum went back the engine is a new process."""
    delta = CounterDelta()
    delta.advance({("a", ()): 10.0, ("b", ()): 10.0})
    assert not delta.went_back({("a", ()): 1.0, ("b", ()): 11.0})
    assert delta.went_back({("a", ()): 1.0, ("b", ()): 2.0})


def test_failure_told_in_two_ways_counts_once() -> None:
    """The largest gain counts, because both counters saw the same failures."""
    delta = OutcomeDelta()
    finished: SeriesKey = ("request_success", (("finished_reason", "error"),))
    delta.advance(Outcomes(failures=({FAILED: 0.0}, {finished: 0.0})))
    after = Outcomes(failures=({FAILED: 2.0}, {finished: 3.0}), successes={SUCCEEDED: 5.0})
    assert delta.advance(after) == (3.0, 5.0, 0.0)


def test_refusal_under_load_is_no_failure() -> None:
    """Admission rejections are counted among the 5xx and taken off again."""
    delta = OutcomeDelta()
    rejected: SeriesKey = ("admission_rejections", ())
    delta.advance(Outcomes(failures=({FAILED: 0.0},), saturations={rejected: 0.0}))
    after = Outcomes(failures=({FAILED: 5.0},), saturations={rejected: 4.0})
    assert delta.advance(after)[0] == 1.0


@pytest.mark.parametrize("shape", list(Shape))
@given(st.floats(0, 10), st.floats(0, 10))
def test_curve_is_monotone_and_bounded(shape: Shape, one: float, other: float) -> None:
    """Every shape grows from 0 at the knee to 1 at the ceiling."""
    curve = Curve(ceiling=5.0, knee=1.0, shape=shape)
    low, high = sorted((one, other))
    assert 0.0 <= curve.factor(low) <= curve.factor(high) <= 1.0
    assert curve.factor(1.0) == 0.0
    assert curve.factor(5.0) == pytest.approx(1.0)


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 100))
def test_rise_is_limited_per_second(previous: float, wanted: float, elapsed: float) -> None:
    """A score never rises faster than the limit and never past what is wanted."""
    score = rise(previous, wanted, elapsed, 15.0)
    assert score <= wanted
    assert score <= previous + 15.0 * elapsed + 1e-9


def test_fall_is_not_limited() -> None:
    """A score may fall all the way at once."""
    assert rise(100.0, 0.0, 0.01, 15.0) == 0.0


def test_long_pause_counts_as_three_seconds() -> None:
    """A daemon that stood still for a minute does not let a target jump."""
    assert rise(0.0, 100.0, 60.0, 15.0) == 45.0
