"""The API: shapes, filters, errors, and that it is strict JSON."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

from scorer.core.snapshot import SignalView
from scorer.core.vocabulary import Cause, SignalName, State
from scorer.http.app import create_flask
from tests.http.builders import (
    SIGNALS,
    chat,
    pool,
    ports,
    target,
    unreachable,
    unscored,
)


def get(path, *pools, **changes):
    """Return Flask's response to a GET."""
    return create_flask(ports(*pools, **changes)).test_client().get(path)


def data(path, *pools):
    """Return the data of a successful answer."""
    body = get(path, *pools).get_json()
    assert body["status"] == "success"
    return body["data"]


def test_target_shape():
    """A target is shown with exactly the documented keys."""
    [shown] = data("/api/v1/targets", pool(target()))
    assert shown == {
        "target": "10.0.0.7:8000",
        "pool": "chat",
        "url": "http://10.0.0.7:8000",
        "engine": "vllm",
        "engine_version": "0.11.0",
        "mapping": "vllm-v1",
        "model_names": ["llama-3.1-8b"],
        "score": 87.5,
        "raw_score": 87.5,
        "state": "healthy",
        "state_since": "2030-03-17T17:45:10.000Z",
        "state_reason": "none",
        "eligible": True,
        "weight": 0.875,
        "warmup_ratio": 1.0,
        "confidence": 1.0,
        "points_lost": {cause: 12.5 if cause == "queue" else 0.0 for cause in Cause},
        "signals": {
            "ttft": {"value": 0.42, "age": 2.0, "source": "engine"},
            "errors": {"value": 0.0, "age": 0.5, "source": "engine"},
            "queue": {"value": 3.0, "age": 0.5, "source": "engine"},
            "kv_cache": {"value": 0.63, "age": 0.5, "source": "engine"},
        },
        "running": 7.0,
        "stalled_engines": [],
        "in_flight": 0,
        "expected_wait": None,
        "picks": 0,
        "picks_per_second": None,
        "probes": 0,
        "restarts": 1,
        "cooldowns": 0,
        "cooldown_seconds": 0.0,
        "cooldown_until": None,
        "drain": None,
        "last_scrape": {
            "ok": True, "age": 0.5, "duration": 0.012, "reason": None, "detail": None,
        },
    }  # fmt: skip


def test_unscored_target_has_nulls():
    """What is not known is null, and a signal says why it is not."""
    [shown] = data("/api/v1/targets", pool(unscored()))
    assert (shown["score"], shown["running"], shown["last_scrape"]) == (None, None, None)
    assert shown["signals"]["ttft"] == {"unavailable": "not_scraped"}


def test_signal_without_traffic_is_available_and_null():
    """No traffic is not the same as no signal."""
    quiet = SIGNALS | {SignalName.TTFT: SignalView(None, None, "engine")}
    [shown] = data("/api/v1/targets", pool(target(signals=quiet)))
    assert shown["signals"]["ttft"] == {"value": None, "age": None, "source": "engine"}


def test_failed_scrape_is_explained():
    """A failed scrape has its reason and what there is to say of it."""
    [shown] = data("/api/v1/targets", pool(unreachable(detail="refused")))
    assert shown["last_scrape"]["reason"] == "connect"
    assert shown["last_scrape"]["detail"] == "refused"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_are_strict_json(value):
    """A value that JSON cannot hold is null."""
    odd = dataclasses.replace(target(), running=value)
    body = get("/api/v1/targets", pool(odd)).data
    assert json.loads(body, parse_constant=pytest.fail)["data"][0]["running"] is None


def test_points_lost_and_score_are_100():
    """Score and points lost add up as they are shown."""
    lost = dict.fromkeys(Cause, 100 / 7 / 3)
    view = target(score=100 - sum(lost.values()), points_lost=lost)
    [shown] = data("/api/v1/targets", pool(view))
    assert shown["score"] + sum(shown["points_lost"].values()) == pytest.approx(100, abs=0.001)


def test_picks_are_counted():
    """A target shows how often it was picked."""
    given = ports(pool(target()))
    given.inflight.opened("chat", "10.0.0.7:8000")
    body = create_flask(given).test_client().get("/api/v1/targets").get_json()
    assert body["data"][0]["picks"] == 1


def test_filter_by_state():
    """``state`` leaves only the targets in that state."""
    shown = data("/api/v1/targets?state=unreachable", pool(target(), unreachable()))
    assert [view["state"] for view in shown] == ["unreachable"]


def test_filter_by_pool():
    """``pool`` leaves only the targets of that pool."""
    embed = pool(target(pool="embed"), name="embed")
    assert {view["pool"] for view in data("/api/v1/targets?pool=embed", chat(2), embed)} == {
        "embed"
    }


def test_unknown_state_is_400_with_those_there_are():
    """A state that does not exist is named, with the six that do."""
    response = get("/api/v1/targets?state=asleep", chat(1))
    assert response.status_code == 400
    assert response.get_json() == {
        "status": "error",
        "errorType": "bad_data",
        "error": f'state: must be one of {", ".join(State)}, unhealthy, got "asleep"',
    }


def test_unknown_pool_is_404_with_those_there_are():
    """A pool that does not exist is named, with those that do."""
    response = get("/api/v1/targets?pool=x", chat(1))
    assert response.status_code == 404
    assert response.get_json()["error"] == 'pool: must be one of chat, got "x"'


def test_one_target_has_its_transitions():
    """One target shows its last state changes with times and reasons."""
    shown = data("/api/v1/targets/10.0.0.7:8000", pool(target()))
    assert shown["transitions"] == [
        {"at": "2030-03-17T17:45:10.000Z", "from": "warmup", "to": "healthy", "reason": "none"}
    ]


def test_one_ipv6_target():
    """An IPv6 target is found by its name with brackets."""
    assert data("/api/v1/targets/[::1]:8000", pool(target("[::1]:8000")))["target"] == "[::1]:8000"


def test_unknown_target_is_404():
    """A target that does not exist is an error in JSON."""
    response = get("/api/v1/targets/10.9.9.9:1", chat(1))
    assert response.status_code == 404
    assert response.get_json()["error"] == 'target: no such target, got "10.9.9.9:1"'


def test_one_target_of_an_unknown_pool_is_404():
    """A pool that does not exist is named before its targets are looked for."""
    response = get("/api/v1/targets/10.0.0.1:8000?pool=x", chat(1))
    assert response.status_code == 404
    assert response.get_json()["error"] == 'pool: must be one of chat, got "x"'


def test_target_of_two_pools_needs_the_pool():
    """A target in two pools is two things; the answer asks which."""
    response = get("/api/v1/targets/a:1", pool(target("a:1")), pool(target("a:1", "b"), name="b"))
    assert response.status_code == 400
    assert response.get_json()["error"] == "pool: must be given, as several have it (chat, b)"


def test_target_of_two_pools_with_the_pool():
    """With ``pool`` a target in two pools is found."""
    pools = (pool(target("a:1")), pool(target("a:1", "b"), name="b"))
    assert data("/api/v1/targets/a:1?pool=b", *pools)["pool"] == "b"


def test_pool_shape():
    """A pool is shown with exactly the documented keys."""
    [shown] = data("/api/v1/pools", pool(target(), unreachable(), models=("llama-*",)))
    assert shown == {
        "pool": "chat",
        "models": ["llama-*"],
        "targets": 2,
        "states": {**dict.fromkeys(State, 0), "healthy": 1, "unreachable": 1},
        "eligible": 1,
        "panic": False,
        "scored": True,
        "judged_at": "2030-03-17T17:46:39.900Z",
        "score_thresholds": {"warning": 70.0, "critical": 50.0},
    }


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/", "/api/v1/targets/"])
def test_unknown_api_path_is_json(path):
    """Below /api even a wrong path is answered in JSON."""
    response = get(path)
    assert (response.status_code, response.get_json()["errorType"]) == (404, "not_found")


def test_wrong_api_method_is_json():
    """A method that a route does not take is answered in JSON, with those it does."""
    response = create_flask(ports()).test_client().post("/api/v1/targets")
    assert (response.status_code, response.get_json()["errorType"]) == (405, "method_not_allowed")
    assert "GET" in response.headers["Allow"]


def test_fault_in_the_api_is_json():
    """An exception of our own is an error in JSON."""
    app = create_flask(ports(snapshot=lambda: 1 / 0))
    app.logger.disabled = True
    response = app.test_client().get("/api/v1/pools")
    assert (response.status_code, response.get_json()["errorType"]) == (500, "internal")


def test_unknown_path_elsewhere_is_plain():
    """Outside /api an error is plain text."""
    response = get("/nothing")
    assert (response.status_code, response.mimetype) == (404, "text/plain")


def test_metrics_pass_on_what_was_asked():
    """The exposition gets the headers and names of the request, and answers itself."""
    asked = []

    def exposition(*arguments):
        asked.append(arguments)
        return [("Content-Type", "text/plain; version=0.0.4")], b"up 1\n"

    client = create_flask(ports(exposition=exposition)).test_client()
    response = client.get("/metrics?name[]=a&name[]=b", headers={"Accept": "x/y"})
    assert asked == [("x/y", ["a", "b"])]
    assert (response.data, response.content_type) == (b"up 1\n", "text/plain; version=0.0.4")


DOCUMENT = Path(__file__).parents[2] / "docs" / "http-api.md"


@pytest.mark.parametrize("path", ["/api/v1/targets/a:1", "/api/v1/pools"])
def test_every_key_is_documented(path):
    """docs/http-api.md names every key of a target and of a pool."""
    shown = data(path, pool(target("a:1")))
    keys = shown if isinstance(shown, dict) else shown[0]
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [key for key in keys if f"`{key}`" not in text] == []
