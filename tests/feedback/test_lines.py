"""Log records of proxies, as they arrive."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.feedback.lines import records


def test_nginx_syslog_line():
    """Priority, time, host and tag come before the record."""
    line = b'<190>Nov 30 01:14:08 edge scorer: {"target":"10.0.0.1:8000","status":"200"}'
    assert list(records(line)) == [{"target": "10.0.0.1:8000", "status": "200"}]


def test_haproxy_raw_line():
    """Nothing before it, a line break after it, times in milliseconds."""
    line = b'{"target":"10.0.0.1:8000","status":200,"duration_ms":1532,"ttft_ms":"412"}\n'
    [record] = records(line)
    assert (record["duration_seconds"], record["ttft_seconds"]) == (1.532, 0.412)


def test_several_lines_are_several_records():
    """Blank ones and a NUL at the end do not count."""
    assert list(records(b'{"a":1}\n\nx: {"b":2}\r\n\0')) == [{"a": 1}, {"b": 2}]


def test_what_did_not_happen_is_missing():
    """HAProxy writes -1 for times and statuses that there are none of."""
    [record] = records(b'{"status":-1,"gateway_status":"-1","duration_ms":-1,"ttft_ms":"-"}')
    assert (record["status"], record["gateway_status"]) == (0, 0)
    assert (record["duration_seconds"], record["ttft_seconds"]) == (None, "-")


@pytest.mark.parametrize(
    ("said", "meant"), [("200", "0"), ("502, 200", "502,0"), ("", "0")], ids=["one", "two", "none"]
)
def test_answer_that_is_no_http_is_none(said: str, meant: str):
    """Nginx passes it on with a status of its own, 009."""
    line = json.dumps({"status": said, "gateway_status": "009"}).encode()
    assert list(records(line)) == [{"status": meant, "gateway_status": 0}]


def test_seconds_win_over_milliseconds():
    """A record that has both."""
    [record] = records(b'{"ttft_seconds":1.5,"ttft_ms":9}')
    assert record["ttft_seconds"] == 1.5


@pytest.mark.parametrize(
    "data",
    [b"no record", b"<190>nginx: {", b'{"a":', b"[1,2]", b"\xff\xfe{", b"{" * 60_000,
     b'{"a":' * 10_000, b'{"a":' + b"9" * 60_000 + b"}"],
    ids=lambda data: repr(data[:10]),
)  # fmt: skip
def test_line_without_record_is_none(data):
    """It is for whoever counts."""
    assert list(records(data)) == [None]


def test_not_a_number_is_missing():
    """NaN and Infinity are no JSON; a log record goes on without them."""
    assert list(records(b'{"ttft_seconds":NaN,"status":200}')) == [
        {"ttft_seconds": None, "status": 200}
    ]


@given(st.binary(max_size=2000))
def test_any_datagram_is_read(data):
    """Nothing raises."""
    assert all(record is None or isinstance(record, dict) for record in records(data))
