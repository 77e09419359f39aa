"""Engines behind one target, each watched by itself."""

import pytest

from scorer.core.progress import STILL_SCRAPES, STILL_SECONDS, PartsWatch
from scorer.core.samples import Part

WORKING, IDLE = True, False


def watched(*pages: dict[str, Part]) -> tuple[PartsWatch, float]:
    """Return a watch that took the pages, and the time of the last: three seconds apart."""
    watch = PartsWatch()
    for number, parts in enumerate(pages):
        watch.page(3.0 * number, parts)
    return watch, 3.0 * (len(pages) - 1)


def test_engine_that_stands_still_with_work_is_stalled():
    """Beside one that moves, after as many pages and seconds as freeze a target."""
    pages = [{"0": Part(WORKING, 5.0), "1": Part(WORKING, n)} for n in range(STILL_SCRAPES + 1)]
    watch, now = watched(*pages)
    assert now >= STILL_SECONDS
    assert watch.stalled(now, 0.0) == ("0",)


@pytest.mark.parametrize("allowance", [6.0, 60.0])
def test_a_long_prefill_is_allowed_for(allowance):
    """As long as the largest prompt may take, nothing is stalled."""
    watch, now = watched(*[{"0": Part(WORKING, 5.0), "1": Part(IDLE, 1.0)}] * (STILL_SCRAPES + 1))
    assert watch.stalled(now, allowance) == ()


def test_engine_without_work_is_not_stalled():
    """It has nothing to move for."""
    watch, now = watched(*[{"0": Part(IDLE, 5.0), "1": Part(IDLE, 5.0)}] * 9)
    assert watch.stalled(now, 0.0) == ()


def test_engine_that_moves_again_or_starts_over_is_not():
    """Any change counts, also one back to 0."""
    still = [{"0": Part(WORKING, 5.0)}] * 9
    watch, now = watched(*still, {"0": Part(WORKING, 0.0)})
    assert watch.stalled(now, 0.0) == ()


def test_engine_that_left_the_page_is_forgotten():
    """When it returns its clock starts anew."""
    still = {"0": Part(WORKING, 5.0)}
    watch, now = watched(*[still] * 9, {}, still)
    assert watch.stalled(now, 0.0) == ()
