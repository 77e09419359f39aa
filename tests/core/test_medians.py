"""Medians with and without one's own value."""

import statistics

from hypothesis import given
from hypothesis import strategies as st

from scorer.core.medians import median, median_of_others

values = st.lists(st.floats(0, 100), min_size=1, max_size=12)


def test_nothing_has_no_median() -> None:
    """Of no value there is no median."""
    assert median([]) is None
    assert median_of_others([1.0], 1.0) is None


@given(values)
def test_median_is_the_median(numbers: list[float]) -> None:
    """It agrees with the standard library."""
    assert median(sorted(numbers)) == statistics.median(numbers)


@given(values, st.data())
def test_median_of_others_leaves_one_out(numbers: list[float], data: st.DataObject) -> None:
    """Without one of the values it is the median of the rest."""
    own = data.draw(st.sampled_from(numbers))
    rest = sorted(numbers)
    rest.remove(own)
    wanted = statistics.median(rest) if rest else None
    assert median_of_others(sorted(numbers), own) == wanted
