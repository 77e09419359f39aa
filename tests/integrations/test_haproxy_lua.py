"""HAProxy with its Lua: the shipped configuration, a real daemon, engines that misbehave."""

import asyncio
import json
import signal
import subprocess
import time

import pytest
import requests

from tests.integrations import engine as ways
from tests.integrations.chance import idle, repeat
from tests.integrations.client import Connection, Reply, ask, ask_many
from tests.integrations.engine import Engine, Exchange
from tests.integrations.haproxy import EXAMPLES, passes_tokens_on, until
from tests.integrations.haproxy_world import TLS_PORT, World, running
from tests.invoked import invoked
from tests.system.conftest import pool_of

pytestmark = pytest.mark.system

CLOSE_ENOUGH = 0.010
"""Seconds by which a time to first token may differ from the engine's own."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Start everything once."""
    with running(tmp_path_factory.mktemp("haproxy")) as made:
        yield made


@pytest.fixture(autouse=True)
def rested(world: World):
    """Undo what a test did to engines, and let all be told that it led to."""
    yield
    world.rest()
    until(lambda: idle(world.daemon))


def test_shipped_lua_is_loaded_per_thread():
    """Loaded once, all threads would wait for one lock; and what forbids yielding is not used."""
    lines = [line.split("#")[0].split() for line in (EXAMPLES / "lua.cfg").read_text().splitlines()]
    words = {line[0] for line in lines if line}
    assert "lua-load-per-thread" in words
    assert "lua-load" not in words
    assert ["option", "abortonclose"] in lines


def test_streams_reach_every_target(world: World):
    """IPv6 too; each by a pick of the daemon; connections to clients and engines are kept."""
    ask_many(world.port, 30)  # connections are opened at first, by each thread
    before = sum(each.connections for each in world.engines)
    # Eight at once are more than an engine has connections left over for in each thread.
    replies = ask_many(world.port, 90, 4)
    assert [reply for reply in replies if not reply.complete] == []
    assert {reply.engine for reply in replies} == {each.target for each in world.engines}
    assert world.value('gateway_picks_total{by="daemon"}') >= 90
    assert "gateway_pick_misses_total" not in world.page()
    opened = sum(each.connections for each in world.engines) - before
    assert opened < 45


def test_tokens_are_not_held_back(world: World):
    """Each one arrives before the next is sent, not with it in a fuller packet."""
    assert passes_tokens_on(world.port, world.engines)


def test_first_token_is_timed_as_the_engine_does(world: World):
    """A role-only frame long before it does not count."""
    for each in world.engines:
        each.first_after = 0.15
    # On a busy machine each may be late by itself: of several rounds one must agree.
    differences = [ttft_differences(world) for _ in range(5)]
    for each in world.engines:
        each.first_after = 0.03
    assert min(max(round_) for round_ in differences) < CLOSE_ENOUGH, differences
    for each in world.engines:
        until(lambda each=each: source(world, each) == "feedback")


def source(world: World, engine: Engine) -> str:
    """Return what the daemon goes by for an engine's TTFT; not its age, when nothing waits."""
    return str(world.daemon.target(engine.target)["signals"]["ttft"]["source"])


def ttft_differences(world: World) -> list[float]:
    """Return by how many seconds HAProxy's mean differs from each engine's own."""
    for each in world.engines:
        each.ttfts.clear()
    series = [f'{{pool="chat",target="{each.target}"}}' for each in world.engines]
    before = [
        (
            world.value(f"gateway_ttft_seconds_sum{of}"),
            world.value(f"gateway_ttft_seconds_count{of}"),
        )
        for of in series
    ]
    ask_many(world.port, 12, 3)
    found = []
    for each, of, (total, count) in zip(world.engines, series, before, strict=True):
        if each.ttfts:
            counted = len(each.ttfts)
            # Answers are counted when they have ended, a moment after their clients have them.
            counts = f"gateway_ttft_seconds_count{of}"
            until(lambda counts=counts, now=count + counted: world.value(counts) == now)
            mean = (world.value(f"gateway_ttft_seconds_sum{of}") - total) / counted
            found.append(abs(mean - sum(each.ttfts) / counted))
    return found


def test_leases_are_closed_by_feedback(world: World):
    """Every request is told of, so none is thought to be under way, and none got lost."""
    ask_many(world.port, 20)
    for each in world.engines:
        until(lambda each=each: world.daemon.target(each.target)["in_flight"] == 0)
    page = world.daemon.get("/metrics?name[]=scorer_leases_lost_total").text
    assert all(line.startswith("#") or line.endswith(" 0.0") for line in page.splitlines())
    rejected = world.daemon.get("/metrics?name[]=scorer_feedback_rejected_total").text
    assert all(line.startswith("#") or line.endswith(" 0.0") for line in rejected.splitlines())


@pytest.mark.parametrize("size", [300_000, 2_000_000])
def test_large_prompts_pass_whole(world: World, size: int):
    """Larger than a buffer; the pick is told their length."""
    reply = ask(world.port, size)
    assert reply.complete
    engine = next(each for each in world.engines if each.target == reply.engine)
    assert engine.asked[-1] == size
    [decision] = world.daemon.get("/api/v1/decisions?limit=1").json()["data"]
    assert decision["prompt_tokens"] == size // 4


def test_metrics_are_read_by_the_preset(world: World):
    """`scorer doctor` finds TTFT and answers by target, and the page has Prometheus' type."""
    repeat(
        lambda: ask_many(world.port, 6),
        1,
        lambda: all(f'target="{each.target}"' in world.page() for each in world.engines),
    )
    url = f"http://127.0.0.1:{world.haproxy.ports[9813]}/metrics"
    assert requests.get(url, timeout=5).headers["content-type"].startswith("text/plain; version")
    done = invoked("doctor", url, "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(each.target in done.stdout for each in world.engines)
    linted = subprocess.run(
        ["promtool", "check", "metrics"], input=world.page(), capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_full_engine_is_not_seen_by_clients(world: World):
    """429 "KV cache exhausted" is tried elsewhere; the target cools down without long prompts."""
    full = world.engines[0]
    full.way = ways.refuses(429, ways.SATURATED, body_late=True)
    replies: list[Reply] = []
    repeat(
        lambda: replies.extend(ask_many(world.port, 8)),
        5,
        lambda: world.outcomes(full.target).get("engine_saturated", 0) > 0,
        lambda: f"{world.haproxy.log} {world.daemon.log}",
    )
    assert [reply for reply in replies if not reply.complete] == []
    refused = len(full.asked)
    began = time.monotonic()
    until(lambda: world.daemon.target(full.target)["state"] == "cooldown")
    while time.monotonic() - began < 2.0:
        ask_many(world.port, 8, size=30_000)
    assert [size for size in full.asked[refused:] if size >= 16_384] == []
    assert world.value(f'gateway_retries_total{{pool="chat",target="{full.target}"}}') > 0
    errors = world.daemon.target(full.target)["last_errors"]
    assert "saturation_words" in json.dumps(errors)


def test_key_limit_passes_and_costs_nothing(world: World):
    """429 of a client's own limit: it gets it once, unchanged, and no target is blamed."""
    for each in world.engines:
        each.way = ways.refuses(429, ways.KEY_LIMIT, body_late=True)
    asked = sum(len(each.asked) for each in world.engines)
    states = [world.daemon.target(each.target)["state"] for each in world.engines]
    replies = ask_many(world.port, 12, 3)
    assert {(reply.status, reply.body) for reply in replies} == {(429, ways.KEY_LIMIT)}
    assert sum(len(each.asked) for each in world.engines) - asked == 12
    until(
        lambda: (
            sum(world.outcomes(e.target).get("client_rate_limit", 0) for e in world.engines) == 12
        )
    )
    time.sleep(0.6)  # the next judgement has taken it
    after = [world.daemon.target(each.target)["state"] for each in world.engines]
    assert ["cooldown" for state in after if state == "cooldown"] == [
        "cooldown" for state in states if state == "cooldown"
    ]


def test_pool_that_is_full_says_so(world: World):
    """When the other one is full as well, the client gets that status and its body."""
    for each in world.engines:
        each.way = ways.refuses(429, ways.SATURATED, retry_after="3")
    reply = ask(world.port)
    assert (reply.status, reply.body) == (429, ways.SATURATED)
    assert reply.headers["retry-after"] == "3"
    assert not [name for name in reply.headers if name.startswith("x-scorer")]


@pytest.mark.parametrize(
    ("way", "outcome"),
    [
        (ways.refuses(503, b'{"error":"busy doing nothing"}'), "engine_fault"),
        (ways.hangs_up, "engine_fault"),
    ],
    ids=["503", "no answer"],
)
def test_failed_attempt_is_tried_on_another_target(world: World, way, outcome):
    """Never again on the one that failed; each attempt is told of by itself."""
    bad = world.best()
    counted = world.outcomes(bad.target).get(outcome, 0)
    bad.way = way
    asked = len(bad.asked)
    replies: list[Reply] = []
    # Many at once: those that come after the next judgement may spare it for half a minute.
    repeat(
        lambda: replies.extend(ask_many(world.port, 24, 24)),
        1,
        lambda: len(bad.asked) >= asked + 3,
    )
    assert [reply for reply in replies if not reply.complete] == []
    assert bad.target not in {reply.engine for reply in replies}
    world.told(bad.target, outcome, counted)


@pytest.mark.parametrize("after_head", [False, True], ids=["before the head", "after the head"])
def test_client_that_leaves_ends_the_work(world: World, after_head: bool):
    """The engine is told at once; no target is blamed."""

    async def slow(engine: Engine, exchange: ways.Exchange) -> None:
        if after_head:
            await exchange.start(engine.target)
            await exchange.event({"choices": [{"delta": {"content": "one"}}]})
        await asyncio.sleep(30)

    async def leave() -> None:
        connection = Connection(world.port)
        await connection.send()
        came = lambda: sum(len(each.asked) for each in world.engines) > asked  # noqa: E731
        await asyncio.to_thread(until, came)
        if after_head:
            await connection.head(b'"one"')
        connection.close()

    faults = [world.outcomes(each.target).get("engine_fault", 0) for each in world.engines]
    left = sum(each.left for each in world.engines)
    asked = sum(len(each.asked) for each in world.engines)
    outcome = "success" if after_head else "client_abort"

    def counted() -> float:
        return sum(world.outcomes(each.target).get(outcome, 0) for each in world.engines)

    before = counted()
    for each in world.engines:
        each.way = slow
    asyncio.run(leave())
    until(lambda: sum(each.left for each in world.engines) == left + 1, 10)
    until(lambda: counted() == before + 1)
    assert [world.outcomes(e.target).get("engine_fault", 0) for e in world.engines] == faults


def curl(world: World, over: str, *arguments: str, body: bytes, count: int = 1):
    """Send chat requests by HTTP/2, all at a time on one connection."""
    return subprocess.run(
        curl_command(world, over, *arguments, count=count),
        input=body, capture_output=True, timeout=20, check=False,
    )  # fmt: skip


def curl_command(world: World, over: str, *arguments: str, count: int = 1) -> list[str]:
    """Return the command of :func:`curl`."""
    tls = over == "h2"
    port = world.haproxy.ports[TLS_PORT] if tls else world.port
    how = (
        ["--http2", "-Z", "--cacert", str(world.haproxy.path.with_name("ca.pem"))]
        if tls
        else ["--http2-prior-knowledge"]
    )
    url = f"http{'s' * tls}://127.0.0.1:{port}/v1/chat/completions"
    command = ["curl", "-sS", *how, "-X", "POST", "-w", "%{http_version} %{http_code}\\n"]
    return [*command, *arguments, *[url] * count]


@pytest.fixture(params=["h2", "h2c"])
def over(request) -> str:
    """HTTP/2 by TLS, and without."""
    return request.param


@pytest.mark.parametrize("upload", [["--data-binary", "@-"], ["-T", "-"]], ids=["length", "none"])
def test_http2_carries_large_prompts(world: World, over: str, upload: list[str]):
    """Whole, with and without a length, timed and told like those of HTTP/1.1."""
    body = json.dumps({"stream": True, "prompt": "x" * 300_000}).encode()
    asked = [len(each.asked) for each in world.engines]
    told = sum(world.outcomes(each.target).get("success", 0) for each in world.engines)
    timed = sum_of(world, "gateway_ttft_seconds_count")
    done = curl(world, over, *upload, body=body)
    assert done.stdout.endswith(b"data: [DONE]\n\n2 200\n"), done.stderr
    [size] = [
        size
        for each, before in zip(world.engines, asked, strict=True)
        for size in each.asked[before:]
    ]
    assert size == len(body)
    until(lambda: sum_of(world, "gateway_ttft_seconds_count") == timed + 1)
    until(
        lambda: sum(world.outcomes(e.target).get("success", 0) for e in world.engines) == told + 1
    )


def sum_of(world: World, family: str) -> float:
    """Return the sum of a family of HAProxy's metrics."""
    lines = (line.rpartition(" ") for line in world.page().splitlines())
    return sum(float(value) for name, _, value in lines if name.startswith(family + "{"))


def test_http2_streams_are_picked_for_one_by_one(world: World, over: str):
    """Requests on one connection go to several engines; a refusal is tried elsewhere."""
    count = 10 if over == "h2" else 1  # curl 7.88 uses no connection twice that began as h2c
    bad = world.best()
    bad.way = ways.refuses(503, b'{"error":"busy doing nothing"}')
    before = [len(each.asked) for each in world.engines]
    asked: dict[str, int] = {}
    sent = 0
    while not (asked.get(bad.target) and len(asked) > 1):
        done = curl(world, over, "--data-binary", "@-", body=b'{"stream":true}', count=count)
        assert done.stdout.count(b"2 200\n") == done.stdout.count(b"data: [DONE]") == count
        sent += count
        assert sent < 400
        more = [len(e.asked) - had for e, had in zip(world.engines, before, strict=True)]
        asked = {e.target: n for e, n in zip(world.engines, more, strict=True) if n}
    assert sum(asked.values()) > sent


@pytest.mark.parametrize("after_head", [False, True], ids=["before the head", "after the head"])
def test_client_of_http2_that_leaves_ends_the_work(world: World, over: str, after_head: bool):
    """The engine is told at once; no target is blamed."""

    async def slow(engine: Engine, exchange: ways.Exchange) -> None:
        if after_head:
            await exchange.start(engine.target)
            await exchange.event({"choices": [{"delta": {"content": "one"}}]})
        await asyncio.sleep(30)

    faults = [world.outcomes(each.target).get("engine_fault", 0) for each in world.engines]
    left = sum(each.left for each in world.engines)
    asked = sum(len(each.asked) for each in world.engines)
    for each in world.engines:
        each.way = slow
    command = curl_command(world, over, "-N", "--data-binary", '{"stream":true}')
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        try:
            until(lambda: sum(len(each.asked) for each in world.engines) > asked)
            if after_head:
                client.stdout.read(1)
        finally:
            client.kill()
    until(lambda: sum(each.left for each in world.engines) == left + 1, 10)
    until(lambda: all(world.daemon.target(e.target)["in_flight"] == 0 for e in world.engines))
    assert [world.outcomes(e.target).get("engine_fault", 0) for e in world.engines] == faults


@pytest.mark.parametrize(
    ("way", "status"),
    [(ways.stops_midway, 200), (ways.says_nothing, 200), (ways.fails_in_stream, 200)],
    ids=["broken off", "no token", "error event"],
)
def test_stream_that_fails_is_a_fault(world: World, way, status: int):
    """Though it began with 200: broken off, without a token, or with an error in it."""
    bad = world.best()
    counted = world.outcomes(bad.target).get("engine_fault", 0)
    bad.way = way
    asked = len(bad.asked)
    for _ in range(200):
        assert ask(world.port).status == status
        if len(bad.asked) > asked:
            break
    world.told(bad.target, "engine_fault", counted)


def test_answer_to_head_is_no_stream_without_a_token(world: World):
    """It has the head of a stream, and no body by rule."""

    async def begins(_: Engine, exchange: Exchange) -> None:
        exchange.writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        await exchange.writer.drain()

    def successes() -> float:
        return sum(world.outcomes(each.target).get("success", 0) for each in world.engines)

    before = successes()
    for each in world.engines:
        each.way = begins
    assert requests.head(f"http://127.0.0.1:{world.port}/events", timeout=30).status_code == 200
    until(lambda: successes() == before + 1)


def test_target_that_refuses_connections_is_passed_by(world: World):
    """Even a prompt larger than a buffer is sent to another one; drained targets get nothing."""
    for each in world.engines[:2]:
        url = f"{world.daemon.url}/api/v1/targets/{each.target}/undrain"
        world.daemon.http.post(url, json={})
    gone = Engine()
    gone.close()
    config = pool_of(*(each.target for each in world.engines[:2]), gone.target)
    feedback = {"udp": {"listen": f"127.0.0.1:{world.haproxy.ports[9809]}"}}
    world.daemon.write({**config, "feedback": feedback})
    world.daemon.signal(signal.SIGHUP)
    until(lambda: gone.target in world.daemon.get("/api/v1/targets").text)
    replies = [ask(world.port, 300_000 if number % 2 else 100) for number in range(30)]
    assert [reply for reply in replies if not reply.complete] == []
    assert {reply.engine for reply in replies} <= {each.target for each in world.engines[:2]}


def test_targets_come_and_go_without_haproxy(world: World):
    """HAProxy's configuration names none of them."""
    new = Engine()
    feedback = {"udp": {"listen": f"127.0.0.1:{world.haproxy.ports[9809]}"}}
    world.daemon.write({**pool_of(new.target), "feedback": feedback})
    world.daemon.signal(signal.SIGHUP)
    until(lambda: world.daemon.get("/pick?format=text").text == new.target)
    try:
        replies = ask_many(world.port, 12)
        assert {(reply.complete, reply.engine) for reply in replies} == {(True, new.target)}
    finally:
        targets = [each.target for each in world.engines]
        world.daemon.write({**pool_of(*targets), "feedback": feedback})
        world.daemon.signal(signal.SIGHUP)
        until(lambda: new.target not in world.daemon.get("/api/v1/targets").text)
        new.close()


def test_drained_pool_is_refused(world: World):
    """503 with Retry-After, not a guess."""
    for each in world.engines:
        url = f"{world.daemon.url}/api/v1/targets/{each.target}/drain"
        assert world.daemon.http.post(url, json={"duration": "1m"}).status_code == 200
    until(lambda: world.daemon.get("/pick").status_code == 503)
    try:
        # As long as HAProxy's snapshot does not say so, it may be better than the daemon's word.
        reply = until(lambda: (reply := ask(world.port)).status == 503 and reply, 5)
        assert reply.headers["retry-after"] == "1"
    finally:
        for each in world.engines:
            url = f"{world.daemon.url}/api/v1/targets/{each.target}/undrain"
            world.daemon.http.post(url, json={})
