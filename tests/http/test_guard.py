"""Basic auth: who gets in, what it costs, and what is passed on."""

import asyncio
import base64

import bcrypt
import pytest

from scorer.http import guard as guarding
from scorer.http.guard import Guard
from tests.http.harness import call


def hashed(password: bytes) -> str:
    return bcrypt.hashpw(password, bcrypt.gensalt(4)).decode()


USERS = {"ops": hashed(b"pass:word"), "bob": hashed(b"bob")}


def basic(user: str, password: str, scheme: str = "Basic") -> tuple[bytes, bytes]:
    given = base64.b64encode(f"{user}:{password}".encode())
    return b"authorization", scheme.encode() + b" " + given


def admits(guard: Guard, *headers: tuple[bytes, bytes]) -> bool | None:
    return asyncio.run(guard.admits(headers))


@pytest.mark.parametrize(
    ("headers", "admitted"),
    [
        ([], False),
        ([basic("ops", "pass:word")], True),
        ([basic("ops", "pass:word", "bASIC")], True),
        ([basic("ops", "bob")], False),
        ([basic("bob", "pass:word")], False),
        ([basic("eve", "pass:word")], False),
        ([basic("ops", "pass:word\0")], False),
        ([basic("ops", "pass:word", "Bearer")], False),
        ([(b"authorization", b"Basic ???")], False),
        ([(b"authorization", b"Basic b3Bz")], False),
        ([(b"authorization", b"Basic //8=")], False),
        ([(b"authorization", b"")], False),
        ([basic("ops", "no"), basic("ops", "pass:word")], False),
    ],
)
def test_who_is_let_in(headers, admitted):
    """The first Authorization header counts, its scheme in any case."""
    assert admits(Guard(USERS), *headers) is admitted


def test_a_password_is_hashed_once(monkeypatch):
    """From then on it is known without waiting; a wrong one never is."""
    guard, hashes = Guard(USERS), []
    real = guarding._matches
    monkeypatch.setattr(guarding, "_matches", lambda *a: hashes.append(a) or real(*a))
    right, wrong = basic("ops", "pass:word"), basic("ops", "no")
    assert not guard.knows([right])
    assert [admits(guard, right) for _ in range(3)] == [True] * 3
    assert guard.knows([right])
    assert len(hashes) == 1
    assert [admits(guard, wrong) for _ in range(3)] == [False] * 3
    assert not guard.knows([wrong])
    assert len(hashes) == 4


def test_unknown_names_cost_a_hash_too(monkeypatch):
    """Else the time of an answer would tell who is a user."""
    hashes = []
    monkeypatch.setattr(guarding, "_matches", lambda *a: hashes.append(a) or True)
    assert admits(Guard(USERS), basic("eve", "x")) is False
    assert len(hashes) == 1


def test_changed_users_have_to_prove_themselves_again():
    """What was proved for an old hash is worth nothing for a new one."""
    guard, right = Guard(USERS), basic("bob", "bob")
    assert admits(guard, right)
    guard.use(dict(USERS))
    assert guard.knows([right])
    guard.use({**USERS, "bob": hashed(b"other")})
    assert not guard.knows([right])
    assert admits(guard, right) is False


def test_a_crowd_of_guesses_does_not_pile_up(monkeypatch):
    """Beyond a number they are told to come again; who is known passes at once."""
    monkeypatch.setattr(guarding, "MOST_WAITING", 3)
    guard, right = Guard(USERS), basic("ops", "pass:word")
    assert admits(guard, right)

    async def crowd():
        guesses = [guard.admits([basic("ops", str(n))]) for n in range(5)]
        return await asyncio.gather(*guesses, guard.admits([right]))

    assert asyncio.run(crowd()) == [False, False, False, None, None, True]


async def told(scope, _, send):
    """Answer with the headers that came through."""
    body = repr(dict(scope["headers"])).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def test_a_token_takes_the_place_of_the_password():
    """Behind the guard a token is where it always is, and no password goes on."""
    app = Guard(USERS).in_front_of(told)
    headers = [basic("bob", "bob"), (b"x-scorer-token", b"t")]
    shown = call(app, "/", headers=headers)
    assert b"b'authorization': b'Bearer t'" in shown.body
    assert b"Basic" not in shown.body
    assert b"authorization" not in call(app, "/", headers=headers[:1]).body


def test_without_users_nothing_is_touched():
    """Tokens stay where they are, and the other header means nothing."""
    headers = [(b"authorization", b"Bearer t"), (b"x-scorer-token", b"u")]
    shown = call(Guard().in_front_of(told), "/", headers=headers)
    assert b"b'authorization': b'Bearer t', b'x-scorer-token': b'u'" in shown.body


def test_refusals_over_http(monkeypatch):
    """401 with a challenge, 503 when too many wait; no body for HEAD."""
    app = Guard(USERS).in_front_of(told)
    refused = call(app, "/pick", method="HEAD")
    assert (refused.status, refused.body) == (401, b"")
    assert refused.headers["www-authenticate"] == 'Basic realm="scorer"'
    monkeypatch.setattr(guarding, "MOST_WAITING", 0)
    busy = call(app, "/pick", headers=[basic("ops", "x")])
    assert (busy.status, busy.headers["retry-after"]) == (503, "1")
