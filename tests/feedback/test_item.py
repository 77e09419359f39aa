"""Feedback items: what is read from each field, and what a bad one is told."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.rules import Fact
from scorer.feedback.fields import ItemError
from scorer.feedback.item import Attempt, Event, read_item

TARGET = "10.0.0.1:8000"


def read(**fields):
    """Return the item of ``fields``, about a target unless they say otherwise."""
    return read_item({"target": TARGET, **fields})


def refused(**fields):
    """Return what is said about ``fields``."""
    with pytest.raises(ItemError) as error:
        read(**fields)
    return str(error.value)


def test_body_that_a_proxy_writes_as_a_dash_is_missing():
    """HAProxy's way of saying that there was none must not read as an error's text."""
    assert read(status=200, error_body="-").body == ""
    assert read(status=200, error_body="-", stream_error="no").body == "no"


def test_smallest_item():
    """A target is enough; a request is done unless the item says otherwise."""
    item = read()
    assert item.attempts == (Attempt(TARGET, None, None),)
    assert (item.event, item.ttft, item.headers, item.body) == (Event.DONE, None, {}, "")


def test_full_item():
    """Every field in its unit."""
    item = read(
        pick_id="p1", pool="chat", event="first_token", status=200, ttft_seconds=0.412,
        duration_seconds=3, prompt_tokens=812, headers={"Retry-After": 7}, error_body="x",
        termination="CD--", waiting=3, kv_cache=0.5, unheard_of=[1],
    )  # fmt: skip
    assert item.attempts == (Attempt(TARGET, 200, 3.0),)
    assert (item.pick_id, item.pool, item.event) == ("p1", "chat", Event.FIRST_TOKEN)
    assert (item.ttft, item.prompt_tokens, item.waiting, item.kv_cache) == (0.412, 812, 3.0, 0.5)
    assert (item.headers, item.body, item.termination) == ({"retry-after": "7"}, "x", "CD--")


@pytest.mark.parametrize("value", [None, "", "-"])
def test_missing_is_not_zero(value):
    """null, an empty string and a proxy's dash."""
    item = read(status=value, ttft_seconds=value, duration_seconds=value, waiting=value)
    assert item.attempts == (Attempt(TARGET, None, None),)
    assert (item.ttft, item.waiting) == (None, None)


def test_numbers_may_be_strings():
    """As proxies log them."""
    item = read(status="200", ttft_seconds="0.412", prompt_tokens="812", kv_cache="5e-1")
    assert (item.attempts[0].status, item.ttft) == (200, 0.412)
    assert (item.prompt_tokens, item.kv_cache) == (812, 0.5)


def test_attempts_as_a_proxy_logs_them():
    """Strings with commas, and with colons after an internal redirect."""
    item = read_item(
        {"target": "a:1, b:2 : c:3", "status": "429, 502 : 200", "duration_seconds": "0.1, - : 3.0"}
    )
    assert item.attempts == (
        Attempt("a:1", 429, 0.1), Attempt("b:2", 502, None), Attempt("c:3", 200, 3.0)
    )  # fmt: skip


def test_attempts_as_lists():
    """JSON lists mean the same."""
    item = read_item({"target": ["a:1", "b:2"], "status": [429, None], "gateway_status": 504})
    assert item.attempts == (Attempt("a:1", 429, None), Attempt("b:2", 504, None))


def test_one_duration_of_several_attempts_is_nobodys():
    """The whole request's time says nothing of the last attempt."""
    item = read_item({"target": "a:1, b:2", "status": "429, 200", "duration_seconds": 3.0})
    assert [attempt.waited for attempt in item.attempts] == [None, None]


def test_gateways_499_wins_over_the_upstreams_status():
    """The client left while the upstream's answer came."""
    item = read(status=200, gateway_status=499)
    assert item.attempts[0].status == 499


def test_gateways_status_is_not_the_upstreams():
    """An error page of the gateway's own does not replace what the target said."""
    assert read(status=429, gateway_status=503).attempts[0].status == 429


@pytest.mark.parametrize("target", ["", "-", "-:-", "-:0", "<NOSRV>"])
def test_nobody_was_asked(target):
    """The ways in which proxies write that."""
    item = read_item({"target": target, "pick_id": "p1"})
    assert item.attempts[0].target == ""
    assert item.facts & Fact.NO_UPSTREAM


def test_logged_target_was_asked():
    """The address in a log record is where the request went."""
    assert read_item({"target": TARGET}, logged=True).facts & Fact.UPSTREAM
    assert not read().facts & Fact.UPSTREAM


@pytest.mark.parametrize(
    ("fields", "first_token", "no_token"),
    [
        ({"ttft_seconds": 0.4}, True, False),
        ({"output_tokens": 3}, True, False),
        ({"output_tokens": 0, "stream": True}, False, True),
        ({"ttft_seconds": None, "stream": "true"}, False, True),
        ({"ttft_seconds": None, "stream": True, "finish_reason": "stop"}, False, False),
        ({"stream": True}, False, False),
        ({"output_tokens": 0}, False, False),
        ({"ttft_seconds": None}, False, False),
    ],
)
def test_what_is_known_of_the_first_token(fields, first_token, no_token):
    """A stream without token is one that the gateway watched and says so of."""
    facts = read(**fields).facts
    assert bool(facts & Fact.FIRST_TOKEN) == first_token
    assert bool(facts & Fact.NO_TOKEN) == no_token


def test_ttft_of_a_whole_answer_is_none():
    """Without streaming the first token comes with the last."""
    assert read(ttft_seconds=9.0, stream=False).ttft is None


@pytest.mark.parametrize("seconds", [0, 0.0004])
def test_ttft_below_a_millisecond_is_no_measurement(seconds):
    """0 and seconds sent as milliseconds are not averaged."""
    assert read(ttft_seconds=seconds).ttft is None


def test_answer_is_seen_when_headers_and_body_are_given():
    """Even if both are empty."""
    assert read(headers={}, error_body="").facts & Fact.ANSWERED
    assert not read(headers={}).facts & Fact.ANSWERED


def test_stream_error_may_be_the_event_itself():
    """Its text is the error body when there is no other."""
    item = read(stream_error='{"error":"boom"}')
    assert item.facts & Fact.STREAM_ERROR
    assert item.body == '{"error":"boom"}'
    assert read(stream_error="no", error_body="yes").body == "yes"


def test_body_beyond_four_kib_is_dropped():
    """Whatever its size."""
    assert len(read(error_body="x" * 100_000).body) == 4096


@pytest.mark.parametrize(
    "report",
    [
        "TEXT named_metrics.kv_cache_usage_perc=0.25, named_metrics.num_requests_waiting=4",
        'JSON {"named_metrics": {"kv_cache_usage_perc": 0.25, "num_requests_waiting": 4.0}}',
    ],
)
def test_load_header_is_read(report):
    """The header endpoint-load-metrics of vLLM, in both of its forms."""
    item = read(headers={"Endpoint-Load-Metrics": report})
    assert (item.waiting, item.kv_cache) == (4.0, 0.25)


def test_header_that_a_proxy_has_no_value_for_is_none():
    """A log format names it whether the answer had it or not."""
    assert read(headers={"retry-after": "-", "x": "", "y": None, "z": ["1", "2"]}).headers == {
        "z": "1, 2"
    }


def test_nonsense_in_the_load_header_is_nothing():
    """The header is the engine's, so it does not make the item bad."""
    item = read(headers={"endpoint-load-metrics": "TEXT kv_cache_usage_perc=7"}, waiting=2)
    assert (item.waiting, item.kv_cache) == (2.0, None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"status": 99999}, "status: must be from 0 to 599, got 99999"),
        ({"status": 42}, "status: must be 0 or from 100 to 599, got 42"),
        ({"status": True}, "status: must be a number, got True"),
        ({"status": "ok"}, "status: must be a number, got ok"),
        ({"status": 200.5}, "status: must be 0 or from 100 to 599, got 200.5"),
        ({"status": {}}, "status: must be a number, got an object"),
        ({"status": []}, "status: must list 1 to 16 attempts, got 0"),
        ({"status": [200] * 17}, "status: must list 1 to 16 attempts, got 17"),
        ({"status": "429, 200"}, "target: must list as many attempts as status (2), got 1"),
        ({"ttft_seconds": -0.005}, "ttft_seconds: must be from 0 to 86400, got -0.005"),
        ({"ttft_seconds": 1e300}, "ttft_seconds: must be from 0 to 86400, got 1e+300"),
        ({"ttft_seconds": "inf"}, "ttft_seconds: must be a number, got inf"),
        ({"ttft_seconds": "1_0"}, "ttft_seconds: must be a number, got 1_0"),
        ({"ttft_seconds": float("nan")}, "ttft_seconds: must be from 0 to 86400, got nan"),
        ({"duration_seconds": 10**400}, "duration_seconds: must be from 0 to 86400, got 1000"),
        ({"duration_seconds": [1, 2]}, "duration_seconds: must list as many attempts as target"),
        ({"prompt_tokens": 1.5}, "prompt_tokens: must be a whole number, got 1.5"),
        ({"prompt_tokens": -1}, "prompt_tokens: must be from 0 to 1e+09, got -1"),
        ({"kv_cache": 63}, "kv_cache: must be from 0 to 1, got 63"),
        ({"event": "begun"}, "event: must be first_token or done, got begun"),
        ({"stream": 2}, "stream: must be true or false, got 2"),
        ({"stream": "perhaps"}, "stream: must be true or false, got perhaps"),
        ({"headers": "x"}, "headers: must be an object, got x"),
        ({"headers": {"A": {}}}, "headers.A: must be a string, got an object"),
        ({"error_body": 5}, "error_body: must be a string, got 5"),
        ({"pick_id": 5}, "pick_id: must be a string, got 5"),
        ({"target": 5}, "target: must be a string, got 5"),
        ({"target": "a\nb", "status": "x\ny"}, r"status: must be a number, got 'x\ny'"),
        ({"target": None}, "must name pick_id or target"),
    ],
)
def test_bad_field_is_named(fields, message):
    """Field, rule and value."""
    assert refused(**fields).startswith(message)


@pytest.mark.parametrize("raw", [None, 5, "x", [], True])
def test_item_must_be_an_object(raw):
    """Anything else is refused by its type."""
    with pytest.raises(ItemError, match="must be an object, got"):
        read_item(raw)


def test_long_values_are_cut_in_messages():
    """A message repeats at most 60 characters of a value."""
    assert len(refused(status="9" * 10_000)) < 120


FIELDS = st.sampled_from(
    ["pick_id", "pool", "target", "event", "status", "ttft_seconds", "duration_seconds", "stream",
     "prompt_tokens", "output_tokens", "headers", "error_body", "termination", "stream_error",
     "waiting", "kv_cache", "gateway_status", "finish_reason"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(FIELDS, VALUES))
def test_any_item_is_read_or_refused(raw):
    """Nothing but an ItemError is ever raised; a TTFT that is taken is one."""
    try:
        item = read_item(raw)
    except ItemError:
        return
    assert json.dumps(item.attempts)
    assert item.ttft is None or 0.001 <= item.ttft <= 86_400


USUAL = st.fixed_dictionaries(
    {"pick_id": st.sampled_from(["1k", "", None])},
    optional={
        "target": st.sampled_from([TARGET, "-", "", "a:1, b:1", None]),
        "status": st.sampled_from([200, 503, "200", "503, 200", 0, None, "x"]),
        "pool": st.sampled_from(["chat", "-", 1]),
        "ttft_seconds": st.sampled_from([0.3, 0, "0.2", None, -1]),
        "duration_seconds": st.sampled_from([1.5, "1, 2", None]),
        "prompt_tokens": st.sampled_from([10, "10", 1.5]),
        "stream": st.sampled_from([True, False, "true"]),
    },
)


@given(USUAL, st.booleans())
def test_report_without_unusual_fields_is_read_as_with_them_empty(raw, logged):
    """The short way of reading comes to the same item, or to the same mistake."""

    def outcome(item):
        try:
            return read_item(item, logged=logged)
        except ItemError as error:
            return str(error)

    assert outcome(raw) == outcome({**raw, "termination": ""})
