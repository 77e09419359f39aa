"""``/pick``: what each form of the answer says."""

import dataclasses

import pytest
from structlog.testing import capture_logs

from scorer.http.pick import PickEndpoint
from scorer.pick_stats import PickFailure
from tests.http.builders import chat, pool, ports, snapshot, target, unscored
from tests.http.harness import drive, http_scope

VND = (b"accept", b"application/vnd.scorer.headers")


class First:
    """Dice that always show the lowest number."""

    def random(self):
        return 0.0


def pick(*pools, query=b"", path="/pick", method="GET", headers=(), **changes):
    """Return the answer to one pick from ``pools``."""
    endpoint = PickEndpoint(ports(*pools, **changes))
    return drive(endpoint, http_scope(path, query, method, headers))


def test_default_is_compact_json():
    """Without a format the answer is JSON with every documented key, and no blanks."""
    answer = pick(chat(2), dice=First())
    pick_id = answer.json["pick_id"]
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.body == (
        b'{"target":"10.0.0.1:8000","url":"http://10.0.0.1:8000",'
        b'"alternates":["10.0.0.2:8000"],"pick_id":"' + pick_id.encode() + b'",'
        b'"score":87.5,"pool":"chat","panic":false}'
    )


def test_content_length_is_that_of_the_body():
    """The length is announced, so that a connection can be kept."""
    answer = pick(chat(2))
    assert answer.headers["content-length"] == str(len(answer.body))


@pytest.mark.parametrize(
    ("query", "headers"),
    [(b"format=headers", ()), (b"", [VND]), (b"", [(b"x-scorer-format", b"headers")])],
)
def test_headers_form_has_no_body(query, headers):
    """``format=headers``, the media type and the header all give 204 with nothing but headers."""
    answer = pick(chat(2), query=query, headers=headers, dice=First())
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers == {
        "x-scorer-target": "10.0.0.1:8000",
        "x-scorer-alternates": "10.0.0.2:8000",
        "x-scorer-endpoints": "10.0.0.1:8000,10.0.0.2:8000",
        "x-scorer-pick-id": answer.headers["x-scorer-pick-id"],
        "x-scorer-score": "87.5",
        "x-scorer-panic": "0",
    }


@pytest.mark.parametrize(
    ("query", "headers"), [(b"format=text", ()), (b"", [(b"accept", b"text/plain")])]
)
def test_text_form_is_the_target_alone(query, headers):
    """The text form is the target's address and not a byte more."""
    answer = pick(chat(2), query=query, headers=headers, dice=First())
    assert (answer.status, answer.body) == (200, b"10.0.0.1:8000")
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("query", [b"", b"format=text"])
def test_a_200_carries_the_headers_too(query):
    """Who reads only headers, such as Envoy, gets everything from a 200 as well."""
    answer = pick(chat(2), query=query, dice=First())
    assert answer.headers["x-scorer-endpoints"] == "10.0.0.1:8000,10.0.0.2:8000"


def test_accept_takes_the_preferred_form():
    """Of several acceptable forms the one with the highest quality wins."""
    accept = (b"accept", b"text/plain;q=0.5, application/vnd.scorer.headers;q=0.9, */*;q=0.1")
    assert pick(chat(2), headers=[accept]).status == 204


def test_browser_gets_json():
    """An Accept header that names no form of ours falls to JSON."""
    accept = (b"accept", b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
    assert pick(chat(2), headers=[accept]).headers["content-type"] == "application/json"


def test_format_wins_over_accept():
    """A proxy's own ``format=`` is not undone by its client's Accept header."""
    answer = pick(chat(2), query=b"format=headers", headers=[(b"accept", b"text/plain")])
    assert answer.status == 204


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
def test_any_method_picks(method):
    """ext_authz repeats the method of the request it asks for."""
    assert pick(chat(2), method=method, path="/pick/v1/chat/completions").status == 200


def test_head_gets_the_headers_only():
    """HEAD picks, and answers with the headers a GET would have."""
    answer = pick(chat(2), method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


def test_single_target_has_no_alternate():
    """A pool of one has nobody to name second; the list is empty, the header absent."""
    answer = pick(pool(target("10.0.0.1:8000")))
    assert answer.json["alternates"] == []
    assert "x-scorer-alternates" not in answer.headers
    assert answer.headers["x-scorer-endpoints"] == "10.0.0.1:8000"


def test_score_is_null_before_the_first_judgement():
    """A score that is not known is null, never 0."""
    answer = pick(pool(unscored("10.0.0.1:8000")))
    assert answer.json["score"] is None
    assert "x-scorer-score" not in answer.headers


def test_score_has_two_decimals():
    """A score is rounded to what anybody can use."""
    assert pick(pool(target(score=87.45678))).json["score"] == 87.46


def test_panic_is_marked():
    """A pick from a pool in panic says so in body and header."""
    answer = pick(pool(target(), panic=True))
    assert answer.json["panic"] is True
    assert answer.headers["x-scorer-panic"] == "1"


def test_ipv6_target():
    """An IPv6 target keeps its brackets."""
    answer = pick(pool(target("[::1]:8000")))
    assert answer.json["target"] == "[::1]:8000"
    assert answer.json["url"] == "http://[::1]:8000"


def test_strange_pool_name_is_escaped():
    """A quote in a name cannot break the JSON."""
    assert pick(pool(target(pool='a"\\b'), name='a"\\b')).json["pool"] == 'a"\\b'


def test_excluded_target_is_not_picked():
    """``exclude`` leaves the targets already tried out."""
    names = {
        pick(chat(3), query=b"exclude=10.0.0.1:8000,10.0.0.2:8000").json["target"]
        for _ in range(10)
    }
    assert names == {"10.0.0.3:8000"}


def test_unknown_excluded_target_is_ignored():
    """A target that is not in the pool excludes nothing."""
    assert pick(chat(1), query=b"exclude=10.9.9.9:8000,,%20").status == 200


def test_all_excluded_is_503():
    """When every target was tried the answer says when to ask again."""
    answer = pick(chat(1), query=b"exclude=10.0.0.1:8000")
    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json == {
        "status": "error",
        "errorType": "no_target",
        "error": "pool chat: every target is excluded or draining",
    }


def test_empty_pool_is_503():
    """A pool without a target is not a pool that does not exist."""
    answer = pick(pool())
    assert (answer.status, answer.json["error"]) == (503, "pool chat: the pool has no target")


def test_before_the_first_snapshot_is_503():
    """A daemon that has judged nothing yet asks to come back."""
    assert pick().status == 503


def test_pick_is_counted_for_the_target():
    """A pick counts at once, before any scrape can see it."""
    given = ports(pool(target("10.0.0.1:8000")))
    drive(PickEndpoint(given), http_scope("/pick"))
    assert given.inflight.count("chat", "10.0.0.1:8000") == 1


def test_pick_ids_are_short_and_unique():
    """A thousand picks of two daemons share no id, and none is over 32 bytes."""
    ids = set()
    for endpoint in (PickEndpoint(ports(chat(2))), PickEndpoint(ports(chat(2)))):
        answers = (drive(endpoint, http_scope("/pick")) for _ in range(500))
        ids.update(answer.json["pick_id"] for answer in answers)
    assert len(ids) == 1000
    assert max(map(len, ids)) <= 32


def test_request_is_counted_by_pool():
    """Every request has one duration under its pool."""
    given = ports(chat(2))
    drive(PickEndpoint(given), http_scope("/pick"))
    assert given.stats.read("chat").requests == 1


def test_failure_is_counted_by_reason():
    """A refusal counts under its pool and reason."""
    given = ports(pool())
    drive(PickEndpoint(given), http_scope("/pick"))
    assert given.stats.read("chat").failures[PickFailure.NO_TARGET] == 1


def test_unknown_pool_makes_no_label():
    """A made-up pool counts under the empty name."""
    given = ports(chat(2))
    drive(PickEndpoint(given), http_scope("/pick", b"pool=made-up"))
    assert given.stats.read("").failures[PickFailure.UNKNOWN_POOL] == 1
    assert given.stats.read("made-up").requests == 0


def broken():
    raise RuntimeError("boom")


def test_fault_inside_is_an_answer():
    """An exception of our own is a JSON 500 and a count, not a dead connection."""
    given = ports(snapshot=broken)
    with capture_logs():
        answer = drive(PickEndpoint(given), http_scope("/pick"))
    assert (answer.status, answer.json["errorType"]) == (500, "internal")
    assert given.stats.read("").failures[PickFailure.INTERNAL] == 1


def test_faults_are_logged_once_per_interval():
    """A fault that every request meets does not fill the log."""
    endpoint = PickEndpoint(ports(snapshot=broken))
    with capture_logs() as logs:
        for _ in range(3):
            drive(endpoint, http_scope("/pick"))
    assert [line["event"] for line in logs] == ["Pick failed"]


def test_new_snapshot_is_seen_by_the_next_pick():
    """Nothing of an old snapshot is remembered in an answer."""
    first, second = snapshot(pool(target(score=10.0))), snapshot(pool(target(score=20.0)))
    current = [first]
    endpoint = PickEndpoint(ports(snapshot=lambda: current[0]))
    before = drive(endpoint, http_scope("/pick")).json["score"]
    current[0] = second
    assert (before, drive(endpoint, http_scope("/pick")).json["score"]) == (10.0, 20.0)


def test_url_follows_the_snapshot():
    """A target whose URL changes keeps no old one."""
    view = target("10.0.0.1:8000")
    current = [snapshot(pool(view))]
    endpoint = PickEndpoint(ports(snapshot=lambda: current[0]))
    drive(endpoint, http_scope("/pick"))
    current[0] = snapshot(pool(dataclasses.replace(view, url="https://10.0.0.1:8000")))
    assert drive(endpoint, http_scope("/pick")).json["url"] == "https://10.0.0.1:8000"
