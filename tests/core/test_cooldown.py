"""Cooldown: length, episodes, deadline, penalty."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.cooldown import LONGEST, Cooldown, CooldownReason

SATURATED, FAULT = CooldownReason.ENGINE_SATURATED, CooldownReason.ENGINE_FAULT


def cooled(now: float = 0.0, base: float = 4.0) -> Cooldown:
    cooldown = Cooldown()
    cooldown.enter(now, SATURATED, base)
    return cooldown


def test_cooldown_lasts_its_base() -> None:
    """The first cooldown is as long as was drawn."""
    cooldown = cooled()
    assert (cooldown.active(3.9), cooldown.active(4.0)) == (True, False)


def test_next_of_the_same_episode_is_doubled() -> None:
    """Within 60 s after the end the next cooldown is twice as long, and again."""
    cooldown = cooled()
    cooldown.enter(10.0, SATURATED, 4.0)
    assert cooldown.until == 18.0
    cooldown.enter(70.0, SATURATED, 4.0)
    assert cooldown.until == 86.0


def test_doubling_stops_at_thirty_seconds() -> None:
    """However long the episode, a cooldown is at most 30 s."""
    cooldown, now = Cooldown(), 0.0
    for _ in range(8):
        cooldown.enter(now, SATURATED, 5.0)
        assert cooldown.until - now <= 30.0
        now = cooldown.until + 1.0


def test_a_minute_of_calm_ends_the_episode() -> None:
    """A cooldown that starts 60 s after the last one ended is a first one."""
    cooldown = cooled()
    cooldown.enter(64.0, SATURATED, 4.0)
    assert cooldown.until == 68.0


def test_answers_during_a_cooldown_push_its_deadline_by_the_same_length() -> None:
    """They start no second cooldown and double nothing."""
    cooldown = cooled()
    cooldown.enter(3.0, SATURATED, 4.0)
    assert (cooldown.until, cooldown.entered) == (7.0, {SATURATED: 1})


def test_late_news_of_requests_picked_before_only_push() -> None:
    """Forty answers to requests picked before the cooldown are one cooldown."""
    cooldown = cooled(now=100.0)
    for second in range(40):
        cooldown.enter(105.0 + second * 0.01, SATURATED, 4.0, picked_at=99.0)
    assert cooldown.entered == {SATURATED: 1}
    assert cooldown.until == pytest.approx(105.39 + 4.0)


def test_deadline_never_moves_back() -> None:
    """A shorter one does not shorten the one under way."""
    cooldown = Cooldown()
    cooldown.enter(0.0, SATURATED, 30.0)
    cooldown.enter(1.0, SATURATED, 3.0)
    assert cooldown.until == 31.0


def test_penalty_is_full_during_and_fades_afterwards() -> None:
    """Full while it lasts, half five seconds after its end."""
    cooldown = cooled()
    assert cooldown.penalty(4.0) == 1.0
    assert cooldown.penalty(9.0) == pytest.approx(0.5)


def test_target_refused_by_the_limit_gets_penalty_and_fade_at_once() -> None:
    """Too many in cooldown already: no cooldown, but the penalty, fading from the start."""
    cooldown = Cooldown()
    cooldown.enter(0.0, SATURATED, 4.0, allowed=False)
    assert not cooldown.active(0.0)
    assert (cooldown.penalty(0.0), cooldown.penalty(5.0)) == (1.0, pytest.approx(0.5))
    assert cooldown.refused_at == 0.0


def test_fault_costs_no_saturation_penalty() -> None:
    """A failing engine's errors are in the ratio already."""
    cooldown = Cooldown()
    cooldown.enter(0.0, FAULT, 4.0)
    assert cooldown.penalty(1.0) == 0.0


def test_fault_outranks_saturation() -> None:
    """A fault during a saturation cooldown makes it one of all prompts."""
    cooldown = cooled()
    cooldown.enter(1.0, FAULT, 4.0)
    assert cooldown.reason is FAULT
    assert cooldown.seconds(3.0) == {SATURATED: 1.0, FAULT: 2.0}


def test_ended_by_hand_is_over() -> None:
    """An operator's end takes cooldown and penalty away at once."""
    cooldown = cooled()
    cooldown.end(1.0)
    assert (cooldown.active(1.0), cooldown.penalty(1.0)) == (False, 0.0)


def test_time_spent_counts_what_passed() -> None:
    """Seconds in cooldown grow while it lasts and stop with it."""
    cooldown = cooled()
    assert cooldown.seconds(1.5) == {SATURATED: 1.5}
    assert cooldown.seconds(50.0) == {SATURATED: 4.0}


events = st.lists(
    st.tuples(st.floats(0, 20), st.sampled_from(list(CooldownReason)), st.booleans()), max_size=30
)


@given(events)
def test_no_sequence_breaks_the_bounds(history: list[tuple[float, CooldownReason, bool]]) -> None:
    """Deadline monotone, at most 30 s ahead, penalty a share, time spent never shrinks."""
    cooldown, now, until, spent = Cooldown(), 0.0, 0.0, 0.0
    for pause, reason, allowed in history:
        now += pause
        cooldown.enter(now, reason, 4.0, picked_at=now - 1.0, allowed=allowed)
        total = sum(cooldown.seconds(now).values())
        assert cooldown.until >= until
        assert cooldown.until <= now + 30.0 or not cooldown.active(now)
        assert 0.0 <= cooldown.penalty(now) <= 1.0
        assert spent - 1e-9 <= total <= now + 1e-9
        until, spent = cooldown.until, total


def test_endless_episode_does_not_overflow() -> None:
    """A target that is saturated for days goes on being cooled down for the longest time."""
    cooldown, now = Cooldown(), 0.0
    for _ in range(1100):
        cooldown.enter(now, SATURATED, 3.0)
        now = cooldown.until + 1.0
    assert cooldown.length == LONGEST


def test_old_news_does_not_reopen_what_an_operator_ended() -> None:
    """A request picked before the order tells of a time that the operator has judged."""
    cooldown = Cooldown()
    cooldown.enter(10.0, CooldownReason.ENGINE_SATURATED, 4.0)
    cooldown.end(11.0)
    cooldown.enter(12.0, CooldownReason.ENGINE_SATURATED, 4.0, picked_at=9.0)
    assert not cooldown.active(12.0)
    assert cooldown.penalty(12.0) == 0.0


def test_old_news_cannot_exceed_the_limit_of_the_pool() -> None:
    """A cooldown that is over begins anew only where one may begin."""
    cooldown = Cooldown()
    cooldown.enter(10.0, CooldownReason.ENGINE_SATURATED, 4.0)
    cooldown.enter(20.0, CooldownReason.ENGINE_SATURATED, 4.0, picked_at=9.0, allowed=False)
    assert not cooldown.active(20.0)
    assert cooldown.refused_at == 20.0
