"""Whether scrapes reach a target: what it takes to say no, and what ends that."""

import pytest

from scorer.core.contact import FALL, LONGEST_LOOK, REFUSED, Contact
from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import Reason, ScrapeFailure
from tests.core.builders import REFUSED as CONNECTION_REFUSED

SLOW = ScrapeFailed(ScrapeFailure.TIMEOUT, "no answer")
OURS = ScrapeFailed(ScrapeFailure.LOCAL, "too many open files")


def after(failure: ScrapeFailed, times: int) -> Contact:
    """Return what is known after that many failures, one each second from 1.0 on."""
    contact = Contact()
    for at in range(1, times + 1):
        contact.failed(failure, float(at))
    return contact


@pytest.mark.parametrize(
    ("failure", "enough", "reason"),
    [
        (SLOW, FALL, Reason.SCRAPES_FAILED),
        (CONNECTION_REFUSED, REFUSED, Reason.CONNECTION_REFUSED),
    ],
)
def test_some_failures_in_a_row_are_needed(
    failure: ScrapeFailed, enough: int, reason: Reason
) -> None:
    """One less is no news, and a good page ends it."""
    assert after(failure, enough - 1).lost(10.0) is None
    contact = after(failure, enough)
    assert contact.lost(10.0) is reason
    contact.made()
    assert contact.lost(10.0) is None


def test_failure_on_this_side_says_nothing() -> None:
    """However often."""
    assert after(OURS, 100) == Contact()


def test_refusals_count_from_the_first() -> None:
    """A success before it is no sign of life, one after it is."""
    contact = after(CONNECTION_REFUSED, 3)
    assert contact.refused_since(0.9)
    assert not contact.refused_since(1.0)
    assert not after(SLOW, 3).refused_since(0.9)


def test_silence_counts_while_somebody_looks() -> None:
    """A daemon that stood still for an hour missed nothing; the end of a scrape is news."""
    contact = Contact()
    for at in (0.0, 1.0, 3601.0):
        contact.look(at)
    assert contact.unheard == 1.0 + LONGEST_LOOK
    assert contact.lost(3.9) is Reason.SCRAPES_FAILED
    assert contact.lost(4.0) is None
    contact.failed(SLOW, 3601.0)
    assert contact.lost(3.9) is None
