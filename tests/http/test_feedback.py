"""``POST /feedback``: what is accepted, what is refused, and what hostile bodies do."""

import asyncio
import json

import pytest
from flask import Flask

from scorer.feedback.stats import Rejection
from scorer.http.asgi import build_asgi
from scorer.http.feedback import BODY_LIMIT, MOST_ITEMS, FeedbackEndpoint, decode
from scorer.http.pick import PickEndpoint
from tests.feedback.world import A, B, World
from tests.http.builders import ports
from tests.http.harness import call, http_scope, reply

PEER = ("127.0.0.1", 50_000)
OK = {"target": A, "status": 200}


@pytest.fixture
def world():
    """Return pools with targets and nothing going on."""
    return World()


def post(world, body, query=b"", method="POST", headers=(), peer=PEER, pieces=1):
    """Return the reply to one request, whose body arrives in ``pieces``."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    step = max(1, -(-len(data) // pieces))
    parts = [data[at : at + step] for at in range(0, len(data), step)] or [b""]
    return deliver(world, parts, query=query, method=method, headers=headers, peer=peer)


def deliver(world, parts, query=b"", method="POST", headers=(), peer=PEER):
    """Return the reply to a request with these body parts, None when there is none."""
    scope = {**http_scope("/feedback", query, method, headers), "client": peer}
    waiting = [
        {"type": "http.request", "body": part, "more_body": number < len(parts)}
        if part is not None
        else {"type": "http.disconnect"}
        for number, part in enumerate(parts, 1)
    ]
    sent = []

    async def receive():
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(FeedbackEndpoint(world.feedback, lambda: world.now)(scope, receive, send))
    return reply(sent) if sent else None


def test_one_item_is_accepted(world):
    """202, and what became of it."""
    answer = post(world, OK)
    assert (answer.status, answer.json) == (202, {"accepted": 1, "rejected": []})
    assert answer.headers["content-type"] == "application/json"
    assert len(world.outcomes()) == 1


def test_good_items_of_an_array_are_applied(world):
    """The bad ones are listed with their place and the reason."""
    answer = post(world, [OK, {"target": "x:1"}, {**OK, "status": "ok"}, OK])
    assert answer.status == 202
    assert answer.json == {
        "accepted": 2,
        "rejected": [
            {"index": 1, "error": "target: must be a known target, got x:1"},
            {"index": 2, "error": "status: must be a number, got ok"},
        ],
    }
    assert len(world.outcomes()) == 2


def test_strangers_among_attempts_are_named(world):
    """The known ones are applied, by one item and by an array alike."""
    item = {"target": f"{A}, x:1", "status": "502, 200"}
    problem = "target: must be a known target, got x:1"
    for body, index in ((item, 0), ([OK, item], 1)):
        assert post(world, body).json == {
            "accepted": index + 1,
            "rejected": [],
            "skipped": [{"index": index, "error": problem}],
        }
    answer = post(world, item, b"explain=1&dry_run=1").json
    assert [each["target"] for each in answer["outcomes"]] == [A]
    assert answer["skipped"] == [{"index": 0, "error": problem}]
    assert len(world.outcomes()) == 3


def test_long_array_is_applied_whole(world):
    """Others get their turn in between."""
    assert post(world, [OK] * 1000).json["accepted"] == 1000


def test_explain_says_what_was_decided(world):
    """Class and rule of each outcome, for one item and for an array."""
    told = {"index": 0, "target": A, "class": "success", "reason": "success"}
    assert post(world, OK, b"explain=1").json["outcomes"] == [told]
    assert post(world, [OK, {**OK, "status": 404}], b"explain=1").json["outcomes"] == [
        told,
        {"index": 1, "target": A, "class": "client_error", "reason": "client_error"},
    ]


def test_dry_run_applies_nothing(world):
    """It answers as if it had."""
    answer = post(world, {"target": A, "status": 529}, b"explain=1&dry_run=1")
    assert answer.json["outcomes"][0]["class"] == "engine_saturated"
    assert world.outcomes() == []


@pytest.mark.parametrize("body", ["status=200", OK])
def test_content_type_does_not_matter(world, body):
    """What counts is the body."""
    text = (b"content-type", b"text/plain")
    form = (b"content-type", b"application/x-www-form-urlencoded")
    statuses = {post(world, body, headers=[each]).status for each in (text, form)}
    assert statuses == {202 if body is OK else 400}


@pytest.mark.parametrize(
    ("item", "status", "kind"),
    [
        ({"target": "x:1"}, 404, "not_found"),
        ({"target": A, "pool": "none"}, 404, "not_found"),
        ({"target": A, "status": True}, 400, "bad_data"),
        ({}, 400, "bad_data"),
    ],
)
def test_item_that_cannot_be_used(world, item, status, kind):
    """The status says why, the error names field, rule and value."""
    answer = post(world, item)
    assert (answer.status, answer.json["errorType"]) == (status, kind)
    assert answer.json["status"] == "error"


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "body",
    [
        b"", b"not json", b"{", b'"text"', b"5", b"null", b"[]", b'{"a":NaN}', b'{"a":Infinity}',
        b'{"a":-Infinity}', b'{"a":1}x', b"\xff\xfe", b"[" * BODY_LIMIT, b'{"a":' * 100_000,
        b"[" * 500_000 + b"]" * 500_000, b'{"target":' + b"9" * 100_000 + b"}",
        b"{\x00}", b"[1,2", b"\x00" * 1000,
    ],
    ids=lambda body: repr(body[:12]),
)  # fmt: skip
def test_body_that_is_no_feedback(world, body):
    """400 with a JSON reason, never 500."""
    answer = post(world, body)
    assert answer.status == 400
    assert answer.json["error"]
    assert world.outcomes() == []
    assert world.stats.rejected()[Rejection.MALFORMED] == 1


def test_array_of_nothing_good_is_still_an_answer(world):
    """Each entry is told what is wrong with it."""
    answer = post(world, [[], None, 5, "x", {"target": [[]]}])
    assert (answer.status, answer.json["accepted"]) == (202, 0)
    assert [each["index"] for each in answer.json["rejected"]] == [0, 1, 2, 3, 4]


def test_array_may_not_be_endless(world):
    """Ten thousand items fit into a body; more are refused before any is applied."""
    assert post(world, b"[" + b"0," * MOST_ITEMS + b"0]").status == 400
    assert world.stats.rejected()[Rejection.MALFORMED] == 1


def test_duplicate_keys_take_the_last(world):
    """As every JSON reader does."""
    assert post(world, b'{"target":"%s","status":200,"status":404}' % A.encode()).status == 202
    assert world.outcomes()[0][1].outcome == "client_error"


def test_error_body_cut_in_a_character_is_taken(world):
    """A gateway cuts bytes, not characters."""
    body = b'{"target":"%s","status":503,"error_body":"queue is full \xe5\xbf"}' % A.encode()
    assert post(world, body).status == 202
    assert world.outcomes()[0][1].outcome == "engine_saturated"


def test_surrogates_are_taken_and_answered(world):
    """Half a pair is no text, and no reason to fail."""
    assert post(world, b'{"target":"%s","error_body":"\\ud800"}' % A.encode()).status == 202
    assert post(world, b'{"target":"\\ud800:1"}').status == 404


def test_byte_order_mark_is_skipped(world):
    """Some clients send one."""
    assert post(world, b"\xef\xbb\xbf" + json.dumps(OK).encode()).status == 202


def test_body_in_pieces_is_one_body(world):
    """However the network cut it."""
    assert post(world, [OK] * 50, pieces=7).json["accepted"] == 50


def test_too_large_body_is_refused_early(world):
    """By its announced length, before the rest is read."""
    announced = [(b"content-length", b"10000000")]
    answer = deliver(world, [b"{", b"never read"], headers=announced)
    assert (answer.status, answer.json["errorType"]) == (413, "too_large")
    assert world.stats.rejected()[Rejection.TOO_LARGE] == 1


@pytest.mark.parametrize("pieces", [1, 16])
def test_too_large_body_is_refused_without_a_length(world, pieces):
    """As soon as it passes the limit."""
    assert post(world, b" " * (BODY_LIMIT + 1), pieces=pieces).status == 413


def test_largest_body_is_taken(world):
    """One MiB is allowed."""
    item = json.dumps(OK).encode()
    assert post(world, item + b" " * (BODY_LIMIT - len(item))).status == 202


@pytest.mark.parametrize("parts", [[None], [b'{"target"', None]])
def test_client_that_leaves_gets_no_answer(world, parts):
    """And nothing is counted against it."""
    assert deliver(world, parts) is None
    assert not any(world.stats.rejected().values())


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(world, method):
    """With the one that is allowed."""
    answer = post(world, OK, method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert (answer.body == b"") == (method == "HEAD")


def test_strangers_are_refused_without_a_token(world):
    """Their body is not looked at."""
    answer = deliver(world, [], peer=("8.8.8.8", 1))
    assert (answer.status, answer.json["errorType"]) == (403, "forbidden")
    assert world.stats.rejected()[Rejection.UNAUTHORIZED] == 1


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        (b"Bearer s3cret", 202),
        (b"bearer  s3cret ", 202),
        (b"Bearer other", 401),
        (b"Basic s3cret", 401),
        (b"Bearer \xff", 401),
        (b"s3cret", 401),
    ],
)
def test_token_is_a_bearer_token(tmp_path, header, status):
    """From anywhere, in the Authorization header."""
    (tmp_path / "token").write_text("s3cret")
    world = World("{token_file: token}", str(tmp_path))
    headers = [(b"authorization", header)] if header else []
    answer = post(world, OK, headers=headers, peer=("8.8.8.8", 1))
    assert answer.status == status
    assert ("www-authenticate" in answer.headers) == (status == 401)


def test_fault_of_our_own_is_an_answer(world):
    """500, and the reason in the log."""
    world.feedback.take = None
    assert post(world, OK).status == 500


def test_endpoint_is_part_of_the_interface(world):
    """The path is /feedback, answered on the event loop."""
    given = ports(feedback=world.feedback)
    app = build_asgi(given, Flask("pages"), PickEndpoint(given))
    answer = call(app, "/feedback", method="GET")
    assert (answer.status, answer.json["errorType"]) == (405, "method_not_allowed")


def test_decode_reads_what_json_is():
    """And nothing that Python alone takes for JSON."""
    assert decode(b'{"a": [1, null, "x"]}') == {"a": [1, None, "x"]}
    with pytest.raises(ValueError, match="NaN is no number"):
        decode(b"[NaN]")


def test_second_target_is_not_touched(world):
    """An outcome is about its own target."""
    post(world, {"target": A, "status": 502})
    assert not any(world.stats.outcomes("chat", B).values())
