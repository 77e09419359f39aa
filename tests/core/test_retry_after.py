"""Retry-After in every form it comes."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.retry_after import LONGEST, asked_pause, retry_after

NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0), (" 7.5 ", 7.5), ("120, 120", 30.0), ("3, 9", 3.0), ("1e9", 30.0),
        ("1893456000", 30.0), ("86400", 30.0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 30.0), ("Sun Nov  6 08:49:37 2094", 30.0),
        (formatdate(NOW + 12, usegmt=True), 12.0),
    ],
)  # fmt: skip
def test_readable_values(text, seconds):
    """Seconds, fractions, lists and dates, at most half a minute."""
    assert retry_after(text, NOW) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "", "0", "-3", "soon", "-1, soon", "nan", "inf", "1_0", "0x7", "7s", "١",
        "Wed, 21 Oct 2015 07:28:00 GMT", "Wednesday, 21-Oct-99 07:28:00 GMT",
        "Wed, 99 Oct 99999999 99:99:99 GMT", "Mon", "x" * 10_000,
    ],
)  # fmt: skip
def test_values_that_mean_none(text):
    """0, the past and nonsense are no pause."""
    assert retry_after(text, NOW) is None


@given(st.text(), st.floats(0, 1e12))
def test_any_value_is_a_bounded_pause_or_none(text, now):
    """Nothing raises, nothing is negative, nothing is longer than the limit."""
    seconds = retry_after(text, now)
    assert seconds is None or 0 < seconds <= LONGEST


def test_milliseconds_win():
    """``retry-after-ms`` is the finer of the two."""
    assert asked_pause({"retry-after-ms": "1500", "retry-after": "2"}, NOW) == 1.5


def test_headers_without_it_ask_for_nothing():
    """No header, no pause."""
    assert asked_pause({"content-type": "text/plain"}, NOW) is None
