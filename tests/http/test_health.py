"""The health endpoints, and who answers which path."""

import asyncio

import pytest

from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.bodies import BODY_LIMIT
from scorer.http.pick import PickEndpoint
from tests.http.builders import chat, ports
from tests.http.harness import call, http_scope


def interface(**changes):
    """Return the whole application."""
    given = ports(chat(2), **changes)
    return build_asgi(given, create_flask(given), PickEndpoint(given))


def request(path, method="GET", query=b"", headers=(), **changes):
    """Return the reply of the whole application."""
    return call(interface(**changes), path, query, method, headers)


def test_healthy_while_the_loop_runs():
    """Liveness is that the loop answers at all."""
    assert request("/-/healthy").status == 200


def test_unhealthy_says_why():
    """Scoring that is stuck fails liveness, so that the daemon is started again."""
    answer = request("/-/healthy", alive=lambda: "scoring is stuck.")
    assert (answer.status, answer.body) == (503, b"scoring is stuck.\n")


def test_ready():
    """A daemon without a reason to wait is ready."""
    assert request("/-/ready").status == 200


def test_not_ready_says_why():
    """A daemon that is not ready answers 503 with the reason."""
    answer = request("/-/ready", ready=lambda: "pool chat has not been scored yet.")
    assert (answer.status, answer.body) == (503, b"pool chat has not been scored yet.\n")


@pytest.mark.parametrize("path", ["/-/healthy", "/-/ready"])
def test_head_has_no_body(path):
    """HEAD is answered like GET, without the body."""
    answer = request(path, "HEAD")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("path", ["/-/healthy", "/-/ready"])
def test_other_methods_are_refused(path):
    """Nothing can be posted to a health endpoint."""
    answer = request(path, "POST")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


def test_flask_answers_the_rest():
    """Any other path goes to Flask."""
    assert request("/api/v1/pools").json["status"] == "success"


@pytest.mark.parametrize("path", ["/pick/", "/pick/v1/chat/completions"])
def test_paths_below_pick_pick(path):
    """A path below /pick is a pick, whatever it is."""
    assert request(path, "POST").status == 200


def test_path_beside_pick_is_not_a_pick():
    """Only /pick itself and what is below it picks."""
    assert request("/picks").status == 404


def test_query_that_is_not_ascii_is_refused():
    """Bytes that no URL may hold are the client's fault, not an exception of ours."""
    assert request("/metrics", query=b"\xff\xfe").status == 400


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/healthy", "/api/v1/snapshot", "/feedback"])
def test_body_that_is_announced_as_too_large_is_refused(path):
    """On every path, before any of it is read."""
    answer = request(path, "POST", headers=[(b"content-length", b"%d" % (BODY_LIMIT + 1))])
    assert answer.status == 413
    assert b"the body must have at most 1048576 bytes" in answer.body


@pytest.mark.parametrize("path", ["/pick", "/pick/v1/chat/completions"])
def test_length_of_a_picks_body_does_not_matter(path):
    """It belongs to the request that is asked for, and is not read."""
    assert request(path, "POST", headers=[(b"content-length", b"99999999")]).status == 200


def exchange(path, pieces, send=None, headers=((b"transfer-encoding", b"chunked"),)):
    """Return what the application sends to a request whose body comes in pieces."""
    sent, coming = [], iter(pieces)

    async def receive():
        return next(coming, {"type": "http.disconnect"})

    async def keep(message):
        sent.append(message)

    asyncio.run(interface()(http_scope(path, b"", "POST", headers), receive, send or keep))
    return sent


def piece(size):
    """Return a piece of a body that goes on."""
    return {"type": "http.request", "body": bytes(size), "more_body": True}


def test_body_that_turns_out_too_large_is_refused():
    """Without an announcement, as soon as it is."""
    pieces = [piece(BODY_LIMIT // 2), piece(BODY_LIMIT // 2), piece(1), piece(1)]
    assert exchange("/metrics", pieces)[0]["status"] == 413


def test_client_that_leaves_in_its_body_is_no_failure():
    """Nobody is there to be answered."""
    assert exchange("/metrics", [piece(1)]) == []


def test_whole_body_reaches_the_page():
    """A body is read before it is handed on, and changes nothing."""
    last = {"type": "http.request", "body": b"x", "more_body": False}
    assert exchange("/metrics", [piece(1), last])[0]["status"] == 405


@pytest.mark.parametrize("path", ["/pick", "/feedback", "/-/healthy", "/metrics"])
@pytest.mark.parametrize("error", [RuntimeError("the handler is closed"), ConnectionResetError()])
def test_answer_that_cannot_be_sent_is_dropped(path, error):
    """The client is gone: nothing to tell, to anybody."""
    tried = []

    async def broken(message):
        tried.append(message)
        raise error

    exchange(path, [{"type": "http.request", "body": b"{}"}], broken, headers=())
    assert len(tried) == 1


def test_request_that_is_cancelled_ends_without_a_word():
    """The daemon stops, and the rest of a body will not come any more."""

    async def run():
        headers = [(b"content-length", b"5")]
        scope = http_scope("/metrics", b"", "POST", headers)
        task = asyncio.ensure_future(interface()(scope, asyncio.Event().wait, None))
        await asyncio.sleep(0)
        task.cancel()
        await task

    asyncio.run(asyncio.wait_for(run(), 10))
