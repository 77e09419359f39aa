"""Gains of series that vanish, come back and churn."""

import pytest

from scorer.core.deltas import (
    FORGOTTEN_AFTER,
    MOST_ABSENT,
    CounterDelta,
    HistogramDelta,
    OutcomeDelta,
)
from scorer.core.samples import Histogram, Outcomes, SeriesKey


def series(number: int) -> SeriesKey:
    """Return the identity of one of many series."""
    return "requests_total", (("id", str(number)),)


STAYS, GOES, COMES = series(-1), series(-2), series(-3)


def after(*pages: dict[SeriesKey, float]) -> tuple[CounterDelta, list[float]]:
    """Return a delta that took these pages, and its gains."""
    delta = CounterDelta()
    return delta, [delta.advance(page) for page in pages]


def test_series_missing_from_some_pages_counts_only_what_it_gained():
    """A gap of a few pages is bridged: the history of a series is not traffic."""
    gap = [{STAYS: 1.0}] * (FORGOTTEN_AFTER - 1)
    _, gains = after({STAYS: 1.0, GOES: 100.0}, *gap, {STAYS: 1.0, GOES: 103.0})
    assert sum(gains) == 3.0


def test_series_that_was_forgotten_is_a_baseline_when_it_returns():
    """Its whole value is no gain; what it gains from there on is."""
    gap = [{STAYS: 1.0}] * (FORGOTTEN_AFTER + 5)
    delta, gains = after({STAYS: 1.0, GOES: 100.0}, *gap, {STAYS: 1.0, GOES: 5000.0})
    assert sum(gains) == 0.0
    assert delta.advance({STAYS: 1.0, GOES: 5002.0}) == 2.0


def test_series_that_is_new_counts_from_zero():
    """It did not exist before, also while others are gone."""
    _, gains = after({STAYS: 1.0, GOES: 1.0}, {STAYS: 1.0}, {STAYS: 1.0, COMES: 7.0})
    assert sum(gains) == 7.0


def test_series_that_went_backwards_during_a_gap_starts_over():
    """As it does from one page to the next."""
    _, gains = after({STAYS: 1.0, GOES: 100.0}, {STAYS: 1.0}, {STAYS: 1.0, GOES: 4.0})
    assert sum(gains) == 4.0


def held(delta: CounterDelta) -> int:
    """Return how many series a delta has anything of."""
    memory = delta._memory
    return len(memory._last or {}) + len(memory._absent) + len(memory._forgotten)


def test_churning_series_are_bounded_and_invent_nothing():
    """A page of other series each time costs no more memory, and unknown ones are baselines."""
    delta = CounterDelta()
    churn = [{series(page * 500 + n): 1e6 for n in range(500)} for page in range(200)]
    gains = [delta.advance({STAYS: 1.0, **page}) for page in churn]
    assert held(delta) <= 501 + 2 * MOST_ABSENT
    assert gains[-1] == 0.0
    assert delta.advance({STAYS: 9.0, **churn[0]}) == 8.0


def test_slow_churn_is_forgotten_by_age():
    """One series more with each page: those long gone are forgotten, each by its age."""
    delta, _ = after(*({STAYS: 1.0, series(n): 1.0} for n in range(MOST_ABSENT)))
    assert len(delta._memory._absent) <= FORGOTTEN_AFTER


def test_restart_starts_the_memory_over():
    """After it every series is new, and counts from zero."""
    delta, _ = after({GOES: 100.0}, *[{STAYS: 1.0}] * (FORGOTTEN_AFTER + 2))
    assert delta.advance({STAYS: 2.0}, restarted=True) == 2.0
    assert delta.advance({STAYS: 2.0, GOES: 3.0}) == 3.0


def test_restart_is_seen_behind_a_page_without_the_series():
    """A fresh engine has a page without samples first, and lower ones then."""
    delta, _ = after({STAYS: 5000.0}, {})
    assert delta.went_back({STAYS: 7.0})


@pytest.mark.parametrize(("pages", "gained"), [(1, (2.0, 2.0)), (FORGOTTEN_AFTER + 2, (0.0, 0.0))])
def test_histogram_that_returns_counts_no_history(pages, gained):
    """Sums and counts of a series are kept and forgotten together."""
    delta = HistogramDelta()
    delta.advance(Histogram({GOES: 500.0}, {GOES: 100.0}))
    for _ in range(pages):
        delta.advance(Histogram())
    assert delta.advance(Histogram({GOES: 504.0}, {GOES: 102.0})) == gained


def test_failures_that_vanish_and_return_are_no_failures():
    """History of errors never lowers a score again."""
    delta = OutcomeDelta()
    for failures in ({GOES: 900.0}, *[{}] * (FORGOTTEN_AFTER + 2), {GOES: 900.0}):
        told = delta.advance(Outcomes(failures=(failures,), successes={STAYS: 1.0}))
    assert told == (0.0, 0.0, 0.0)


def test_sum_that_goes_back_alone_is_no_observation():
    """More requests in less time are impossible: no TTFT of 0 is made of them."""
    delta = HistogramDelta()
    key = ("ttft", ())
    delta.advance(Histogram(counts={key: 10.0}, sums={key: 19.0}))
    assert delta.advance(Histogram(counts={key: 60.0}, sums={key: 18.5})) == (0.0, 0.0)
    assert delta.advance(Histogram(counts={key: 61.0}, sums={key: 20.5})) == (1.0, 2.0)
