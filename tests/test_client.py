"""Commands that ask a running daemon: what they send, what they print, how they fail."""

import json
from http.client import RemoteDisconnected
from pathlib import Path

import pytest
import requests
import responses
from click.testing import CliRunner, Result
from responses import matchers
from urllib3.exceptions import ProtocolError

from scorer.cli import main
from scorer.core.vocabulary import Reason, Verb

URL = "http://127.0.0.1:9808"
A = "10.0.0.1:8000"
DRAINED = {
    "target": A, "pool": "chat", "state": "draining", "state_reason": "manual",
    "until": "2030-03-17T17:56:43.000Z",
}  # fmt: skip


def scorer(*arguments: str, **environment: str) -> Result:
    """Return the result of a command."""
    return CliRunner().invoke(main, arguments, env=environment)


def answers(path: str, data: object = (DRAINED,), *, url: str = URL, **wanted: object) -> None:
    """Have the API answer a POST, when it is as ``wanted``."""
    matching = [getattr(matchers, name)(value) for name, value in wanted.items()]
    body = {"status": "success", "data": data}
    responses.post(f"{url}/api/v1/targets/{path}", json=body, match=matching)


@responses.activate
def test_drain_sends_what_was_said() -> None:
    """Duration and reason in the body, the pool in the query."""
    answers(
        f"{A}/drain",
        json_params_matcher={"duration": "10m", "reason": "upgrade"},
        query_param_matcher={"pool": "chat"},
    )
    done = scorer("drain", A, "--duration", "10m", "--reason", "upgrade", "--pool", "chat")
    assert (done.exit_code, done.output) == (
        0,
        f"{A} of pool chat: draining (by an operator), drained until 2030-03-17T17:56:43.000Z\n",
    )


@responses.activate
@pytest.mark.parametrize("verb", Verb)
def test_nothing_said_is_an_empty_body(verb: Verb) -> None:
    """Each verb is a command of its name."""
    answers(f"{A}/{verb}", json_params_matcher={}, query_param_matcher={})
    assert scorer(verb, A).exit_code == 0


@responses.activate
def test_healthy_target_has_no_reason() -> None:
    """One line per pool, nothing in brackets."""
    shown = {**DRAINED, "state": "healthy", "state_reason": "none", "until": None}
    answers(f"{A}/undrain", [shown, {**shown, "pool": "code"}])
    assert scorer("undrain", A).output == f"{A} of pool chat: healthy\n{A} of pool code: healthy\n"


@responses.activate
def test_json_is_the_data_of_the_answer() -> None:
    """For scripts."""
    answers(f"{A}/drain")
    assert json.loads(scorer("drain", A, "-o", "json").output) == [DRAINED]


@responses.activate
@pytest.mark.parametrize(
    ("target", "path"),
    [("[::1]:8000", "%5B::1%5D:8000"), ("a:1/eu west?", "a:1/eu%20west%3F")],
)
def test_target_is_escaped(target: str, path: str) -> None:
    """A name with brackets or a path is one target."""
    answers(f"{path}/drain")
    assert scorer("drain", target).exit_code == 0


@responses.activate
def test_url_and_token_file_come_from_the_environment(tmp_path: Path) -> None:
    """As for other commands; the token is sent without its line feed."""
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    answers(f"{A}/drain", url="http://scorer:1", header_matcher={"Authorization": "Bearer s3cret"})
    found = scorer("drain", A, SCORER_URL="http://scorer:1/", SCORER_TOKEN_FILE=str(path))
    assert found.exit_code == 0


@responses.activate
def test_refusal_is_one_line() -> None:
    """What the daemon says of it."""
    error = {"status": "error", "errorType": "not_found", "error": "target: no\nsuch target"}
    responses.post(f"{URL}/api/v1/targets/{A}/drain", json=error, status=404)
    done = scorer("drain", A)
    assert (done.exit_code, done.output) == (1, "scorer: target: no such target\n")


@responses.activate
@pytest.mark.parametrize(
    "body", ["<html>", "[]", "null", '{"status":"success"}', '{"error":1}', '{"status":"x"}']
)
@pytest.mark.parametrize("status", [200, 302, 502])
def test_answer_of_something_else(body: str, status: int) -> None:
    """Whatever listens there, it is no traceback."""
    url = f"{URL}/api/v1/targets/{A}/drain"
    responses.post(url, body=body, status=status, headers={"Location": "http://evil.example/"})
    done = scorer("drain", A)
    assert done.exit_code == 1
    assert done.output.startswith("scorer: ")
    assert done.output.count("\n") == 1


WANTED = "the URL must be one such as http://127.0.0.1:9808 or unix:/path"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:1", "connection refused by 127.0.0.1:1: nothing listens there"),
        ("127.0.0.1:1", f"{WANTED}, got 127.0.0.1:1"),
        ("ftp://u:pw@a", f"{WANTED}, got a"),
        ("http://[", f"{WANTED}, got http://["),
    ],
)
def test_daemon_that_cannot_be_asked(url: str, message: str) -> None:
    """One line that names what is wrong."""
    done = scorer("drain", A, "--url", url)
    assert (done.exit_code, done.output) == (1, f"scorer: {message}\n")


@responses.activate
@pytest.mark.parametrize(
    ("scheme", "hint"),
    [("http", "; where TLS is wanted the URL begins with https://"), ("https", "")],
)
def test_connection_that_is_closed_may_want_tls(scheme: str, hint: str) -> None:
    """That is all that a listener with TLS does about a request without."""
    url = f"{scheme}://scorer:1"
    closed = RemoteDisconnected("Remote end closed connection without response")
    answer = requests.ConnectionError(ProtocolError("Connection aborted.", closed))
    responses.post(f"{url}/api/v1/targets/{A}/drain", body=answer)
    done = scorer("drain", A, "--url", url)
    assert done.output == f"scorer: no answer from scorer:1: closed without an answer{hint}\n"


@responses.activate
def test_password_in_a_url_is_not_shown() -> None:
    """Neither when nobody answers."""
    responses.post(
        f"http://u:s3cret@scorer:1/api/v1/targets/{A}/drain", body=requests.ConnectionError("no")
    )
    assert "s3cret" not in scorer("drain", A, "--url", "http://u:s3cret@scorer:1").output


@pytest.mark.parametrize("content", [None, b"", b" \n", b"s3cret\nmore", b"s3cret\x00"])
def test_token_that_cannot_be_sent(tmp_path: Path, content: bytes | None) -> None:
    """Said without the token, and without asking anybody."""
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    done = scorer("drain", A, "--token-file", str(path))
    assert done.exit_code == 1
    assert done.output.startswith(f"scorer: {path}: ")
    assert "s3cret" not in done.output


@responses.activate
def test_every_reason_can_be_printed() -> None:
    """The words are those of the status page."""
    for reason in Reason:
        answers(f"{A}/undrain", [{**DRAINED, "state_reason": reason, "until": None}])
        assert scorer("undrain", A).exit_code == 0
