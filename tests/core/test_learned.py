"""What picks have learned comes back as it was, or not at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.feedback_mode import FeedbackMode
from scorer.core.learned import LEARNED_FOR, recall_load, recall_pool, remember_load, remember_pool
from scorer.core.load import TargetLoad
from scorer.core.prefill import INITIAL
from scorer.core.prompts import DEFAULT_TOKENS, Prompts

NAMES = st.sampled_from(["prompts", "feedback"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
    max_leaves=12,
)


def new_load() -> TargetLoad:
    return TargetLoad("chat", "a:1", {}, FeedbackMode())


def slow() -> TargetLoad:
    """Return a load that has learned that its target is slow."""
    load = new_load()
    lease = load.open("one", 8000, 9000.0, 100.0)
    load.tell(lease, 110.0)
    assert load.rate < INITIAL
    return load


def told(count: int, now: float) -> FeedbackMode:
    """Return the mode of a pool whose gateway reported ``count`` requests."""
    mode = FeedbackMode()
    for _ in range(count):
        mode.closed(now, heard=True, good=True, told=True)
    return mode


def plain(data: object) -> object:
    return json.loads(json.dumps(data, allow_nan=False))


def test_learned_rate_survives() -> None:
    """Picks reckon with it at once."""
    before, after = slow(), new_load()
    assert recall_load(plain(remember_load(before)), after, 3600.0)
    assert (after.rate, after.speed) == (before.rate, before.rate)
    assert after.taught


@pytest.mark.parametrize(("load", "elapsed"), [(new_load(), 1.0), (slow(), LEARNED_FOR + 1.0)])
def test_rate_is_the_initial_one(load: TargetLoad, elapsed: float) -> None:
    """When nothing was learned, or long ago: the label of the target says where to start."""
    after = new_load()
    assert recall_load(plain(remember_load(load)), after, elapsed)
    assert (after.rate, after.taught) == (INITIAL, False)


@pytest.mark.parametrize(("elapsed", "lost"), [(5.0, 4), (61.0, 0), (-5.0, 0)])
def test_lost_leases_are_believed_for_a_minute(elapsed: float, lost: int) -> None:
    """A stuck engine stays stuck over a restart, not for ever."""
    before, after = new_load(), new_load()
    before.lost_in_row = 4
    assert recall_load(plain(remember_load(before)), after, elapsed)
    assert after.lost_in_row == lost


@given(st.lists(st.integers(0, 10_000_000), max_size=600))
def test_mean_prompt_survives(lengths: list[int]) -> None:
    """And so does how much one more known length moves it."""
    before, after = Prompts(), Prompts()
    for tokens in lengths:
        before.length(tokens)
    data = plain(remember_pool(before, FeedbackMode(), 0.0))
    assert recall_pool(data, after, FeedbackMode(), 0.0, 10.0)
    assert (after.mean, after.known) == (before.mean, before.known)
    for prompts in (before, after):
        prompts.length(1_000_000)
    assert after.mean == pytest.approx(before.mean, rel=0.01, abs=1) or before.known == 500


def test_prompts_of_yesterday_are_not_believed() -> None:
    """After a day the pool starts from the default."""
    before, after = Prompts(), Prompts()
    before.length(9000)
    data = plain(remember_pool(before, FeedbackMode(), 0.0))
    assert recall_pool(data, after, FeedbackMode(), 0.0, LEARNED_FOR + 1.0)
    assert after.mean == DEFAULT_TOKENS


@pytest.mark.parametrize(("elapsed", "feedback"), [(5.0, True), (70.0, False), (-5.0, False)])
def test_feedback_mode_survives_within_its_minute(elapsed: float, *, feedback: bool) -> None:
    """The gateway that told how requests go goes on telling."""
    mode = FeedbackMode()
    data = plain(remember_pool(Prompts(), told(3, 1000.0), 1001.0))
    assert recall_pool(data, Prompts(), mode, 50.0, elapsed)
    assert (mode.feedback, mode.told) == (feedback, feedback)
    mode.closed(50.0, heard=False)


@given(JSON)
def test_any_json_at_all_is_refused(data: object) -> None:
    """Nothing raises and nothing is applied."""
    load, prompts, mode = new_load(), Prompts(), FeedbackMode()
    assert not recall_load(data, load, 1.0)
    assert not recall_pool(data, prompts, mode, 10.0, 1.0)
    assert (load.rate, prompts.mean, mode.feedback) == (INITIAL, DEFAULT_TOKENS, False)


@pytest.mark.parametrize("buckets", [[[0, 1, 2, 0, 0]], [[0, 1, 1, 1, 1], [3, 1, 1, 1, 1]]])
def test_buckets_that_cannot_be_are_refused(buckets: list[list[int]]) -> None:
    """More heard than closed, or out of order."""
    data = {"prompts": {"mean": 5, "known": 1}, "feedback": {"buckets": buckets}}
    assert not recall_pool(data, Prompts(), FeedbackMode(), 100.0, 1.0)
