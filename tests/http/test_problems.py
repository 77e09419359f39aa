"""Whatever is wrong with a request, on whatever path: the form, the words, what is allowed."""

import asyncio
import json

import pytest

from scorer.core.vocabulary import Verb
from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.guard import Guard
from scorer.http.pick import PickEndpoint
from scorer.http.problems import speaks_json, unknown_path, wrong_method
from tests.http.builders import chat, ports
from tests.http.harness import call, http_scope, reply

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
READ, POSTED = {"GET", "HEAD"}, {"POST"}
ON_THE_LOOP = {
    "/feedback": POSTED,
    "/api/v1/snapshot": READ,
    "/-/healthy": READ,
    "/-/ready": READ,
    "/-/reload": {"POST", "PUT"},
}
"""Paths that Flask does not answer, with the methods that they take."""
ORDER = "/api/v1/targets/10.0.0.1:8000/{}"


def interface(**changes):
    """Return Flask's part of the interface, and the whole of it."""
    given = ports(chat(2), **changes)
    flask = create_flask(given)
    return flask, build_asgi(given, flask, PickEndpoint(given))


FLASK, APP = interface()


def routes():
    """Return a path of every route, with the methods that it takes."""
    found = dict(ON_THE_LOOP)
    for rule in FLASK.url_map.iter_rules():
        path = rule.rule.replace("<path:target>", "10.0.0.1:8000").replace("<pool>", "chat")
        path = path.replace("<path:filename>", "status.css")
        found[path] = found.get(path, set()) | rule.methods - {"OPTIONS"}
    # A target whose path ends like an order could be read.
    return found | {ORDER.format(verb): POSTED | READ for verb in Verb}


ROUTES = routes()
WRONG = [
    (path, method) for path, taken in ROUTES.items() for method in METHODS if method not in taken
]


def check(answer, path, method):
    """Check that an error has the form of its path, and none that we have not chosen."""
    kind = "application/json" if speaks_json(path) else "text/plain; charset=utf-8"
    assert answer.headers["content-type"] == kind
    if method == "HEAD":
        assert answer.body == b""
        assert int(answer.headers["content-length"]) > 0
        return ""
    assert int(answer.headers["content-length"]) == len(answer.body)
    text = answer.body.decode()
    assert "<" not in text
    if speaks_json(path):
        shown = json.loads(text)
        assert set(shown) == {"status", "errorType", "error"}
        return shown["error"]
    assert text.count("\n") == 1
    return text.removesuffix("\n")


def test_every_route_is_looked_at():
    """The paths of the API and of the pages are among them: a map without them tests nothing."""
    assert {"/", "/metrics", "/api/v1/pools", "/v3/discovery:endpoints"} < set(ROUTES)
    assert {ORDER.format("drain"), "/api/v1/sd/chat", "/static/status.css"} < set(ROUTES)
    assert ("/metrics", "OPTIONS") in WRONG


@pytest.mark.parametrize(("path", "method"), WRONG)
def test_wrong_method_is_named_with_path_and_rule(path, method):
    """Every route, every method that it does not take, OPTIONS as any other."""
    answer = call(APP, path, method=method)
    assert answer.status == 405
    error = check(answer, path, method)
    allowed = set(answer.headers["allow"].split(", "))
    orders = {ORDER.format(verb) for verb in Verb}
    assert allowed == (POSTED if path in orders and method == "OPTIONS" else ROUTES[path])
    if error:
        assert error == wrong_method(path, method, allowed).message
        assert path in error
        assert method in error


@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_order_that_is_read_is_told_to_be_posted(verb, method):
    """There is no target whose path ends so."""
    path = ORDER.format(verb)
    answer = call(APP, path, method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    check(answer, path, method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "path",
    [
        "/nowhere", "/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v1/pools/",
        "//api/v1/pools", "//", "/api//v1/pools", "/api/v2/targets", "/picks", "/feedback/x",
        "/metrics/", "/-/", "/-/quit",
        "/static/nothing", "/static/../app.py", "/v3/", "/targets/", "/favicon.ico", "/<b>",
        "/api/v1/sd", "/api/v1/sd/", "/api/v1/sd/a/b", "/API/V1/pools",
    ],
)  # fmt: skip
def test_unknown_path_is_named(path, method):
    """By any method; what is not there does not say what it would take."""
    answer = call(APP, path, method=method)
    if path.startswith("/static/") and method not in READ:
        assert answer.status == 405
        return
    assert answer.status == 404
    assert "allow" not in answer.headers
    if "<" not in path and (error := check(answer, path, method)):
        assert error == unknown_path(path).message


@pytest.mark.parametrize(
    "path", ["/\x00\x1b[31m\n", "/api/\r\nx", "/é", "/api/\udc80", "/x" * 5000]
)
def test_made_up_path_breaks_nothing(path):
    """What would break a line or a terminal is escaped, and what is long is cut."""
    problem = unknown_path(path)
    assert problem.text().count(b"\n") == 1
    assert b"\x1b" not in problem.text() + problem.json()
    assert len(problem.message) < 600
    assert json.loads(problem.json())["errorType"] == "not_found"


def test_path_of_a_proxys_url_may_be_empty():
    """It is the page, not Flask's redirect to it."""
    assert call(APP, "").status == 200


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/v1/pools", "/api/v1/snapshot"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_fault_of_our_own_is_said_without_its_text(path, method):
    """Whichever part meets it: an answer in the form of the path, and where to look."""

    def broken(*_):
        raise ZeroDivisionError("a secret")

    flask, app = interface(snapshot=broken, exposition=broken)
    flask.logger.disabled = True
    try:
        answer = call(app, path, method=method)
    except ZeroDivisionError:  # for whoever runs the application to log
        answer = lost(app, path, method)
    assert answer.status == 500
    error = check(answer, path, method)
    assert error in {"", "the request failed, see the log"}


def lost(app, path, method):
    """Return what was sent by an application that raises in the end."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def run():
        with pytest.raises(ZeroDivisionError):
            await app(http_scope(path, b"", method), receive, send)

    asyncio.run(run())
    return reply(sent)


@pytest.mark.parametrize("path", ["/", "/metrics", "/pick", "/feedback", "/api/v1/pools", "/x"])
def test_strangers_are_refused_in_the_form_of_the_path(path):
    """Basic auth stands in front of everything."""
    guarded = Guard({"ops": "$2b$04$" + "x" * 53}).in_front_of(APP)
    answer = call(guarded, path)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Basic realm="scorer"')
    assert check(answer, path, "GET").startswith("Authorization: must be basic")


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/pools"])
def test_query_that_is_no_text_is_refused_in_the_form_of_the_path(path):
    """Before Flask sees it."""
    answer = call(APP, path, b"\xff\xfe")
    assert answer.status == 400
    assert "ASCII" in check(answer, path, "GET")
