"""Envoy with the Lua filters: picks, retries, first tokens, feedback, and no daemon at all."""

import os
import re
import socket
import subprocess
import time

import pytest

from tests.integrations.engines import (
    BUSY,
    CLIENT_KEY,
    SATURATED,
    Behaviour,
    StreamingEngine,
    chat,
)  # fmt: skip
from tests.integrations.envoy_outages import killed_under_load, left_alone_while_it_hangs
from tests.integrations.envoy_stack import Stack, quiet, until
from tests.integrations.load import Load, request

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    stack = Stack(tmp_path_factory.mktemp("lua"), "lua.yaml")
    yield stack
    stack.stop()


@pytest.fixture
def stack(running):
    """Return the stack, with all engines in good health."""
    running.settle()
    return running


def ask(stack, body=None, **headers):
    """Send a request and return its status."""
    return request(stack.envoy.address, body or chat(), headers)[0]


def outcomes(stack, engine):
    """Return the outcomes that the daemon counted for an engine."""
    text = stack.daemon.get("/metrics").text
    found = re.findall(r"^scorer_feedback_total\{(.*)\} (\S+)$", text, re.MULTILINE)
    mine = f'target="{engine.target}"'
    return {
        re.search(r'outcome="(\w+)"', labels)[1]: float(value)
        for labels, value in found
        if mine in labels and float(value)
    }


def grown(stack, engine, before, outcome):
    """Return by how much an outcome was counted since ``before``."""
    return outcomes(stack, engine).get(outcome, 0.0) - before.get(outcome, 0.0)


def costs(stack):
    """Return what errors and saturation cost each target, in points."""
    data = stack.daemon.get("/api/v1/targets").json()["data"]
    lost = {each["target"]: each["points_lost"] for each in data}
    return {name: (round(each["errors"]), round(each["saturation"])) for name, each in lost.items()}


def test_stream_arrives_token_by_token(stack):
    """Not at once at its end; and the IPv6 target takes part."""
    for engine in stack.engines:
        engine.does = Behaviour(tokens=10, gap=0.1)
    finished = []
    with socket.create_connection(stack.envoy.address.split(":")) as sock:
        sock.sendall(head_of(chat()) + chat())
        while b"[DONE]" not in (part := sock.recv(65536)):
            assert part
            finished.append(any(seen.finished for e in stack.engines for seen in e.seen))
    assert len(finished) > 3
    assert not finished[0]
    until(lambda: ask(stack) == 200 and stack.engines[2].seen)


def head_of(body):
    """Return the head of a request."""
    return (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: llm\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()


def test_http2_is_as_good(stack):
    """A stream over HTTP/2 without TLS."""
    done = subprocess.run(
        ["curl", "-sS", "--http2-prior-knowledge", "-w", "%{http_version} %{http_code}",
         "-d", chat().decode(), f"http://{stack.envoy.address}/v1/chat/completions"],
        capture_output=True, text=True, check=True, timeout=20,
    )  # fmt: skip
    assert done.stdout.endswith("2 200")
    assert "[DONE]" in done.stdout


@pytest.mark.parametrize("refusal", [SATURATED, BUSY], ids=["429", "503"])
def test_refusal_is_retried_on_the_alternate(stack, refusal):
    """The client sees none of it, the target is cooled, and never asked twice."""
    full, *_ = stack.engines
    before = outcomes(stack, full)
    full.does = Behaviour(refusal=refusal)
    until(lambda: ask(stack) == 200 and full.seen, 80)
    alternates = full.seen[0].headers["x-scorer-endpoints"].split(",")
    assert alternates[0] == full.target
    (other,) = (each for each in stack.engines if each.target == alternates[1])
    assert other.seen[-1].headers["x-scorer-pick-id"] == full.seen[0].headers["x-scorer-pick-id"]
    assert len(full.seen) == 1
    until(lambda: grown(stack, full, before, "engine_saturated") == 1)
    until(lambda: stack.daemon.target(full.target)["state"] == "cooldown")


def test_limit_of_a_clients_key_passes(stack):
    """After one attempt, with the engine's own body, and changes no score."""
    before = {each.target: outcomes(stack, each) for each in stack.engines}
    until(lambda: costs(stack) == {each.target: (0, 0) for each in stack.engines}, 40)
    cost = costs(stack)
    for engine in stack.engines:
        engine.does = Behaviour(refusal=CLIENT_KEY)
    assert request(stack.envoy.address, chat()) == CLIENT_KEY
    assert sum(stack.served().values()) == 1

    def counted():
        return sum(grown(stack, e, before[e.target], "client_rate_limit") for e in stack.engines)

    until(lambda: counted() == 1)
    time.sleep(0.5)  # two scrapes and a tick
    assert costs(stack) == cost


def test_saturation_in_mid_load_is_not_seen(stack):
    """By any client; and no long prompt goes to a target in cooldown."""
    full, *others = stack.engines
    long = chat(size=20_000)
    with Load(stack.envoy.address) as load:
        time.sleep(0.5)
        full.does = Behaviour(refusal=SATURATED)
        until(lambda: stack.daemon.target(full.target)["state"] == "cooldown")
        full.seen.clear()
        assert [ask(stack, long) for _ in range(30)] == [200] * 30
        assert stack.daemon.target(full.target)["state"] == "cooldown"
        assert [each.size for each in full.seen if each.size > 16_000] == []
        until(lambda: len(load.results) > 100)
    assert load.failed() == []
    assert all(each.seen for each in others)


def test_many_retries_at_a_time(stack):
    """More than Envoy's default of three: a target that fills up under load refuses many."""
    full, *_ = stack.engines
    full.does = Behaviour(refusal=SATURATED)
    for engine in stack.engines[1:]:
        engine.does = Behaviour(head_after=0.05)
    with Load(stack.envoy.address, threads=24, pause=0.0) as load:
        time.sleep(1.0)
    assert load.failed() == []
    assert full.seen
    assert stack.envoy.stat("cluster.chat.upstream_rq_retry_overflow") == 0


def ttft_by_feedback(stack, engine):
    """Return the daemon's signal of an engine's TTFT, if it is from feedback."""
    signal = stack.daemon.target(engine.target)["signals"]["ttft"]
    return signal["source"] == "feedback" and signal


def test_first_token_is_the_engines_own(stack):
    """Not the head, nor the frame with a role alone: between what engines and clients measure."""
    for engine in stack.engines:
        engine.does = Behaviour(head_after=0.05, first_after=0.15, tokens=2, gap=0.05)
    with Load(stack.envoy.address, threads=4) as load:
        until(lambda: min(stack.served().values()) >= 40, 60)
    clients = max(each.first for each in load.results)
    for engine in stack.engines:
        own = [each.ttft for each in engine.seen if each.ttft]
        assert min(own) > 0.19
        # What waits counts as well, as long as the daemon was not told that it has ended.
        told = until(lambda engine=engine: ttft_by_feedback(stack, engine))
        assert min(own) - 0.005 < told["value"] < clients


def test_nothing_is_left_to_tell_when_traffic_stops(stack):
    """Reports wait for other requests in Envoy, and go with the last of them."""

    def told():
        return sum(outcomes(stack, each).get("success", 0.0) for each in stack.engines)

    until(lambda: all(stack.daemon.target(e.target)["in_flight"] == 0 for e in stack.engines))
    before = told()
    with Load(stack.envoy.address, threads=12, pause=0.0) as load:
        time.sleep(1.0)
    assert load.failed() == []
    until(lambda: told() - before == len(load.results), 10)


@pytest.mark.parametrize("size", [300_000, 2_000_000])
def test_big_prompts_pass_and_are_retried(stack, size):
    """As a whole, in both attempts, with and without a length."""
    full, *others = stack.engines
    full.does = Behaviour(refusal=BUSY)
    body = chat(size=size)
    parts = (body[at : at + 50_000] for at in range(0, len(body), 50_000))
    assert request(stack.envoy.address, parts)[0] == 200
    # Engines that answer such prompts at once are learned to be fast: one that was not asked
    # yet then waits for a probe, 30 s for a long prompt.
    until(lambda: ask(stack, body) == 200 and full.seen, 80)
    assert {each.size for engine in stack.engines for each in engine.seen} == {len(body)}
    until(lambda: all(each.finished for engine in others for each in engine.seen), 10)


@pytest.mark.parametrize("after_head", [False, True], ids=["before the head", "after it"])
def test_client_that_leaves_ends_the_request(stack, after_head):
    """The engine is told at once, nobody is blamed, and no lease stays open."""
    before = {each.target: outcomes(stack, each) for each in stack.engines}
    for engine in stack.engines:
        engine.does = Behaviour(head_after=0.0 if after_head else 60.0, tokens=600, gap=0.1)
    with socket.create_connection(stack.envoy.address.split(":")) as sock:
        sock.sendall(head_of(chat()) + chat())
        if after_head:
            assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        until(lambda: sum(stack.served().values()) == 1)
    (engine,) = (each for each in stack.engines if each.seen)
    until(lambda: engine.seen[0].aborted)
    stack.reset()
    until(lambda: stack.daemon.target(engine.target)["in_flight"] == 0, 30)
    assert all(grown(stack, each, before[each.target], "engine_fault") == 0
               for each in stack.engines)  # fmt: skip


def test_client_cannot_choose(stack):
    """Its own x-scorer headers, and those for Envoy, change nothing."""
    wish = {"X-Scorer-Endpoints": stack.engines[0].target, "X-Scorer-Pick-Id": "1x"}
    for _ in range(30):
        assert ask(stack, None, **wish) == 200
    assert stack.engines[1].seen or stack.engines[2].seen
    assert all(each.headers["x-scorer-pick-id"] != "1x" for e in stack.engines for each in e.seen)


def test_daemon_killed_under_load_fails_nothing(stack):
    """Envoy goes on by itself at the same speed, evenly; a new daemon is asked at once."""
    killed_under_load(stack, 1.5, 2.0)


def test_daemon_that_hangs_is_left_alone(stack):
    """A few requests wait 20 ms for it, all others nothing; when it goes on it is asked again."""
    left_alone_while_it_hangs(stack, 12)


def test_targets_come_and_go(stack):
    """As discovery finds them, without a restart; a stream on one that left goes on to its end."""
    stack.spare.does = Behaviour(tokens=20, gap=0.1)
    stack.list_targets([*stack.engines, stack.spare])
    until(lambda: stack.spare.target in stack.envoy.endpoints())
    with Load(stack.envoy.address, threads=12) as load:
        until(lambda: stack.spare.seen, 30)
        stack.list_targets(stack.engines)
        until(lambda: stack.spare.target not in stack.envoy.endpoints())
        until(lambda: quiet(stack.spare))
    assert load.failed() == []
    until(lambda: all(each.finished for each in stack.spare.seen))


def test_broken_connection_is_retried_and_told(stack):
    """An engine that hangs up is at fault; a working one comes back by itself."""
    bad, *_ = stack.engines
    before = outcomes(stack, bad)
    bad.does = Behaviour(broken=True)
    # Many at a time: those that come after the next judgement may spare it for half a minute.
    with Load(stack.envoy.address, threads=12, pause=0.0) as load:
        until(lambda: grown(stack, bad, before, "engine_fault") >= 3)
    assert load.failed() == []
    until(lambda: stack.daemon.target(bad.target)["signals"]["errors"]["value"] > 0)
    stack.reset()
    until(lambda: ask(stack) == 200 and bad.seen, 40)


def test_last_attempt_without_an_answer_is_told(running):
    """In Envoy's words, from the answer that Envoy makes."""
    doomed = StreamingEngine()
    running.list_targets([doomed])
    until(lambda: set(running.envoy.endpoints()) == {doomed.target})
    assert ask(running) == 200
    doomed.does = Behaviour(broken=True)
    assert ask(running) == 503
    # A report may be late for Envoy's deadline and lost; the next one tells the same.
    until(lambda: outcomes(running, doomed).get("engine_fault") or ask(running) != 503)
    assert outcomes(running, doomed)["engine_fault"]
    doomed.close()


def test_log_of_envoy_has_no_error_of_ours(running):
    """No Lua error and no refused update in all of the above."""
    for envoy in running.envoys:
        text = envoy.log_path.read_text()
        assert "script log" not in text
        assert "rejected" not in text
        assert os.path.getsize(envoy.log_path) < 100_000  # noqa: PTH202
