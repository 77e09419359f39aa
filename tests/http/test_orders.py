"""Orders of operators over HTTP: routes, trust, bodies that are wrong, and cooldowns listed."""

import asyncio
import json
import math
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from scorer.core.vocabulary import State, Verb
from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.orders import MOST_BYTES
from scorer.http.pick import PickEndpoint
from scorer.http.problems import printable
from tests.http.builders import ports
from tests.http.harness import http_scope, reply
from tests.ordered import DEEP, SIX, A, B, World

START = "2030-03-17T17:46:43.000Z"
"""The moment at which every order is given."""


class Api(World):
    """The world with its HTTP interface."""

    def __init__(self):
        super().__init__()
        self.ports = ports(
            snapshot=lambda: self.registry.snapshot, inflight=self.inflight, clocks=self.clocks,
            operators=self.operators,
        )  # fmt: skip
        self.flask = create_flask(self.ports)
        self.client = self.flask.test_client()

    def post(self, verb, body=None, target=A, query="", peer="127.0.0.1", **headers):
        """Return the answer to an order; ``headers`` are named with underscores for dashes."""
        data = body if isinstance(body, bytes) else json.dumps({} if body is None else body)
        return self.client.post(
            f"/api/v1/targets/{target}/{verb}{query}",
            data=data,
            headers={"Content-Type": "application/json"}
            | {name.replace("_", "-"): value for name, value in headers.items()},
            environ_base={"REMOTE_ADDR": peer},
        )

    def error(self, *args, **kwargs):
        """Return status, kind and sentence of a refused order, which changed nothing."""
        version = self.registry.snapshot.version
        answer = self.post(*args, **kwargs)
        assert self.registry.snapshot.version == version
        body = answer.get_json()
        assert body["status"] == "error"
        return answer.status_code, body["errorType"], body["error"]

    def data(self, *args, **kwargs):
        """Return the data of the answer to an order that was carried out."""
        answer = self.post(*args, **kwargs)
        assert answer.status_code == 200, answer.data
        return answer.get_json()["data"]

    def get(self, path):
        """Return the data at a path of the API."""
        return self.client.get(path).get_json()["data"]


@pytest.fixture
def api():
    """Return the API of a healthy fleet."""
    return Api()


def test_drain_answers_what_applies(api):
    """Per pool: the state, why, and until when."""
    assert api.data("drain", {"duration": "10m", "reason": "upgrade"}) == [
        {
            "target": A, "pool": "chat", "state": "draining", "state_reason": "manual",
            "until": "2030-03-17T17:56:43.000Z",
        }
    ]  # fmt: skip
    assert api.get(f"/api/v1/targets/{A}")["drain"] == {
        "since": START, "until": "2030-03-17T17:56:43.000Z", "note": "upgrade",
    }  # fmt: skip


def test_drain_without_a_duration_has_no_end(api):
    """Null, in the answer and in the target."""
    assert api.data("drain")[0]["until"] is None
    assert api.get(f"/api/v1/targets/{A}")["drain"]["until"] is None


def test_undrain_answers_what_the_target_is_again(api):
    """Its own state."""
    api.data("drain")
    [shown] = api.data("undrain", {"reason": "done"})
    assert (shown["state"], shown["until"]) == ("healthy", None)
    assert api.get(f"/api/v1/targets/{A}")["drain"] is None


def test_cooldown_is_listed(api):
    """Since, until, why, how many there were, and what the operator said."""
    api.data("cooldown", {"duration": "1m", "reason": "slow disk"})
    until = "2030-03-17T17:47:43.000Z"
    assert api.get("/api/v1/cooldowns") == [
        {
            "target": A, "pool": "chat", "since": START, "until": until, "reason": "manual",
            "count": 1, "note": "slow disk",
        }
    ]  # fmt: skip
    assert api.get(f"/api/v1/targets/{A}")["cooldown_until"] == until


def test_cooldown_that_is_over_is_not_listed(api):
    """By time or by order; the target shows none either."""
    api.data("cooldown", {"duration": "1s"})
    api.data("cooldown", target=SIX)
    api.data("end-cooldown", target=SIX)
    api.second()
    assert api.get("/api/v1/cooldowns") == []
    assert api.get(f"/api/v1/targets/{A}")["cooldown_until"] is None


def test_cooldowns_of_a_pool(api):
    """``pool`` narrows the list down; one that does not exist is 404."""
    api.data("cooldown", target=B)
    assert [each["pool"] for each in api.get("/api/v1/cooldowns")] == ["chat", "code"]
    assert [each["pool"] for each in api.get("/api/v1/cooldowns?pool=code")] == ["code"]
    assert api.client.get("/api/v1/cooldowns?pool=x").status_code == 404


def test_order_applies_in_every_pool_that_has_the_target(api):
    """Once each, in file order; with ``pool`` in that one."""
    assert [each["pool"] for each in api.data("drain", target=B)] == ["chat", "code"]
    assert [each["pool"] for each in api.data("undrain", target=B, query="?pool=code")] == ["code"]
    assert api.view(B, "chat").state is State.DRAINING


@pytest.mark.parametrize("target", [A, SIX, DEEP])
@pytest.mark.parametrize("written", [str, quote, lambda name: quote(name, safe="")])
def test_every_target_can_be_named(api, target, written):
    """IPv6 addresses, and paths, even one that ends like an order; escaped or not."""
    assert api.data("drain", target=written(target))[0]["target"] == target
    assert api.get(f"/api/v1/targets/{written(target)}")["state"] == "draining"


def test_unknown_target_is_404(api):
    """With the sentence that GET has."""
    assert api.error("drain", target="10.9.9.9:1") == (
        404, "not_found", 'target: no such target, got "10.9.9.9:1"',
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("?pool=x", 'pool: must be one of chat, code, got "x"'),
        ("?pool=code", f'target: no such target, got "{A}"'),
    ],
)
def test_pool_that_has_it_not_is_404(api, query, message):
    """One that does not exist, and one without the target."""
    assert api.error("drain", query=query) == (404, "not_found", message)


@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("method", ["get", "head", "put", "delete", "patch"])
def test_order_must_be_posted(api, verb, method):
    """A link that somebody follows takes nothing out."""
    answer = getattr(api.client, method)(f"/api/v1/targets/{A}/{verb}")
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]


def test_target_is_not_posted_to(api):
    """What is no order is 405 too."""
    assert api.client.post(f"/api/v1/targets/{A}").status_code == 405
    assert api.client.get(f"/api/v1/targets/{A}/restart").status_code == 404


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_loopback_may_give_orders(api, peer):
    """Without a token file."""
    assert api.data("drain", peer=peer)


@pytest.mark.parametrize("peer", ["10.0.0.9", "192.168.1.1", "8.8.8.8", "fe80::1"])
def test_others_may_not(api, peer):
    """However near; and before anything of the order is looked at."""
    assert api.error("drain", b"{" * 100, target="x", peer=peer)[:2] == (403, "forbidden")


@pytest.mark.parametrize(
    "header", ["Origin", "Forwarded", "X_Forwarded_For", "X_Forwarded_Proto", "x_forwarded_host"]
)
def test_order_that_was_passed_on_is_refused(api, header):
    """From a page in a browser, or through a proxy on this machine."""
    status, _, message = api.error("drain", **{header: "http://evil.example"})
    assert status == 403
    assert header.replace("_", "-").title() in message


def test_token_is_required_where_one_is_configured(api, tmp_path):
    """401 with a challenge, without one as with a wrong one; the token never comes back."""
    path = tmp_path / "token"
    path.write_text("s3crét\n")
    api.operators.use(str(path))
    assert api.error("drain") == (
        401, "unauthorized", "the token of web.admin_token_file is required",
    )  # fmt: skip
    wrong = api.post("drain", Authorization="Bearer s3crets")
    assert wrong.headers["WWW-Authenticate"] == 'Bearer realm="scorer"'
    assert b"s3cr" not in wrong.data
    known = "Bearer s3crét".encode().decode("latin-1")
    assert api.data("drain", peer="8.8.8.8", Origin="http://x", Authorization=known)


def test_replaced_token_is_read_again(api, tmp_path):
    """Within a second, without a reload."""
    path = tmp_path / "token"
    path.write_text("old")
    api.operators.use(str(path))
    assert api.data("drain", Authorization="Bearer old")
    path.unlink()
    api.now += 1.0
    assert api.error("drain", Authorization="Bearer old")[0] == 401
    path.write_text("newer")
    api.now += 1.0
    assert api.data("drain", Authorization="Bearer newer")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "x" * 999])
def test_content_type_must_be_json(api, kind):
    """A form of a page cannot send it."""
    status, name, message = api.error("drain", Content_Type=kind)
    assert (status, name) == (415, "unsupported_media_type")
    assert message == f'Content-Type: must be application/json, got "{kind[:60]}"'


def test_content_type_may_have_parameters(api):
    """Case does not matter."""
    assert api.data("drain", Content_Type="Application/JSON; charset=utf-8")


DURATION = "must be a duration such as 500ms, 15s or 1m30s"
LIMITS = "must be at least 1s and at most 30d"


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"duration": "-5m"}, f"duration: {DURATION}, got -5m"),
        ({"duration": "NaN"}, f"duration: {DURATION}, got NaN"),
        ({"duration": ""}, f"duration: {DURATION}, got ''"),
        ({"duration": 600}, f"duration: {DURATION}, got 600"),
        ({"duration": True}, f"duration: {DURATION}, got True"),
        ({"duration": ["1m"]}, f"duration: {DURATION}, got ['1m']"),
        ({"duration": "9" * 5000 + "d"}, f"duration: must be at most 366d, got {'9' * 59}…"),
        ({"duration": "99999999999d"}, "duration: must be at most 366d, got 99999999999d"),
        ({"duration": "31d"}, f"duration: {LIMITS}, got 31d"),
        ({"duration": "0s"}, f"duration: {LIMITS}, got 0s"),
        ({"duration": "999ms"}, f"duration: {LIMITS}, got 999ms"),
        ({"duration": "30d1ms"}, f"duration: {LIMITS}, got 30d1ms"),
        ({"reason": 7}, "reason: must be a string, got 7"),
        ({"reason": "\ud800"}, r"reason: must be Unicode text, got '\ud800'"),
        ({"reason": None}, "reason: must be a string, got None"),
        ({"reason": "x" * 201}, f"reason: must have at most 200 characters, got {'x' * 59}…"),
        ({"durations": "1m"}, "durations: is not a known key (did you mean duration?)"),
        ({"a": 1, "reason": 7}, "reason: must be a string, got 7; a: is not a known key"),
        ({"\x1b[2J\n": 1}, "\\x1b[2J\\n: is not a known key"),
        ([], "the body must be a JSON object"),
        ("drain", "the body must be a JSON object"),
        (b"null", "the body must be a JSON object"),
        (b'{"duration": NaN}', "the body must be JSON: NaN is no number"),
        (b'{"duration": -Infinity}', "the body must be JSON: -Infinity is no number"),
        (b"[" + b"9" * 5000 + b"]", "the body must be JSON: a number has too many digits"),
    ],
)
def test_bad_body_is_told_field_rule_and_value(api, body, message):
    """Strictly: nothing is ignored, nothing is guessed."""
    assert api.error("drain", body) == (400, "bad_data", message)


HALF = MOST_BYTES // 2 - 20


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b"[" * MOST_BYTES, "the body must be JSON: Expecting value"),
        (b"[" * HALF + b"]" * HALF, "the body must be a JSON object"),
        (
            b'{"duration":' + b"[" * HALF + b"]" * HALF + b"}",
            f"duration: {DURATION}, got [[[[...]]]]",
        ),
    ],
)
def test_deep_body(api, body, rule):
    """Some versions of Python read it to its end: it is refused then as any other is."""
    status, kind, message = api.error("drain", body)
    assert (status, kind) == (400, "bad_data")
    too_deep = "the body must be JSON: it is nested too deeply"
    assert message.partition(": line")[0] in (rule, too_deep)


@pytest.mark.parametrize("body", [b"", b" ", b"{", b'{"duration": "1m"', b"\xff"])
def test_body_that_is_no_json(api, body):
    """A client that went away in the middle of one has ordered nothing."""
    status, kind, message = api.error("drain", body)
    assert (status, kind) == (400, "bad_data")
    assert message.startswith("the body must be JSON: ")


def test_many_problems_are_cut_short(api):
    """An answer is no longer than what is worth reading."""
    _, _, message = api.error("drain", {f"k{number}": 1 for number in range(500)})
    assert message.count(";") == 4


@pytest.mark.parametrize("verb", ["undrain", "end-cooldown"])
def test_what_ends_at_once_has_no_duration(api, verb):
    """It would be for nothing."""
    assert api.error(verb, {"duration": "1m"})[2] == "duration: is not a known key"


def test_cooldown_is_at_most_an_hour(api):
    """Longer is a drain, or a mistake."""
    rule = "duration: must be at least 1s and at most 1h, got 2h"
    assert api.error("cooldown", {"duration": "2h"})[2] == rule


@pytest.mark.parametrize("size", [MOST_BYTES + 1, 10_000_000])
def test_large_body_is_413(api, size):
    """An order is a few words."""
    assert api.error("drain", b" " * size) == (
        413, "too_large", f"the body must have at most {MOST_BYTES} bytes",
    )  # fmt: skip


def test_reason_is_escaped_for_good(api):
    """What breaks a line or paints a terminal is written out, wherever it is shown."""
    with capture_logs() as logs:
        api.data("drain", {"reason": "a\nb\x1b[31m\u202e ü 🔥"})
    told = r"a\nb\x1b[31m\u202e ü 🔥"
    assert [line["note"] for line in logs if "note" in line] == [told]
    assert api.get(f"/api/v1/targets/{A}")["drain"]["note"] == told


@given(st.text())
def test_printable_text_is_printable(text):
    """Whatever comes; what is printable already stays as it is."""
    shown = printable(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()


def deliver(api, *parts):
    """Return the whole application's reply to a drain whose body comes in these parts, if any."""
    app = build_asgi(api.ports, api.flask, PickEndpoint(api.ports))
    headers = [(b"content-type", b"application/json"), (b"transfer-encoding", b"chunked")]
    scope = http_scope(f"/api/v1/targets/{A}/drain", method="POST", headers=headers)
    waiting = [
        {"type": "http.request", "body": part, "more_body": True} if part else
        {"type": "http.disconnect"}
        for part in parts
    ]  # fmt: skip
    sent = []

    async def receive():
        return waiting.pop(0) if waiting else {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return reply(sent) if sent else None


def test_body_without_a_length_is_read(api):
    """Piece by piece, to its end: a duration is never lost."""
    answer = deliver(api, b'{"dura', b'tion":', b'"1m"}')
    assert answer.json["data"][0]["until"] == "2030-03-17T17:47:43.000Z"


def test_endless_body_is_given_up(api):
    """After the limit, however much more would come."""
    assert deliver(api, *[b" " * 1000] * 50).status == 413


@pytest.mark.parametrize("parts", [(b"",), (b'{"duration":', b"")])
def test_client_that_goes_away_has_ordered_nothing(api, parts):
    """A body cut short is no order, not even an empty one, and gets no answer."""
    assert deliver(api, *parts) is None
    assert math.isclose(api.view().weight, 1.0)
