"""``/api/v1/sd/<pool>``: the targets of a pool for Prometheus."""

from scorer.discovered import ListedTarget
from scorer.http.app import create_flask
from tests.http.builders import chat, ports

LISTED = {
    "chat": [
        ListedTarget("10.0.0.1:8000", "http://10.0.0.1:8000", "/metrics", {"zone": "a"}),
        ListedTarget("[fd00::2]:8000", "https://[fd00::2]:8002", "", {"pool": "other"}),
    ],
    "none": [],
}


def get(path):
    return create_flask(ports(chat(), listed=LISTED.get)).test_client().get(path)


def test_each_target_is_a_group():
    """The address is that of the metrics, labels say which target of ours it is."""
    answer = get("/api/v1/sd/chat")
    assert (answer.status_code, answer.content_type) == (200, "application/json")
    assert answer.json == [
        {
            "targets": ["10.0.0.1:8000"],
            "labels": {
                "zone": "a", "pool": "chat", "target": "10.0.0.1:8000",
                "__scheme__": "http", "__metrics_path__": "/metrics",
            },
        },
        {
            "targets": ["[fd00::2]:8002"],
            "labels": {"pool": "chat", "target": "[fd00::2]:8000", "__scheme__": "https"},
        },
    ]  # fmt: skip


def test_pool_without_targets_is_an_empty_list():
    """Prometheus takes an empty list for no target, and an error for no answer."""
    assert get("/api/v1/sd/none").data == b"[]"


def test_unknown_pool_is_not_found():
    """A pool that does not exist is an error, so that Prometheus keeps what it had."""
    answer = get("/api/v1/sd/chta")
    assert (answer.status_code, answer.json["errorType"]) == (404, "not_found")
    assert answer.json["error"] == 'pool: no such pool, got "chta"'
