"""Counts of pick requests, and the histogram under them."""

import pytest

from scorer.histogram import Histogram
from scorer.pick_stats import NO_POOL, PICK_BOUNDS, PickFailure, PickStats


def test_every_request_has_a_duration():
    """Good and failed requests count alike."""
    stats = PickStats()
    stats.record("chat", 0.00003)
    stats.record("chat", 0.00003, PickFailure.NO_TARGET)
    reading = stats.read("chat")
    assert (reading.requests, reading.duration.count) == (2, 2)


def test_failures_count_by_reason():
    """A failure counts under its reason only."""
    stats = PickStats()
    stats.record("chat", 0.1, PickFailure.NO_TARGET)
    expected = {**dict.fromkeys(PickFailure, 0), PickFailure.NO_TARGET: 1}
    assert stats.read("chat").failures == expected


def test_unknown_pool_reads_zero():
    """Reading a pool without requests makes no entry."""
    stats = PickStats()
    assert stats.read("chat").requests == 0
    assert not stats._pools


def test_reading_is_a_copy():
    """What was read does not move."""
    stats = PickStats()
    stats.record("chat", 0.1)
    before = stats.read("chat")
    stats.record("chat", 0.1, PickFailure.NO_TARGET)
    assert (before.requests, before.failures[PickFailure.NO_TARGET]) == (1, 0)


def test_departed_pools_are_forgotten():
    """``keep`` drops what is not named, and never what has no pool."""
    stats = PickStats()
    for pool in ("chat", "gone", NO_POOL):
        stats.record(pool, 0.1)
    stats.keep({"chat"})
    assert [stats.read(pool).requests for pool in ("chat", "gone", NO_POOL)] == [1, 0, 1]


def test_bounds_reach_well_above_a_slow_pick():
    """The last finite bound is far above any threshold, or no alert on it could fire."""
    assert PICK_BOUNDS[-1] == 1.0
    assert list(PICK_BOUNDS) == sorted(PICK_BOUNDS)


@pytest.mark.parametrize(
    ("value", "counts"),
    [(0.5, (1, 1, 1)), (1.0, (1, 1, 1)), (1.5, (0, 1, 1)), (2.0, (0, 1, 1)), (9.0, (0, 0, 1))],
)
def test_bounds_are_inclusive(value, counts):
    """A value equal to a bound counts under it, as ``le`` says."""
    histogram = Histogram((1.0, 2.0))
    histogram.observe(value)
    reading = histogram.read()
    assert (reading.counts, reading.sum, reading.count) == (counts, value, 1)
