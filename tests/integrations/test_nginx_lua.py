"""nginx with scorer's Lua: what a client sees, and what the daemon is told."""

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection, IncompleteRead
from itertools import count
from typing import Any

import pytest

from tests.integrations.chance import idle, order, repeat
from tests.integrations.nginx_rig import ROOT as SOURCE
from tests.integrations.nginx_rig import Engine, Load, Nginx, event_loop, send, until
from tests.invoked import invoked
from tests.system.conftest import DaemonProcess, free_port

pytestmark = pytest.mark.system

EXHAUSTED = b'{"error":{"message":"KV cache exhausted, try again","type":"server_error"}}'
KEY_LIMIT = (
    b'{"error":{"message":"Rate limit reached for your API key","code":"rate_limit_exceeded"}}'
)


@dataclass
class Rig:
    """nginx, the daemon and three engines, the last of them on IPv6."""

    nginx: Nginx
    daemon: DaemonProcess
    engines: list[Engine]
    loop: asyncio.AbstractEventLoop

    def behave(self, **changes: Any) -> None:
        """Let all engines answer alike."""
        for engine in self.engines:
            engine.behave(**changes)

    def seen(self) -> list[Any]:
        """Return the requests that the engines saw, as pairs of engine and request."""
        return [(engine, each) for engine in self.engines for each in engine.seen]

    def feedback(self, target: str, outcome: str) -> float:
        """Return how many outcomes of a class the daemon was told of a target."""
        page = self.daemon.get("/metrics").text
        wanted = (f'target="{target}"', f'outcome="{outcome}"')
        lines = [line for line in page.splitlines() if line.startswith("scorer_feedback_total{")]
        return sum(float(line.split()[-1]) for line in lines if all(w in line for w in wanted))

    def rejected(self) -> float:
        """Return how many items the daemon refused."""
        page = self.daemon.get("/metrics").text.splitlines()
        lines = [line for line in page if line.startswith("scorer_feedback_rejected_total{")]
        return sum(float(line.split()[-1]) for line in lines)

    def targets(self) -> list[dict[str, Any]]:
        """Return what the daemon says of all targets."""
        found: list[dict[str, Any]] = self.daemon.get("/api/v1/targets").json()["data"]
        return found

    def best(self) -> Engine:
        """Return the engine with the highest score: no other one is picked more often."""
        return max(self.engines, key=lambda each: float(self.daemon.target(each.target)["score"]))

    def fit(self) -> bool:
        """Return whether each engine may be picked.

        One that failed too often needs a request that ends well; an order is judged at once.
        """
        for engine in self.engines:
            order(self.daemon, "end-cooldown", engine.target)
        if all(each["eligible"] for each in self.targets()):
            return True
        self.nginx.post()
        return False


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("nginx")
    with event_loop() as loop:
        engines = [Engine(loop), Engine(loop), Engine(loop, "::1")]
        metrics_port = free_port()
        targets = [engine.target for engine in engines]
        config = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "400ms"},
            "pools": [{"name": "chat", "static_configs": [{"targets": targets}]}],
            "gateways": [
                {
                    "name": "edge",
                    "preset": "nginx",
                    "metrics_url": f"http://127.0.0.1:{metrics_port}/metrics",
                }
            ],
        }
        daemon = DaemonProcess(folder, config)
        nginx = None
        try:
            daemon.ready()
            quoted = ", ".join(f'"{target}"' for target in targets)
            nginx = Nginx(folder, "lua.conf", {
                "/opt/scorer": str(SOURCE),
                '"127.0.0.1:9808"': f'"{daemon.url.removeprefix("http://")}"',
                '"10.0.0.1:8000", "10.0.0.2:8000"': quoted,
                "127.0.0.1:9145": f"127.0.0.1:{metrics_port}",
                # A busy machine answers picks later, which is another test's matter.
                'pool = "chat",': 'pool = "chat", deadline = 5.0,',
            })  # fmt: skip
            nginx.metrics_port = metrics_port
            yield Rig(nginx, daemon, engines, loop)
            assert nginx.alarms == []
        finally:
            if nginx:
                nginx.close()
            daemon.process.kill()
            daemon.process.wait(5)
            daemon.http.close()
            for engine in engines:
                engine.stop()


@pytest.fixture(autouse=True)
def calm(rig: Rig) -> Iterator[None]:
    """Start each test with well-behaved engines that may be picked, and no request under way."""
    rig.behave()
    until(rig.fit, what=rig.targets)
    until(lambda: idle(rig.daemon), what=lambda: rig.daemon.log[-2000:])
    rig.behave()
    yield
    rig.behave()
    until(lambda: idle(rig.daemon), what=lambda: rig.daemon.log[-2000:])


def test_a_stream_passes_whole(rig: Rig):
    """Every event arrives, in order, and the request goes to one engine."""
    status, body = rig.nginx.post()
    assert status == 200
    assert [body.count(f"tok{n} ".encode()) for n in range(4)] == [1, 1, 1, 0]
    assert body.endswith(b"data: [DONE]\n\n")
    assert len(rig.seen()) == 1


def test_tokens_are_not_held_back(rig: Rig):
    """The first token arrives while the engine still makes others."""
    rig.behave(between=0.2, tokens=6)
    connection = rig.nginx.connect()
    answer = send(connection)
    while b"tok0" not in answer.readline():
        pass
    [(_, seen)] = rig.seen()
    assert not seen.done
    assert b"tok5" in answer.read()
    until(lambda: seen.done)
    connection.close()


def test_all_engines_get_requests_also_by_ipv6(rig: Rig):
    """Each of three idle engines is picked."""

    def request() -> None:
        assert rig.nginx.post()[0] == 200

    repeat(request, 30, lambda: all(len(engine.seen) >= 3 for engine in rig.engines))


def test_connections_to_engines_are_kept(rig: Rig):
    """Forty requests one after the other need a connection per engine and worker at most."""
    before = [engine.connections for engine in rig.engines]
    for _ in range(40):
        rig.nginx.post()
    made = [engine.connections - count for engine, count in zip(rig.engines, before, strict=True)]
    assert sum(made) <= 6


def test_a_limit_of_the_clients_key_passes_and_changes_no_score(rig: Rig):
    """429 with status and body reaches the client; no engine is blamed for it."""
    until(lambda: all(t["state"] == "healthy" for t in rig.targets()), what=rig.targets)
    told = sum(rig.feedback(e.target, "client_rate_limit") for e in rig.engines)
    rig.behave(status=429, body=KEY_LIMIT, headers={"x-ratelimit-remaining-requests": "0"})
    for _ in range(5):
        assert rig.nginx.post() == (429, KEY_LIMIT)
    rates = [(e.target, "client_rate_limit") for e in rig.engines]
    until(lambda: sum(rig.feedback(*rate) for rate in rates) == told + 15)
    time.sleep(1.2)  # two judgements
    lost = [t["points_lost"] for t in rig.targets()]
    assert [(each["errors"], each["saturation"], each["cap"]) for each in lost] == [(0, 0, 0)] * 3
    assert [t["state"] for t in rig.targets()] == ["healthy"] * 3


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_refused_request_goes_to_another_engine(rig: Rig, status: int):
    """Clients see nothing of it, and no request comes back to the engine that refused it."""
    refusing, numbers = rig.best(), count()
    refusing.behave(status=status, body=EXHAUSTED)

    def request() -> None:
        assert rig.nginx.post(headers={"X-Number": str(next(numbers))})[0] == 200

    sent = repeat(request, 15, lambda: refusing.seen, rig.targets)
    asked = [(engine.target, each.headers["x-number"]) for engine, each in rig.seen()]
    assert len(asked) == len(set(asked))
    assert len(asked) == sent + len(refusing.seen)


def test_a_dead_engine_costs_no_request(rig: Rig):
    """Refused connections, and kept ones that are gone, are tried elsewhere."""
    for _ in range(6):
        rig.nginx.post()
    rig.engines[1].stop()
    try:
        assert [rig.nginx.post()[0] for _ in range(12)] == [200] * 12
    finally:
        rig.engines[1].start()
    until(lambda: rig.daemon.target(rig.engines[1].target)["eligible"])


def test_when_all_refuse_the_client_gets_the_last_answer(rig: Rig):
    """Each engine is asked once; status and body of the last one pass."""
    rig.behave(status=503, body=EXHAUSTED, headers={"Retry-After": "1"})
    assert rig.nginx.post() == (503, EXHAUSTED)
    assert sorted(len(engine.seen) for engine in rig.engines) == [1, 1, 1]


@pytest.mark.parametrize("size", [300_000, 2_000_000])
def test_a_large_prompt_is_retried_whole(rig: Rig, size: int):
    """Each engine that is asked gets all of it, buffered or in a file; its length is told."""
    rig.behave(status=503, body=b"{}")
    rig.nginx.post(size=size)
    lengths = {each.length for _, each in rig.seen()}
    assert len(rig.seen()) == 3
    assert len(lengths) == 1
    assert min(lengths) > size
    [decision] = rig.daemon.get("/api/v1/decisions?limit=1").json()["data"]
    assert decision["prompt_tokens"] == -(-min(lengths) // 4)


@pytest.mark.parametrize(
    ("manner", "outcome"),
    [
        ({"role_at": 9.0, "first": 9.0}, "client_abort"),
        ({"first": 9.0}, "client_abort"),
        ({"between": 9.0}, "success"),
    ],
    ids=["before the head", "before the first token", "after the first token"],
)
def test_a_client_that_leaves_is_no_fault(rig: Rig, manner: dict[str, float], outcome: str):
    """The engine is told at once, the lease ends, and nobody counts a failure."""
    rig.behave(**manner)
    told = [
        (rig.feedback(e.target, outcome), rig.feedback(e.target, "engine_fault"))
        for e in rig.engines
    ]
    connection = rig.nginx.connect()
    connection.request("POST", "/v1/x", json.dumps({"stream": True}))
    [(engine, seen)] = until(rig.seen)
    before = told[rig.engines.index(engine)]
    if manner.get("role_at") != 9.0:
        answer = connection.getresponse()
        if "between" in manner:
            until(lambda: b"tok0" in answer.readline())
        answer.close()
    connection.close()
    until(lambda: seen.left, 8.0)
    until(lambda: rig.feedback(engine.target, outcome) > before[0], what=lambda: rig.daemon.log)
    assert rig.feedback(engine.target, "engine_fault") == before[1]


@pytest.mark.parametrize("after", [0, 2])
def test_a_stream_that_breaks_off_is_the_engines_fault(rig: Rig, after: int):
    """Before the first token or after it: the client notices, the daemon hears of a fault."""
    rig.behave(breaks_after=after, first=0.05, between=0.05)
    before = {each.target: rig.feedback(each.target, "engine_fault") for each in rig.engines}
    connection = rig.nginx.connect()
    answer = send(connection)
    with pytest.raises(IncompleteRead):
        answer.read()
    connection.close()
    [(engine, _)] = rig.seen()
    until(lambda: rig.feedback(engine.target, "engine_fault") == before[engine.target] + 1)


def test_a_frame_with_a_role_alone_is_no_token(rig: Rig):
    """TTFT is the time of the first content, in the histogram and in what the daemon learns."""
    rig.behave(first=0.4)
    rig.nginx.settled()
    before = rig.nginx.total("gateway_ttft_seconds_sum")
    done = rig.nginx.total("gateway_ttft_seconds_count")
    connection, began = rig.nginx.connect(), time.monotonic()
    answer = send(connection)
    while b"tok0" not in answer.readline():
        pass
    came = time.monotonic() - began
    answer.read()
    connection.close()
    until(lambda: rig.nginx.total("gateway_ttft_seconds_count") == done + 1)
    assert 0.39 < rig.nginx.total("gateway_ttft_seconds_sum") - before < came + 0.01
    [(engine, _)] = rig.seen()

    def learned() -> bool:
        signal = rig.daemon.target(engine.target)["signals"]["ttft"]
        return bool(signal["source"] == "feedback" and signal["value"] > 0.01)

    until(learned, what=rig.targets)


def test_an_answer_that_is_no_stream_has_no_ttft(rig: Rig):
    """A whole answer that took its time is a success without a first token."""
    rig.nginx.settled()
    before = rig.nginx.total("gateway_ttft_seconds_count")
    done = rig.nginx.total("gateway_requests_total")
    assert rig.nginx.post(stream=False)[0] == 200
    until(lambda: rig.nginx.total("gateway_requests_total") == done + 1)
    assert rig.nginx.total("gateway_ttft_seconds_count") == before


@pytest.mark.parametrize(
    "body", [b'{"error":"' + b"x" * 100_000 + b'"}', b"\xff\xfe caf\xe9" * 900]
)
def test_errors_of_any_kind_reach_the_daemon(rig: Rig, body: bytes):
    """The client gets all of a body, the daemon its first 4 KiB, even when that is no UTF-8."""
    rig.behave(status=400, body=body)
    refused = rig.rejected()
    before = sum(rig.feedback(each.target, "client_error") for each in rig.engines)
    assert rig.nginx.post() == (400, body)
    until(lambda: sum(rig.feedback(e.target, "client_error") for e in rig.engines) == before + 1)
    assert rig.rejected() == refused
    assert rig.nginx.metrics().get(("gateway_feedback_items_total", "refused"), 0) == 0


def test_headers_of_a_client_do_not_steer_picks(rig: Rig):
    """What a client sends as X-Scorer-… never reaches the daemon."""
    steering = {
        "X-Scorer-Pool": "none",
        "X-Scorer-Exclude": ",".join(e.target for e in rig.engines),
    }
    assert rig.nginx.post(headers=steering)[0] == 200


def test_an_exhausted_engine_in_mid_load(rig: Rig):
    """Clients see none of its 429s, it is in cooldown, and no long prompt reaches it for 3 s."""
    full = rig.engines[0]
    load = Load(rig.nginx, clients=6)
    with load.running():
        until(lambda: len(full.seen) > 20)
        full.behave(status=429, body=EXHAUSTED)  # before its page says so and it is spared
        full.figures = {"kv_cache": 0.97, "waiting": 4, "running": 30}
        until(lambda: rig.daemon.target(full.target)["state"] == "cooldown", what=rig.targets)
        began = time.monotonic()
        full.behave(status=429, body=EXHAUSTED)
        while time.monotonic() < began + 3:
            assert rig.nginx.post(size=40_000)[0] == 200
            time.sleep(0.05)
    assert load.failures == []
    assert max((each.length for each in full.seen), default=0) < 40_000
    full.figures = {}
    full.behave()


@pytest.mark.parametrize("upload", [["--data-binary", "@-"], ["-T", "-"]], ids=["length", "none"])
def test_http2_streams_with_and_without_a_length(rig: Rig, upload: list[str]):
    """A body of 300 KB arrives whole, also when the client does not tell its length."""
    body = json.dumps({"stream": True, "prompt": "x" * 300_000}).encode()
    before = rig.nginx.total("gateway_ttft_seconds_count")
    done = rig.nginx.curl(*upload, body=body)
    assert done.stdout.endswith(b"data: [DONE]\n\n"), done.stderr
    [(_, seen)] = rig.seen()
    assert seen.length == len(body)
    until(lambda: rig.nginx.total("gateway_ttft_seconds_count") > before)


def test_http2_refusals_are_retried(rig: Rig):
    """As with HTTP/1.1."""
    rig.engines[0].behave(status=503, body=EXHAUSTED)
    rig.engines[1].behave(status=429, body=EXHAUSTED)

    def request() -> None:
        done = rig.nginx.curl("--data-binary", "@-", body=b'{"stream":true}')
        assert b"tok2" in done.stdout

    repeat(request, 5, lambda: rig.engines[0].seen or rig.engines[1].seen)


def test_a_client_of_http2_that_leaves_is_no_fault(rig: Rig):
    """The engine is told, nobody is blamed, and the lease ends."""
    rig.behave(first=9.0)
    faults = [rig.feedback(engine.target, "engine_fault") for engine in rig.engines]
    [(_, seen)] = rig.nginx.curl_leaves(rig.seen, '{"stream":true}')
    until(lambda: seen.left, 8.0)
    until(lambda: idle(rig.daemon))
    assert [rig.feedback(engine.target, "engine_fault") for engine in rig.engines] == faults


def test_the_preset_of_the_daemon_reads_the_page(rig: Rig):
    """`scorer doctor` finds TTFT and requests by target; each target's numbers are there."""
    rig.nginx.post()
    rig.nginx.settled()
    counts = [key for key in rig.nginx.metrics() if key[0] == "gateway_ttft_seconds_count"]
    targets = [target for _, _, target in counts]
    url = f"http://127.0.0.1:{rig.nginx.metrics_port}/metrics"
    done = invoked("doctor", url)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nginx (scorer's Lua)" in done.stdout
    assert targets
    assert all(f"{target}: " in done.stdout for target in targets)
    assert "observations, mean 0." in done.stdout
    assert " successes" in done.stdout


def test_the_page_is_what_prometheus_accepts(rig: Rig):
    """Promtool finds no fault and no bad style."""
    rig.nginx.post()
    connection = HTTPConnection("127.0.0.1", rig.nginx.metrics_port, timeout=5)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("raw", "outcome"),
    [
        (b"\x15\x03\x01 no HTTP\r\n\r\n", "engine_fault"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n", "client_abort"),
    ],
    ids=["no HTTP", "a body of which nothing passes"],
)
def test_an_answer_that_is_none_is_no_success(rig: Rig, raw: bytes, outcome: str):
    """Though nginx passes the first on, and says that the second was a 200."""

    def told(outcome: str) -> float:
        return sum(rig.feedback(engine.target, outcome) for engine in rig.engines)

    before, successes = told(outcome), told("success")
    rig.behave(raw=raw)
    rig.nginx.post_for_bytes()
    until(lambda: told(outcome) > before)
    assert told("success") == successes


def test_requests_that_a_reload_outlives_are_told_of(rig: Rig):
    """The workers that end them count them, and have their end and its tokens told."""
    told = sum(rig.feedback(engine.target, "success") for engine in rig.engines)
    counted = rig.nginx.total("gateway_requests_total")
    rig.behave(first=1.0, between=0.1)
    with ThreadPoolExecutor(6) as clients:
        answers = [clients.submit(rig.nginx.post) for _ in range(6)]
        until(lambda: len(rig.seen()) == 6)
        rig.nginx.reload()
        assert [answer.result()[0] for answer in answers] == [200] * 6
    until(lambda: sum(rig.feedback(e.target, "success") for e in rig.engines) == told + 6)
    until(lambda: rig.nginx.total("gateway_requests_in_flight") == 0, what=rig.nginx.metrics)
    assert rig.nginx.total("gateway_requests_total") == counted + 6
