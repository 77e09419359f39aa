"""From monotonic to wall-clock time and back to people."""

from scorer.clocks import TOLERANCE, Clocks


class Hands:
    """Two clocks set by hand."""

    def __init__(self):
        self.monotonic, self.wall = 1000.0, 1_900_000_000.0
        self.clocks = Clocks(lambda: self.monotonic, lambda: self.wall)


def test_unix_time_of_a_moment():
    """A moment ten seconds ago was ten seconds before the wall clock's time."""
    assert Hands().clocks.unix(990.0) == 1_899_999_990.0


def test_rfc3339():
    """Times are UTC with milliseconds and a Z."""
    assert Hands().clocks.rfc3339(999.9) == "2030-03-17T17:46:39.900Z"


def test_same_moment_reads_the_same_while_the_clock_is_slewed():
    """A moment shown twice is one number, though the offset creeps."""
    hands = Hands()
    before = hands.clocks.unix(990.0)
    hands.monotonic, hands.wall = 1060.0, 1_900_000_060.0 + TOLERANCE / 2
    assert hands.clocks.unix(990.0) == before


def test_step_of_the_wall_clock_is_followed():
    """After a step, times are shown on the corrected clock."""
    hands = Hands()
    hands.wall += 3600.0
    assert hands.clocks.unix(1000.0) == hands.wall


def test_age():
    """An age is time passed, and never negative."""
    clocks = Hands().clocks
    assert (clocks.age(998.5), clocks.age(1001.0)) == (1.5, 0.0)
