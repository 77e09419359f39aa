"""Feedback mode: what the leases closed in the last minute say of the gateway."""

from scorer.core.feedback_mode import FeedbackMode


def mode(*, heard: int = 0, lost: int = 0, told: int = 0, faults: int = 0) -> FeedbackMode:
    """Return the mode after ``heard`` good ends, of which ``told`` had a first token, and so on."""
    made = FeedbackMode()
    for number in range(heard):
        made.closed(10.0, heard=True, good=True, told=number < told)
    for _ in range(faults):
        made.closed(10.0, heard=True)
    for _ in range(lost):
        made.closed(10.0, heard=False)
    made.refresh(10.0)
    return made


def test_nothing_closed_is_no_feedback() -> None:
    """A daemon that has just started waits for no first token."""
    assert (mode().feedback, mode().told) == (False, False)


def test_half_of_the_leases_is_enough() -> None:
    """Half closed by feedback is feedback mode, less is not."""
    assert mode(heard=5, lost=5).feedback
    assert not mode(heard=4, lost=5).feedback


def test_first_tokens_are_told_when_half_of_the_good_ends_had_one() -> None:
    """A gateway that reports only ends does not tell first tokens."""
    assert mode(heard=10, told=5).told
    assert not mode(heard=10, told=4).told


def test_faults_do_not_speak_against_first_tokens() -> None:
    """A failed request never had one to tell."""
    assert mode(heard=2, told=2, faults=50).told


def test_a_minute_later_nothing_is_known() -> None:
    """What was closed more than a minute ago does not count."""
    made = mode(heard=5, told=5)
    made.refresh(64.9)
    assert made.told
    made.refresh(70.0)
    assert not made.feedback
