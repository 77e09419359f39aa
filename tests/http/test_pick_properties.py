"""``/pick``: no request makes it anything but an answer."""

import json

from hypothesis import given
from hypothesis import strategies as st

from scorer.http.pick import PickEndpoint
from tests.http.builders import chat, pool, ports, target, unscored
from tests.http.harness import drive, http_scope

STATUSES = {200, 204, 400, 404, 503}
NAMES = (
    "model", "pool", "prompt_tokens", "prompt_bytes", "exclude", "key", "lora", "format", "other",
)  # fmt: skip
VALUES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"chat", b"embed", b"headers", b"text", b"12", b"-1", b"%", b"%zz", b"%00",
                     b"10.0.0.1:8000,10.0.0.2:8000,10.0.0.3:8000", b"[::1]:8000", b"*"]),
)  # fmt: skip
QUERIES = st.one_of(
    st.binary(max_size=200),
    st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=6).map(
        lambda pairs: b"&".join(name.encode() + b"=" + value for name, value in pairs)
    ),
)
HEADERS = st.lists(
    st.tuples(
        st.one_of(
            st.sampled_from(
                [b"accept", *(b"x-scorer-" + name.replace("_", "-").encode() for name in NAMES)]
            ),
            st.binary(max_size=20),
        ),
        VALUES,
    ),
    max_size=6,
)
PATHS = st.one_of(st.just("/pick"), st.text(max_size=20).map("/pick/".__add__))
METHODS = st.sampled_from(["GET", "HEAD", "POST", "OPTIONS", "TRACE"])
POOLS = st.sampled_from(
    [
        (chat(3),),
        (),
        (pool(),),
        (chat(2), pool(unscored(pool="embed"), name="embed", models=("llama*", "[a-"))),
        (pool(target("[::1]:8000")),),
    ]
)


@given(POOLS, PATHS, QUERIES, METHODS, HEADERS)
def test_every_request_has_one_of_the_documented_answers(pools, path, query, method, headers):
    """Whatever the bytes, the answer is 200, 204, 400, 404 or 503, and its JSON is JSON."""
    answer = drive(PickEndpoint(ports(*pools)), http_scope(path, query, method, headers))
    assert answer.status in STATUSES
    if answer.headers.get("content-type") == "application/json" and method != "HEAD":
        json.loads(answer.body)


@given(QUERIES, HEADERS)
def test_headers_of_an_answer_are_one_line_each(query, headers):
    """No request puts a control character into a header of its answer."""
    endpoint = PickEndpoint(ports(chat(3)))
    answer = drive(endpoint, http_scope("/pick", query, headers=headers))
    text = "".join(f"{name}{value}" for name, value in answer.headers.items())
    assert text.isprintable()
