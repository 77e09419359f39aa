"""The scores of the last quarter of an hour: lowest per slot, gaps, and nothing kept too long."""

from dataclasses import replace

import pytest

from scorer.trends import SLOT, SLOTS, Trends
from tests.http.builders import pool, snapshot, target, unscored

NAME = "a:1"
START = 30_000.0
"""The beginning of a slot."""


@pytest.fixture
def trends():
    return Trends()


def judged(at, *targets, name="chat"):
    """Return a pool judged ``at`` so many seconds after the start."""
    return replace(pool(*targets, name=name), judged_at=START + at)


def scored(score):
    return target(NAME, score=score)


def lowest(trends, at, name=NAME):
    """Return the slots up to ``at`` seconds after the start."""
    return trends.lowest("chat", name, START + at)


def test_nothing_is_known_of_a_stranger(trends):
    """Every slot is missing, none is 0."""
    assert lowest(trends, 0.0) == (None,) * SLOTS


def test_a_slot_keeps_its_lowest_score(trends):
    """A drop of a second is seen a minute later."""
    for at, score in enumerate((90.0, 12.0, 95.0)):
        trends.see(snapshot(judged(at, scored(score))))
    assert lowest(trends, 60.0)[-5:] == (12.0, None, None, None, None)


def test_slots_without_a_judgement_are_missing(trends):
    """A gap stays a gap."""
    trends.see(snapshot(judged(0.0, scored(80.0))))
    trends.see(snapshot(judged(2 * SLOT, scored(70.0))))
    assert lowest(trends, 2 * SLOT)[-3:] == (80.0, None, 70.0)


def test_a_target_without_a_score_has_none(trends):
    """Not judged yet is not 0."""
    trends.see(snapshot(judged(0.0, unscored(NAME))))
    assert lowest(trends, 0.0) == (None,) * SLOTS


def test_a_quarter_of_an_hour_is_kept(trends):
    """No more than that is shown, nor held."""
    for slot in range(3 * SLOTS):
        trends.see(snapshot(judged(slot * SLOT, scored(float(slot % 100)))))
    expected = tuple(float(slot % 100) for slot in range(2 * SLOTS, 3 * SLOTS))
    assert lowest(trends, (3 * SLOTS - 1) * SLOT) == expected
    assert len(trends._kept["chat"][NAME]) == SLOTS


def test_a_target_that_left_is_forgotten(trends):
    """When it comes back it starts anew."""
    for at, targets in enumerate([(scored(80.0),), (target("b:2"),), (unscored(NAME),)]):
        trends.see(snapshot(judged(at, *targets)))
    assert lowest(trends, 2.0) == (None,) * SLOTS


def test_a_pool_that_left_is_forgotten(trends):
    """With all of its targets."""
    trends.see(snapshot(judged(0.0, scored(80.0))))
    trends.see(snapshot(judged(1.0, target("b:2"), name="embed")))
    assert lowest(trends, 1.0) == (None,) * SLOTS


def test_a_publication_of_another_pool_changes_nothing(trends):
    """What is not judged anew is not taken again, and stays."""
    chat = judged(0.0, scored(80.0))
    trends.see(snapshot(chat))
    trends.see(snapshot(chat, judged(SLOT, target("b:2"), name="embed")))
    assert lowest(trends, SLOT)[-2:] == (80.0, None)
