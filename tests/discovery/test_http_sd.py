"""Targets that a real HTTP server lists: what is good, what is refused, what is sent."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scorer.config.discovery import HttpSdConfig
from scorer.sources.discovery.answers import Failure, LabelSets
from scorer.sources.discovery.http_sd import HttpSd
from tests.discovery.conftest import Authority, Server

Serve = Callable[..., Server]


@pytest.fixture
def ask() -> Iterator[Callable[..., LabelSets | Failure]]:
    """Return a function that asks a server once, and closes what it opened."""
    opened: list[HttpSd] = []

    def ask(server: Server, **config: Any) -> LabelSets | Failure:
        opened.append(HttpSd(HttpSdConfig.model_validate({"url": server.url, **config})))
        [answer] = opened[-1].ask().values()
        return answer

    yield ask
    for each in opened:
        each.close()


Ask = Callable[..., LabelSets | Failure]


def reason(answer: LabelSets | Failure) -> str:
    assert isinstance(answer, Failure)
    return answer.reason


def test_targets_of_a_server(serve: Serve, ask: Ask) -> None:
    """Each target is a label set, with the URL that it came from."""
    server = serve()
    server.body = [{"targets": ["a:1", "b:1"], "labels": {"zone": "a"}}]
    assert ask(server) == (
        {"__address__": "a:1", "zone": "a", "__meta_url": server.url},
        {"__address__": "b:1", "zone": "a", "__meta_url": server.url},
    )


def test_request_is_that_of_prometheus(serve: Serve, ask: Ask) -> None:
    """JSON is asked for, and the server learns how often it will be asked."""
    server = serve()
    server.lists()
    ask(server, refresh_interval="1m30s")
    [(path, headers)] = server.requests
    assert (path, headers["Accept"]) == ("/targets", "application/json")
    assert headers["X-Prometheus-Refresh-Interval-Seconds"] == "90"
    assert headers["User-Agent"].startswith("scorer/")


def test_empty_list_is_an_answer(serve: Serve, ask: Ask) -> None:
    """A server that lists nothing is believed."""
    server = serve()
    server.body = []
    assert ask(server) == ()


@pytest.mark.parametrize(
    ("status", "kind", "body", "problem"),
    [
        (200, "application/json; charset=utf-8", b"[{", "is not valid JSON"),
        (200, "application/json", b"{}", "must be a list of target groups"),
        (200, "application/json", b"", "empty: "),
        (200, "text/html", b"<html>Login</html>", "wrong_content: an HTML page"),
        (200, "application/json", b"<html>Login</html>", "wrong_content: an HTML page"),
        (200, "text/plain", b"[]", "content type must be application/json, got text/plain"),
        (204, "application/json", b"", "http_status: status 204"),
        (401, "application/json", b"[]", "auth: status 401"),
        (404, "application/json", b"[]", "http_status: status 404"),
        (500, "application/json", b"[]", "http_status: status 500"),
    ],
)
def test_answer_that_is_no_list_is_refused(
    serve: Serve, ask: Ask, status: int, kind: str, body: bytes, problem: str
) -> None:
    """Error pages, login pages and broken documents are failures, whatever they contain."""
    server = serve()
    server.status, server.body, server.headers = status, body, {"Content-Type": kind}
    assert problem in reason(ask(server))


def test_server_that_is_down_is_a_failure(serve: Serve, ask: Ask) -> None:
    """A refused connection is told as one."""
    server = serve()
    server.close()
    assert reason(ask(server)).startswith("connect: connection refused by 127.0.0.1")


def test_server_that_hangs_is_given_up(serve: Serve, ask: Ask) -> None:
    """An answer must come before the next one is asked for."""
    server = serve()
    server.answer = lambda handler: handler.connection.recv(1) and None
    assert reason(ask(server, refresh_interval="1s")).endswith("within 0.8s")


def test_authorization_and_tls(
    serve: Serve, ask: Ask, authority: Authority, tmp_path: Path
) -> None:
    """The keys are those of a scrape."""
    server = serve(authority.server("sd.test"))
    server.lists("a:1")
    (tmp_path / "token").write_text("s3cret")
    answer = ask(
        server,
        authorization={"credentials_file": str(tmp_path / "token")},
        tls_config={"ca_file": str(authority.file), "server_name": "sd.test"},
    )
    assert answer != ()
    assert server.requests[-1][1]["Authorization"] == "Bearer s3cret"


def test_failed_server_is_asked_again_within_seconds() -> None:
    """Sooner than its interval, unless that is short already."""
    often = HttpSd(HttpSdConfig.model_validate({"url": "http://sd:1", "refresh_interval": "2s"}))
    seldom = HttpSd(HttpSdConfig.model_validate({"url": "http://sd:1"}))
    assert (often.interval, often.retry) == (2.0, 2.0)
    assert (seldom.interval, seldom.retry) == (60.0, 10.0)
