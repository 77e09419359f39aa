"""Picks a second: over a minute, without what is not known, and without what left."""

import pytest

from scorer.rates import EVERY, WINDOW, PickRates
from tests.http.builders import chat, pool, snapshot, target

NAME = "10.0.0.1:8000"


class World:
    """A count and a clock that are set by hand."""

    def __init__(self):
        self.now, self.picks = 0.0, 0
        self.rates = PickRates(lambda *_: self.picks, lambda: self.now)

    def passes(self, seconds, picks, published=None):
        """Let time pass, second by second, with so many picks in each."""
        for _ in range(seconds):
            self.now += 1.0
            self.picks += picks
            self.rates.see(published or snapshot(chat(1)))

    def rate(self):
        return self.rates.rate("chat", NAME)


@pytest.fixture
def world():
    return World()


def test_nothing_is_known_at_first(world):
    """Nor of a stranger: None, not 0."""
    assert world.rate() is None
    world.passes(int(EVERY), 3)
    assert world.rate() is None
    assert world.rates.rate("chat", "nobody") is None


def test_rate_is_what_was_added(world):
    """Between the first note and this moment, noted or not."""
    world.passes(12, 3)
    assert world.rate() == pytest.approx(3.0)
    world.now += 1.0
    world.picks += 14
    assert world.rate() == pytest.approx((11 * 3 + 14) / 12)


def test_idle_target_has_rate_0(world):
    """It is known that nothing was picked."""
    world.passes(20, 0)
    assert world.rate() == 0.0


def test_only_the_last_minute_counts(world):
    """What was before is forgotten, and not held."""
    world.passes(300, 50)
    world.passes(int(WINDOW), 1)
    assert world.rate() == pytest.approx(1.0)
    assert len(world.rates._notes) <= WINDOW / EVERY


def test_nothing_published_for_long_is_not_known(world):
    """A rate over an hour would be another one."""
    world.passes(20, 5)
    world.now += 3600.0
    assert world.rate() is None


def test_target_that_came_back_counts_from_anew(world):
    """Though its count was higher before, and however high it gets."""
    world.passes(20, 10)
    world.passes(5, 0, snapshot(pool(target("b:1"))))
    world.picks = 0
    world.passes(10, 40)
    assert world.rate() == pytest.approx(40.0)


def test_count_that_fell_starts_anew(world):
    """Even when its absence was never noted."""
    world.passes(20, 1)
    world.picks = 0
    world.passes(11, 1)
    assert world.rate() == pytest.approx(1.0)
