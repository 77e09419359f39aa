"""Orders by the form of a page: with the token in its body only, otherwise as by the API."""

import io
import re
from html import unescape
from urllib.parse import urlencode, urljoin

import pytest
from structlog.testing import capture_logs

from scorer.core.vocabulary import State, Verb
from scorer.http.orders import FORM_TYPE, MOST_BYTES, MOST_FIELDS
from tests.http.test_orders import Api
from tests.ordered import DEEP, SIX, A, B

TOKEN = "s3crét & more"
REQUIRED = "the token of web.admin_token_file is required"
COMMAND_LINE = "without web.admin_token_file, orders are given from the command line only"


class Pages(Api):
    """The world with pages that take orders."""

    def send(self, verb="drain", target=A, *, token=TOKEN, peer="10.9.9.9", **said):
        """Return the answer to a form."""
        fields = {"order": verb, "pool": "chat", "token": token} | said
        return self.send_body(urlencode(fields), target, peer)

    def send_body(self, body, target=A, peer="10.9.9.9", kind=FORM_TYPE):
        return self.client.post(
            f"/targets/{target}", data=body, content_type=kind, environ_base={"REMOTE_ADDR": peer}
        )

    def refusal(self, answer):
        """Return status and sentence of an order that was refused, and changed nothing."""
        shown = re.findall(r'role="alert">Not carried out: (.*?)</p>', answer.text)
        assert self.registry.snapshot.version == self.version
        assert answer.headers["Cache-Control"] == "no-store"
        return answer.status_code, *(unescape(each) for each in shown)


@pytest.fixture
def pages(tmp_path):
    """Return the pages of a healthy fleet, behind a token."""
    made = Pages()
    (tmp_path / "token").write_text(TOKEN)
    made.operators.use(str(tmp_path / "token"))
    made.version = made.registry.snapshot.version
    return made


def form(answer):
    """Return the fields of the form of a page, by name."""
    fields = re.findall(r"<input[^>]*>", answer.text)
    pairs = (
        (re.search(r'name="(.*?)"', each), re.search(r'value="(.*?)"', each)) for each in fields
    )
    return {name[1]: unescape(value[1]) if value else "" for name, value in pairs}


@pytest.mark.parametrize("target", [A, SIX, DEEP])
def test_form_of_the_page_gives_the_order(pages, target):
    """As it is sent by the page that asks for it; and leads back to the page of the target."""
    pool = "code" if target == DEEP else "chat"
    asked = pages.client.get(f"/targets/{target}?pool={pool}&order=drain")
    assert asked.status_code == 200
    fields = form(asked) | {"token": TOKEN, "duration": " 10m ", "reason": "upgrade"}
    action = re.search(r'<form method="post" action="(.*?)">', asked.text)[1]
    where = urljoin(asked.request.path, action)
    answer = pages.send_body(urlencode(fields), where.removeprefix("/targets/"))
    assert (answer.status_code, answer.data) == (303, b"")
    assert answer.headers["Location"] == f"{action}?pool={pool}"
    drain = pages.view(target, pool).drain
    assert (drain.until, drain.note) == (pages.now + 600.0, "upgrade")


def test_every_order(pages):
    """The four of the API, with the same words."""
    for verb, state in (
        (Verb.DRAIN, State.DRAINING),
        (Verb.UNDRAIN, State.HEALTHY),
        (Verb.COOLDOWN, State.COOLDOWN),
        (Verb.END_COOLDOWN, State.HEALTHY),
    ):
        assert pages.send(verb).status_code == 303
        assert pages.view().state is state


def test_log_line_is_that_of_the_api(pages):
    """Who, what, until when and why; the token is in no line."""
    said = {"duration": "1m", "reason": "a\nb"}
    with capture_logs() as logs:
        pages.send("cooldown", peer="10.0.0.9", **said)
        pages.data("end-cooldown", Authorization=f"Bearer {TOKEN}".encode().decode("latin-1"))
        pages.data("cooldown", said, query="?pool=chat", peer="10.0.0.9",
                   Authorization=f"Bearer {TOKEN}".encode().decode("latin-1"))  # fmt: skip
    told = [each for each in logs if each.get("order") == "cooldown"]
    assert told[0] == told[1]
    assert "s3cr" not in str(logs)


def test_looking_changes_nothing(pages):
    """However the page of an order is asked for, and it is never kept or reloaded."""
    for verb in Verb:
        answer = pages.client.get(f"/targets/{A}?pool=chat&order={verb}&token=x")
        assert answer.status_code == 200
        assert 'http-equiv="refresh"' not in answer.text
        assert 'method="post"' in answer.text
    assert pages.registry.snapshot.version == pages.version


@pytest.mark.parametrize("token", ["", "s3cret & more", TOKEN + "x", TOKEN.upper()])
def test_wrong_token_is_401(pages, token):
    """As in the API; what was typed is kept, but for the token."""
    answer = pages.send(token=token, duration="5m", reason='"why"')
    assert pages.refusal(answer) == (401, REQUIRED)
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="scorer"'
    assert form(answer) == {
        "order": "drain", "pool": "chat", "duration": "5m", "reason": '"why"', "token": "",
    }  # fmt: skip


@pytest.mark.parametrize("place", ["query", "Authorization", "X-Scorer-Token", "Cookie"])
def test_token_counts_in_the_body_only(pages, place):
    """Where other pages or histories could bring or keep it, it is worth nothing."""
    token = TOKEN.encode().decode("latin-1")
    query = {"token": TOKEN} if place == "query" else {}
    values = {"Authorization": f"Bearer {token}", "X-Scorer-Token": token,
              "Cookie": f"token={token}"}  # fmt: skip
    headers = {place: values[place]} if place in values else {}
    body = {"order": "drain", "pool": "chat"}
    answer = pages.client.post(f"/targets/{A}", query_string=query, data=body, headers=headers)
    assert pages.refusal(answer) == (401, REQUIRED)


def test_token_is_in_no_page(pages):
    """Neither where it was right nor where the rest was wrong."""
    answers = [
        pages.send(token=TOKEN),
        pages.send(token=TOKEN, duration="soon"),
        pages.client.get(f"/targets/{A}?pool=chat"),
        pages.client.get(f"/targets/{A}?pool=chat&order=drain"),
    ]
    assert not [each for each in answers if "s3cr" in each.text + str(each.headers)]


@pytest.mark.parametrize("peer", ["127.0.0.1", "8.8.8.8"])
def test_without_a_token_no_page_takes_orders(peer):
    """Not even on this machine, where any page may lead a browser; the target's offers none."""
    pages = Pages()
    pages.version = pages.registry.snapshot.version
    assert pages.refusal(pages.send(peer=peer)) == (403, COMMAND_LINE)
    assert pages.refusal(pages.client.get(f"/targets/{A}?order=drain")) == (403, COMMAND_LINE)
    assert "order=" not in pages.client.get(f"/targets/{A}").text


def test_page_of_a_target_leads_to_orders(pages):
    """To those that make sense for it as it is."""
    offered = r'class="chip" href="\./10\.0\.0\.1%3A8000\?pool=chat&amp;order=([\w-]+)">'
    path = f"/targets/{A}?pool=chat"
    assert re.findall(offered, pages.client.get(path).text) == ["drain", "cooldown"]
    pages.send("drain")
    pages.send("cooldown")
    assert re.findall(offered, pages.client.get(path).text) == list(Verb)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"duration": "x"}, "duration: must be a duration such as 500ms, 15s or 1m30s, got x"),
        ({"duration": "31d"}, "duration: must be at least 1s and at most 30d, got 31d"),
        ({"reason": "x" * 201}, f"reason: must have at most 200 characters, got {'x' * 59}…"),
        ({"force": "<b>"}, "force: is not a known key"),
        ({"verb": "undrain", "duration": "1m"}, "duration: is not a known key"),
        ({"verb": "x"}, 'order: must be one of drain, undrain, cooldown, end-cooldown, got "x"'),
    ],
)  # fmt: skip
def test_bad_form_is_told_field_rule_and_value(pages, said, message):
    """In the words of the API."""
    assert pages.refusal(pages.send(**said)) == (400, message)


def test_token_is_looked_at_first(pages):
    """Who may give no orders learns nothing of what is wrong with one, nor of targets."""
    for said in ({"duration": "x"}, {"pool": "x"}, {"target": "10.9.9.9:1"}, {"verb": "x"}):
        assert pages.refusal(pages.send(token="", **said)) == (401, REQUIRED)


def test_unknown_target_is_404(pages):
    """There is no form for it, asked for or sent."""
    told = (404, 'target: no such target, got "10.9.9.9:1"')
    assert pages.refusal(pages.send(target="10.9.9.9:1")) == told
    answer = pages.client.get("/targets/10.9.9.9:1?order=drain")
    assert pages.refusal(answer) == told
    assert "<form" not in answer.text


def test_unknown_pool_is_404(pages):
    """One that does not exist, and one without the target."""
    assert pages.refusal(pages.send(pool="x")) == (
        404, 'pool: must be one of chat, code, got "x"',
    )  # fmt: skip
    assert pages.refusal(pages.send(pool="code")) == (404, f'target: no such target, got "{A}"')


def test_pools_of_a_target(pages):
    """One, or all that have it."""
    assert pages.send(target=B, pool="code").status_code == 303
    assert [pages.view(B, pool).drain is None for pool in ("chat", "code")] == [True, False]
    assert pages.send("cooldown", target=B, pool="").headers["Location"].endswith("?pool=chat")
    assert all(pages.view(B, pool).cooldown.active for pool in ("chat", "code"))


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        ("{}", "application/json",
         (415, f'Content-Type: must be {FORM_TYPE}, got "application/json"')),
        ("x" * (MOST_BYTES + 1), FORM_TYPE,
         (413, f"the body must have at most {MOST_BYTES} bytes")),
        ("a=1&" * MOST_FIELDS + "a=1", FORM_TYPE,
         (400, f"the form must have at most {MOST_FIELDS} fields")),
        ("", FORM_TYPE, (401, REQUIRED)),
        ("%ff&=&&;token", FORM_TYPE, (401, REQUIRED)),
    ],
)  # fmt: skip
def test_what_is_no_form(pages, body, kind, told):
    """Told in words too, whatever it is."""
    status, message = told
    answer = pages.send_body(body, kind=kind)
    assert answer.status_code == status
    assert f"Not carried out: {message}" in unescape(answer.text)


def test_hostile_text_stays_text(pages):
    """In names of targets, orders and reasons."""
    answer = pages.send(target="<script>", reason="<script>")
    assert answer.status_code == 404
    assert "<script" not in answer.text
    asked = pages.client.get(f"/targets/{A}?order=<script>&pool=<script>")
    assert asked.status_code == 400
    assert "<script" not in asked.text


def test_reload_that_takes_the_token_away_opens_no_form(pages):
    """Whoever was asked for the token needs it, though none is asked for by the time it is read."""

    class Slow(io.BytesIO):
        def read(self, *size):
            pages.operators.use("")
            return super().read(*size)

    body = urlencode({"order": "drain", "token": "wrong"}).encode()
    answer = pages.client.post(
        f"/targets/{A}", input_stream=Slow(body), content_length=len(body),
        content_type=FORM_TYPE, environ_base={"REMOTE_ADDR": "127.0.0.1"},
    )  # fmt: skip
    assert not pages.operators.trust.wants_token
    assert answer.status_code in (401, 403)
    assert pages.registry.snapshot.version == pages.version
