"""nginx without Lua: auth_request, feedback by log lines, and no daemon."""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integrations.chance import idle, only, repeat
from tests.integrations.nginx_rig import Engine, Load, Nginx, event_loop, restart, until
from tests.system.conftest import DaemonProcess, free_port

pytestmark = pytest.mark.system

EXHAUSTED = b'{"error":{"message":"KV cache exhausted"}}'
UDP = "127.0.0.1:9809"
PATIENT = {
    f"proxy_{what}_timeout 20ms;": f"proxy_{what}_timeout 5s;" for what in ("connect", "read")
}
"""A machine that is busy with other tests answers picks later, which is another test's matter."""


@dataclass
class Rig:
    """nginx, the daemon, two engines that nginx knows of and one that it does not.

    ``nginx`` waits long for a pick, ``hasty`` as long as the example says.
    """

    nginx: Nginx
    hasty: Nginx
    daemon: DaemonProcess
    engines: list[Engine]
    unknown: Engine

    def behave(self, **changes: object) -> None:
        """Let all engines answer alike, and forget what they saw."""
        for engine in (*self.engines, self.unknown):
            engine.behave(**changes)

    def told(self, engine: Engine, outcome: str) -> float:
        """Return how many outcomes of a class the daemon was told of a target."""
        start = f'scorer_feedback_total{{pool="chat",target="{engine.target}",outcome="{outcome}"}}'
        lines = self.daemon.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(start))

    def picks(self) -> float:
        """Return how often the daemon picked."""
        targets = self.daemon.get("/api/v1/targets").json()["data"]
        return float(sum(target["picks"] for target in targets))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("nginx")
    with event_loop() as loop:
        engines = [Engine(loop), Engine(loop, "::1")]
        unknown = Engine(loop)
        udp = f"127.0.0.1:{free_port()}"
        targets = [engine.target for engine in (*engines, unknown)]
        config = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "400ms"},
            "pools": [{"name": "chat", "static_configs": [{"targets": targets}]}],
            "feedback": {"udp": {"listen": udp}},
        }
        daemon = DaemonProcess(folder, config)
        proxies: list[Nginx] = []

        def start(name: str, changes: dict[str, str]) -> Nginx:
            at = Path(folder, name)
            at.mkdir()
            proxies.append(Nginx(at, "auth_request.conf", {
                "127.0.0.1:9808": daemon.url.removeprefix("http://"),
                "127.0.0.1:9807": f"127.0.0.1:{free_port()}",
                UDP: udp,
                "10.0.0.1:8000": engines[0].target,
                "10.0.0.2:8000": engines[1].target,
                **changes,
            }))  # fmt: skip
            return proxies[-1]

        try:
            daemon.ready()
            yield Rig(start("patient", PATIENT), start("hasty", {}), daemon, engines, unknown)
        finally:
            for nginx in proxies:
                nginx.close()
            daemon.process.kill()
            daemon.process.wait(5)
            daemon.http.close()
            for engine in (*engines, unknown):
                engine.stop()


@pytest.fixture(autouse=True)
def calm(rig: Rig) -> Iterator[None]:
    """Start each test with well-behaved engines and a daemon that is asked."""
    rig.behave()
    if rig.daemon.process.poll() is not None:
        restart(rig.daemon)
        rig.daemon.ready()
    picks = rig.picks()
    until(lambda: rig.nginx.post()[0] == 200 and rig.picks() > picks)
    until(lambda: idle(rig.daemon))
    rig.behave()


def test_the_daemon_picks_and_hears_of_the_end(rig: Rig):
    """Streams pass whole; each request is a pick, and a success that closes its lease."""
    picks = rig.picks()

    def request() -> None:
        status, body = rig.nginx.post()
        assert (status, body.endswith(b"data: [DONE]\n\n")) == (200, True)

    sent = repeat(request, 20, lambda: all(len(engine.seen) >= 2 for engine in rig.engines))
    assert rig.picks() == picks + sent
    until(lambda: idle(rig.daemon))


def test_a_target_that_nginx_does_not_know_is_used(rig: Rig):
    """One that the daemon found later gets requests without a reload of nginx."""

    def request() -> None:
        assert rig.nginx.post()[0] == 200

    repeat(request, 10, lambda: len(rig.unknown.seen) >= 2)


def test_connections_are_kept(rig: Rig):
    """Those to engines that nginx knows, and so those to the daemon."""
    before = sum(engine.connections for engine in rig.engines)
    for _ in range(40):
        rig.nginx.post()
    assert sum(engine.connections for engine in rig.engines) - before <= 6


@pytest.mark.parametrize(
    ("status", "outcome"), [(429, "engine_saturated"), (503, "engine_fault")], ids=["429", "503"]
)
def test_a_refusal_is_retried_on_the_backup(rig: Rig, status: int, outcome: str):
    """The client sees nothing, no engine is asked twice, the daemon hears of both attempts.

    It does not hear what a body says; of an engine that is full a 429 alone says enough.
    """
    refusing, other = rig.engines
    refusing.figures = {"kv_cache": 0.97, "waiting": 4}
    refusing.behave(status=status, body=EXHAUSTED)

    def told() -> list[float]:
        return [rig.told(refusing, outcome), rig.told(other, "success")]

    try:
        until(lambda: rig.daemon.target(refusing.target)["signals"]["kv_cache"]["value"] > 0.9)
        before = told()
        with only(rig.daemon, refusing.target):
            for number in range(20):
                assert rig.nginx.post(headers={"X-Number": str(number)})[0] == 200
        numbers = [str(number) for number in range(20)]
        assert [[seen.headers["x-number"] for seen in each.seen] for each in rig.engines] == [
            numbers,
            numbers,
        ]
        until(lambda: told() == [count + 20 for count in before], what=told)
    finally:
        refusing.figures = {}


@pytest.mark.parametrize("size", [300_000, 2_000_000])
def test_a_large_prompt_arrives_and_its_length_is_told(rig: Rig, size: int):
    """Whatever the pick said nothing of the body was sent to the daemon."""
    assert rig.nginx.post(size=size)[0] == 200
    [length] = [seen.length for each in (*rig.engines, rig.unknown) for seen in each.seen]
    assert length > size
    [decision] = rig.daemon.get("/api/v1/decisions?limit=1").json()["data"]
    assert decision["prompt_tokens"] == -(-length // 4)


def test_a_client_that_leaves_before_the_head_is_no_fault(rig: Rig):
    """The log line says 499, which is nobody's fault."""
    rig.behave(role_at=9.0, first=9.0)
    everybody = (*rig.engines, rig.unknown)
    before = sum(rig.told(engine, "client_abort") for engine in everybody)
    connection = rig.nginx.connect()
    connection.request("POST", "/v1/x", b'{"stream":true}')
    until(lambda: any(engine.seen for engine in everybody))
    connection.close()
    until(lambda: sum(rig.told(engine, "client_abort") for engine in everybody) == before + 1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_daemon_that_is_away_costs_no_request(rig: Rig, number: signal.Signals):
    """Requests go to any engine that nginx knows; later the daemon is asked again."""
    load = Load(rig.hasty, clients=6)
    with load.running():
        until(lambda: len(load.times) > 100)
        rig.daemon.signal(number)
        rig.behave()
        until(lambda: sum(len(engine.seen) for engine in rig.engines) >= 200)
        shares = [len(engine.seen) for engine in rig.engines]
        if number is signal.SIGSTOP:
            rig.daemon.signal(signal.SIGCONT)
        else:
            rig.daemon.process.wait(5)
            restart(rig.daemon)
        rig.daemon.ready()
        picks = rig.picks()
        until(lambda: rig.picks() > picks + 20)
    assert load.failures == []
    assert min(shares) > 0.2 * sum(shares)


@pytest.mark.parametrize("upload", [["--data-binary", "@-"], ["-T", "-"]], ids=["length", "none"])
def test_http2_is_picked_for_and_retried(rig: Rig, upload: list[str]):
    """300 KB arrive whole, with and without a length, also on the second engine that is asked."""
    first, second = rig.engines
    first.behave(status=503, body=EXHAUSTED)
    body = json.dumps({"stream": True, "prompt": "x" * 300_000}).encode()
    picks = rig.picks()
    with only(rig.daemon, first.target):
        for _ in range(4):
            done = rig.nginx.curl(*upload, body=body)
            assert done.stdout.endswith(b"data: [DONE]\n\n"), done.stderr
    assert rig.picks() == picks + 4
    assert [[seen.length for seen in each.seen] for each in (first, second)] == [
        [len(body)] * 4
    ] * 2


def test_headers_of_a_client_do_not_steer_picks(rig: Rig):
    """What a client sends as X-Scorer-… never reaches the daemon, and its query neither."""
    assert rig.nginx.post(headers={"X-Scorer-Pool": "none"})[0] == 200
    picks = rig.picks()
    connection = rig.nginx.connect()
    connection.request("GET", "/v1/models?pool=none&exclude=x")
    assert connection.getresponse().read() != b""
    connection.close()
    assert rig.picks() == picks + 1


def test_an_answer_that_is_no_http_is_a_fault(rig: Rig):
    """Though nginx passes it on, with a status of its own."""
    rig.behave(raw=b"\x15\x03\x01 no HTTP\r\n\r\n")
    engines = (*rig.engines, rig.unknown)
    before = sum(rig.told(engine, "engine_fault") for engine in engines)
    rig.nginx.post_for_bytes()
    until(lambda: sum(rig.told(engine, "engine_fault") for engine in engines) > before)
