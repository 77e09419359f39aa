"""Envoy with ext_authz and override_host: picks and retries without Lua, and no daemon at all."""

import time

import pytest

from tests.integrations.engines import BUSY, CLIENT_KEY, SATURATED, Behaviour, chat
from tests.integrations.envoy_outages import killed_under_load, left_alone_while_it_hangs
from tests.integrations.envoy_stack import Stack, until
from tests.integrations.load import request

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    stack = Stack(tmp_path_factory.mktemp("ext_authz"), "ext-authz.yaml")
    yield stack
    stack.stop()


@pytest.fixture
def stack(running):
    """Return the stack, with all engines in good health."""
    running.settle()
    return running


def test_every_request_goes_where_the_daemon_says(stack):
    """With the length of its prompt; the IPv6 target takes part."""
    picks = stack.daemon.get("/api/v1/decisions?limit=1000").json()["data"]
    for _ in range(20):
        assert request(stack.envoy.address, chat(size=8000))[0] == 200
    until(lambda: request(stack.envoy.address, chat())[0] == 200 and stack.engines[2].seen)
    decisions = stack.daemon.get("/api/v1/decisions?limit=1000").json()["data"]
    made = {each["pick_id"]: each for each in decisions[: len(decisions) - len(picks)]}
    seen = {s.headers["x-scorer-pick-id"]: e.target for e in stack.engines for s in e.seen}
    assert seen == {name: each["target"] for name, each in made.items()}
    assert 2000 <= max(each["prompt_tokens"] for each in made.values()) < 2100


@pytest.mark.parametrize("refusal", [SATURATED, BUSY], ids=["429", "503"])
@pytest.mark.parametrize("size", [300_000, 2_000_000])
def test_refusal_is_retried_on_the_alternate(stack, refusal, size):
    """With prompts of any size, and the client sees none of it."""
    full, *_ = stack.engines
    full.does = Behaviour(refusal=refusal)
    body = chat(size=size)
    until(lambda: request(stack.envoy.address, body)[0] == 200 and full.seen, 30)
    alternates = full.seen[-1].headers["x-scorer-endpoints"].split(",")
    assert alternates[0] == full.target
    (other,) = (each for each in stack.engines if each.target == alternates[1])
    assert other.seen[-1].size == len(body)


def test_broken_connection_is_retried(stack):
    """An engine that hangs up without an answer costs no request."""
    stack.engines[0].does = Behaviour(broken=True)
    until(lambda: request(stack.envoy.address, chat())[0] == 200 and stack.engines[0].seen, 30)


def test_limit_of_a_clients_key_passes_in_the_end(stack):
    """Envoy cannot tell it from a full engine and tries the others; it changes no score."""
    for engine in stack.engines:
        engine.does = Behaviour(refusal=CLIENT_KEY)
    assert request(stack.envoy.address, chat()) == CLIENT_KEY
    assert stack.served() == {each.target: 1 for each in stack.engines}
    time.sleep(0.5)  # two scrapes and a tick
    data = stack.daemon.get("/api/v1/targets").json()["data"]
    assert [(each["state"], each["points_lost"]["errors"]) for each in data] == [("healthy", 0)] * 3


def test_clients_own_words_change_nothing(stack):
    """Neither its headers nor its query reach the daemon."""
    wish = {"X-Scorer-Endpoints": stack.engines[0].target, "X-Scorer-Prompt-Bytes": "many",
            "X-Scorer-Exclude": ",".join(each.target for each in stack.engines[1:])}  # fmt: skip
    for _ in range(30):
        assert request(stack.envoy.address, chat(), wish, path="/v1/x?pool=no")[0] == 200
    assert all(s.headers["x-scorer-pick-id"] for each in stack.engines for s in each.seen)
    assert stack.engines[1].seen or stack.engines[2].seen


def test_request_of_unknown_length_is_picked_for(stack):
    """Without Content-Length there is no length to tell, which is no reason to refuse."""
    parts = (chat(size=1000)[at : at + 100] for at in range(0, len(chat(size=1000)), 100))
    assert request(stack.envoy.address, parts)[0] == 200
    (seen,) = (each for engine in stack.engines for each in engine.seen)
    assert seen.headers["x-scorer-pick-id"]


def test_daemon_killed_under_load_fails_nothing(stack):
    """Envoy chooses by itself, evenly and at the same speed; a new daemon is asked again."""
    killed_under_load(stack, 1.0, 1.5)


def test_daemon_that_hangs_is_left_alone(stack):
    """A few requests wait 20 ms for it, all others nothing; when it goes on it is asked again."""
    left_alone_while_it_hangs(stack, 40)
