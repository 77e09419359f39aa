"""``/api/v1/snapshot``: shape, ETag, long poll."""

import asyncio
import dataclasses
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from scorer.core.params import PickParams
from scorer.http.snapshot import MOST_WAITING, SnapshotEndpoint
from tests.http.builders import chat, pool, ports, snapshot, target, unreachable, unscored
from tests.http.harness import _exchange, http_scope, reply

SCHEMA = Path(__file__).parent.parent / "vectors" / "snapshot.schema.json"
PATH = "/api/v1/snapshot"


class Published:
    """A snapshot that is replaced, and who wants to know."""

    def __init__(self, version=1):
        self.current = snapshot(chat(2), version=version)
        self.calls = []

    def publish(self):
        self.current = snapshot(chat(2), version=self.current.version + 1)
        for call in self.calls:
            call()

    def endpoint(self):
        given = ports(snapshot=lambda: self.current, subscribe=self.calls.append)
        return SnapshotEndpoint(given)


async def ask(endpoint, query=b"", headers=(), method="GET"):
    """Return the reply to one request."""
    return reply(await _exchange(endpoint, http_scope(PATH, query, method, headers)))


def asked(endpoint, query=b"", headers=(), method="GET"):
    return asyncio.run(ask(endpoint, query, headers, method))


def test_snapshot_has_the_shape_of_its_schema():
    """Healthy, unreachable and unscored targets, and every parameter."""
    views = (target(kv_capacity=4e5, loras=frozenset({"sql"})), unreachable(), unscored())
    given = ports(pool(*views), pool(target("a:1", pool="b"), name="b", models=("m*",)))
    data = asked(SnapshotEndpoint(given)).json["data"]
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(data)
    assert [each["pool"] for each in data["pools"]] == ["chat", "b"]


def test_targets_show_what_picks_look_at():
    """Load, room for KV, eligibility and why not, adapters."""
    given = ports(pool(target(kv_capacity=4e5, loras=frozenset({"sql"})), unreachable()))
    view = given.snapshot().pools["chat"].targets[0]
    given.inflight.open("chat", view, "1", 1020.0, 1000, 1000.0)
    good, gone = asked(SnapshotEndpoint(given)).json["data"]["pools"][0]["targets"]
    assert (good["in_flight"], good["resident_tokens"], good["fresh_tokens"]) == (1, 1000, 1000)
    assert good["outstanding"] == pytest.approx(1020.0)
    assert (good["kv_cache"], good["kv_capacity"], good["loras"]) == (0.63, 4e5, ["sql"])
    assert (gone["eligible"], gone["candidate"], gone["state_reason"]) == (
        False, False, "connection_refused",
    )  # fmt: skip


def test_warming_target_shows_what_it_rises_to():
    """Its health is the score without the ramp, its admission the ramp's progress."""
    views = pool(target(score=30.0, warmup_ratio=0.3, points_lost={"warmup": 70.0}))
    [shown] = asked(SnapshotEndpoint(ports(views))).json["data"]["pools"][0]["targets"]
    assert (shown["score"], shown["health"], shown["admit"]) == (30.0, 100.0, 0.3)


def test_all_choices_are_a_word():
    """``all`` is written as in the configuration."""
    views = dataclasses.replace(chat(2), pick=PickParams(choices=0))
    assert asked(SnapshotEndpoint(ports(views))).json["data"]["pools"][0]["choices"] == "all"


def test_version_that_is_known_is_not_sent_again():
    """If-None-Match with the current tag, strong, weak or among others, or * gets 304."""
    endpoint = Published().endpoint()
    tag = asked(endpoint).headers["etag"]
    for header in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        answer = asked(endpoint, headers=[(b"if-none-match", header.encode())])
        assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", tag)


def test_tags_tell_processes_apart():
    """Version 1 of another process is another snapshot."""
    one, other = Published().endpoint(), Published().endpoint()
    assert asked(one).headers["etag"] != asked(other).headers["etag"]


def test_other_version_is_answered_at_once():
    """Whoever has another version, also a later one of an earlier process, does not wait."""
    for since in (b"0", b"999"):
        answer = asked(Published().endpoint(), b"wait=60s&since=" + since)
        assert answer.json["data"]["version"] == 1


def test_publication_wakes_who_waits():
    """A client that has version 1 gets version 2 when it is published, in whatever thread."""

    async def run():
        published = Published()
        endpoint = published.endpoint()
        waiting = asyncio.ensure_future(ask(endpoint, b"wait=60s&since=1"))
        while not published.calls or not endpoint._waiting:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        await asyncio.to_thread(published.publish)
        return await waiting

    assert asyncio.run(run()).json["data"]["version"] == 2


def test_version_published_while_getting_ready_is_not_missed():
    """A publication between the first look and the waiting ends it."""

    async def run():
        published = Published()
        endpoint = published.endpoint()
        endpoint._loop = asyncio.get_running_loop()
        published.current = snapshot(chat(2), version=2)
        await endpoint._another(1, 60.0)
        return await ask(endpoint)

    assert asyncio.run(asyncio.wait_for(run(), 10)).json["data"]["version"] == 2


def test_time_ends_the_wait():
    """Without a publication the answer is what there is; with the tag it is 304."""
    endpoint = Published().endpoint()
    answer = asked(endpoint, b"wait=20ms&since=1")
    assert answer.json["data"]["version"] == 1
    tag = [(b"if-none-match", answer.headers["etag"].encode())]
    assert asked(endpoint, b"wait=20ms&since=1", tag).status == 304


def test_beyond_a_number_nobody_waits():
    """Waiting clients are bounded: a further one is answered at once, and no future stays."""

    async def run():
        published = Published()
        endpoint = published.endpoint()
        waits = [ask(endpoint, b"wait=60s&since=1") for _ in range(MOST_WAITING)]
        waiting = [asyncio.ensure_future(each) for each in waits]
        while len(endpoint._waiting) < MOST_WAITING:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        early = await asyncio.wait_for(ask(endpoint, b"wait=60s&since=1"), 10)
        published.publish()
        answers = await asyncio.gather(*waiting)
        return early, answers, endpoint._waiting

    early, answers, left = asyncio.run(run())
    assert early.json["data"]["version"] == 1
    assert {answer.json["data"]["version"] for answer in answers} == {2}
    assert left == set()


def test_version_is_rendered_once(monkeypatch):
    """Many who ask for a version share one rendering."""
    rendered = []
    original = SnapshotEndpoint._render
    monkeypatch.setattr(
        SnapshotEndpoint, "_render", lambda *args: rendered.append(1) or original(*args)
    )

    async def run():
        endpoint = Published().endpoint()
        return await asyncio.gather(*(ask(endpoint) for _ in range(20)))

    assert len({answer.body for answer in asyncio.run(run())}) == 1
    assert len(rendered) == 1


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (b"wait=soon", 'wait: must be a duration such as 500ms, 15s or 1m30s, got "soon"'),
        (b"wait=61s", 'wait: must be at most 60s, got "61s"'),
        (b"since=x", 'since: must be a version, which is a whole number, got "x"'),
        (b"since=-1", 'since: must be a version, which is a whole number, got "-1"'),
    ],
)
def test_malformed_wish_is_named(query, message):
    """Name, rule and value."""
    answer = asked(Published().endpoint(), query)
    assert (answer.status, answer.json["error"]) == (400, message)


def test_other_methods_are_refused():
    """The snapshot can be read only; HEAD gets the headers."""
    answer = asked(Published().endpoint(), method="POST")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    head = asked(Published().endpoint(), method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["content-length"]) > 0


def test_daemon_that_has_judged_nothing_has_no_pool():
    """Version 0 is a snapshot, too."""
    answer = asked(SnapshotEndpoint(ports()))
    assert answer.json["data"]["pools"] == []
