"""The health endpoints, and who answers which path."""

import pytest

from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.pick import PickEndpoint
from tests.http.builders import chat, ports
from tests.http.harness import call


def request(path, method="GET", query=b"", **changes):
    """Return the reply of the whole application."""
    given = ports(chat(2), **changes)
    return call(build_asgi(given, create_flask(given), PickEndpoint(given)), path, query, method)


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
