"""``/api/v1/decisions``: the last picks and what decided them."""

import pytest

from scorer.http.app import create_flask
from scorer.http.pick import PickEndpoint
from tests.http.builders import chat, pool, ports, target
from tests.http.harness import drive, http_scope


def after(*queries, given=None):
    """Return a client of the API after some picks, and the answers to those."""
    given = given or ports(chat(3), pool(target("b:1", pool="other"), name="other", models=("m",)))
    endpoint = PickEndpoint(given)
    answers = [drive(endpoint, http_scope("/pick", query)) for query in queries]
    return create_flask(given).test_client(), answers


def shown(client, query=""):
    return client.get(f"/api/v1/decisions{query}").get_json()["data"]


def test_decision_tells_what_decided():
    """Winner, alternates, candidates with costs, draws: all of one pick."""
    client, [answer] = after(b"pool=chat&prompt_tokens=8000&key=k&lora=l&exclude=x:1")
    [decision] = shown(client)
    assert decision["pick_id"] == answer.json["pick_id"]
    assert decision["target"] == answer.json["target"]
    assert decision["alternates"] == answer.json["alternates"]
    assert decision["at"] == "2030-03-17T17:46:40.000Z"
    assert (decision["prompt_tokens"], decision["prompt_tokens_known"]) == (8000, True)
    assert (decision["key"], decision["lora"], decision["excluded"]) == ("k", "l", 1)
    assert (decision["reason"], decision["relaxed"], decision["probe"]) == ("key", None, False)
    candidate = decision["candidates"][0]
    assert candidate == {
        "target": "10.0.0.1:8000", "health": 87.5, "cost": pytest.approx(1.16 / 0.875, abs=1e-4),
        "cold": True,
    }  # fmt: skip
    assert all(0.0 <= draw < 1.0 for draw in decision["draws"])


def test_latest_comes_first():
    """In the order in which people look."""
    client, answers = after(*[b"pool=chat"] * 5)
    ids = [answer.json["pick_id"] for answer in answers]
    assert [each["pick_id"] for each in shown(client)] == ids[::-1]


def test_decisions_of_a_pool():
    """``?pool=`` leaves the others out."""
    client, _ = after(b"pool=chat", b"pool=other", b"pool=chat")
    assert [each["pool"] for each in shown(client, "?pool=other")] == ["other"]


def test_decisions_about_a_target():
    """``?target=`` shows where it was compared, picked or named."""
    client, _ = after(b"pool=chat", b"pool=other", b"pool=chat&exclude=10.0.0.1:8000")
    assert len(shown(client, "?target=10.0.0.1:8000")) == 1
    assert len(shown(client, "?target=10.0.0.2:8000")) == 2


def test_limit():
    """Some or many, never none and never more than are kept."""
    client, _ = after(*[b"pool=chat"] * 5)
    assert len(shown(client, "?limit=2")) == 2
    for bad in ("0", "1001", "x", "-1"):
        answer = client.get(f"/api/v1/decisions?limit={bad}")
        assert answer.status_code == 400
        assert answer.get_json()["error"] == f'limit: must be a number from 1 to 1000, got "{bad}"'


def test_refused_picks_are_no_decisions():
    """Nothing was decided."""
    client, _ = after(b"pool=none", b"pool=chat&prompt_tokens=x")
    assert shown(client) == []


def test_target_shows_its_last_decisions():
    """The page of one target has those about it."""
    client, _ = after(*[b"pool=other"] * 25)
    data = client.get("/api/v1/targets/b:1").get_json()["data"]
    assert len(data["decisions"]) == 20
