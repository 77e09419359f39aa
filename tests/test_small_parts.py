"""Durations and addresses: the small parts that configuration stands on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.addresses import parse_address
from scorer.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15), ("500ms", 0.5), ("1m30s", 90), ("2h", 7200), ("1d", 86400), ("0s", 0)],
)
def test_duration(text: str, seconds: float) -> None:
    """Durations are written as Prometheus writes them."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "1", "1 s", "-1s", "1s1s", "s", "1.5s", "٣s1"])
def test_no_duration(text: str) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="must be a duration"):
        parse_duration(text)


@given(st.integers(0, 10**9))
def test_duration_round_trip(milliseconds: int) -> None:
    """What is written is read back."""
    assert parse_duration(format_duration(milliseconds / 1000)) == pytest.approx(
        milliseconds / 1000
    )


@pytest.mark.parametrize(
    ("text", "name", "url"),
    [
        ("10.0.0.1:8000", "10.0.0.1:8000", "http://10.0.0.1:8000"),
        ("http://[::1]:19001", "[::1]:19001", "http://[::1]:19001"),
        ("[0:0::1]:19001", "[::1]:19001", "http://[::1]:19001"),
        ("http://127.0.0.1:19002/", "127.0.0.1:19002", "http://127.0.0.1:19002"),
        ("host:80/a~b/@c%20+=", "host:80/a~b/@c%20+=", "http://host:80/a~b/@c%20+="),
        ("[::ffff:a00:1]:80", "[::ffff:10.0.0.1]:80", "http://[::ffff:10.0.0.1]:80"),
        ("[::FFFF:10.0.0.1]:80", "[::ffff:10.0.0.1]:80", "http://[::ffff:10.0.0.1]:80"),
        ("https://GPU-1.example:443/v1", "gpu-1.example:443/v1", "https://gpu-1.example:443/v1"),
    ],
)
def test_address(text: str, name: str, url: str) -> None:
    """Each spelling of an address has one name and one URL."""
    address = parse_address(text)
    assert (address.name, address.url) == (name, url)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("10.0.0.1", "must name the port"),
        ("::1:19001", "must put an IPv6 address in brackets"),
        ("host:0", "must have a port from 1 to 65535"),
        ("host:99999", "must have a port from 1 to 65535"),
        (":8000", "must name a host"),
        ("ftp://host:21", "must use the scheme http or https"),
        ("user:secret@host:80", "must be host:port"),
        ("host:80?x=1", "must be host:port"),
        ("host name:80", "must not contain blanks"),
        (" host:80", "must not contain blanks"),
        ("host:80/a b", "must not contain blanks"),
        ("host:80/\n", "must not contain blanks or control characters"),
        ("host\0:80", "must not contain blanks or control characters"),
        ("host:80#", "must be host:port"),
        ("host:٣", "must have a port from 1 to 65535"),
        ("host:" + "9" * 5000, "must have a port from 1 to 65535"),
        ("höst:80", "must name a host"),
        ("a..b:80", "must name a host"),
        ("x" * 64 + ":80", "must name a host"),
        ("host:80/a,b", "must have a path of letters"),
        ("host:80/ü", "must have a path of letters"),
        ("host:80//a", "must have a path of letters"),
        ("[fe80::1%eth0]:80", "must be an IPv6 address without a zone"),
        ("[v1.a]:80", "must"),
        ("[::1]", "must name the port"),
        ("[::1:80", "must"),
        ("[zz]:80", "must"),
        ("", "must name a host"),
    ],
)
def test_bad_address(text: str, rule: str) -> None:
    """An address that cannot be right is refused with the rule it breaks."""
    with pytest.raises(ValueError, match=rule):
        parse_address(text)


@pytest.mark.parametrize("text", ["367d", "1000000000d", "9" * 99 + "s", "9" * 10_000 + "ms"])
def test_duration_is_bounded(text: str) -> None:
    """No clock or socket can be told to wait for longer than a year."""
    with pytest.raises(ValueError, match="must be at most 366d"):
        parse_duration(text)


@given(st.text(max_size=40))
def test_no_address_makes_the_parser_fall_over(text: str) -> None:
    """Every text is an address or a ValueError that names a rule."""
    try:
        answer = parse_address(text).name
    except ValueError as error:
        answer = str(error)
    assert ":" in answer or answer.startswith("must")
