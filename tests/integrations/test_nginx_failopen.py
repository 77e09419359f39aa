"""nginx with scorer's Lua while the daemon is dead, stopped, restarted, or has other targets."""

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from scorer.demo.cost import A100_8B
from scorer.demo.engine import Limits
from scorer.demo.server import EngineServer
from tests.integrations.chance import repeat
from tests.integrations.nginx_rig import ROOT, Engine, Load, Nginx, event_loop, restart, send, until
from tests.system.conftest import DaemonProcess, free_port

pytestmark = pytest.mark.system


@dataclass
class Rig:
    """nginx that picks by model, engines found in a file, one emulated engine, the daemon."""

    nginx: Nginx
    daemon: DaemonProcess
    engines: list[Engine]
    spare: Engine
    emulated: EngineServer
    file: Path

    def discover(self, *engines: Engine) -> None:
        """Let the pool ``chat`` have these engines."""
        self.file.write_text(json.dumps([{"targets": [each.target for each in engines]}]))

    def picks(self, by: str) -> float:
        """Return how many picks were made so far by the daemon, locally, at random or by nobody."""
        return self.nginx.metrics().get(("gateway_picks_total", by), 0.0)

    def asks(self) -> bool:
        """Send a request; return whether the daemon picked its target."""
        before = self.picks("daemon")
        assert self.nginx.post()[0] == 200
        time.sleep(0.12)  # counts of a worker are added to the page every 50 ms
        return self.picks("daemon") > before

    def asked_in_vain(self) -> float:
        """Return how many requests found no daemon when they asked it."""
        rows = self.nginx.metrics().items()
        misses = {key[1]: value for key, value in rows if key[0] == "gateway_pick_misses_total"}
        return sum(value for reason, value in misses.items() if reason != "skipped")

    @property
    def snapshot_at(self) -> float:
        """When the snapshot was last fetched, in seconds since 1970."""
        return self.nginx.metrics().get(("gateway_snapshot_timestamp_seconds",), 0.0)

    def has_snapshot(self) -> bool:
        """Return whether the snapshot was fetched just now."""
        return time.time() - self.snapshot_at < 1.5

    def takes_snapshot(self) -> None:
        """Wait until the snapshot is one that the daemon made later than this is called."""
        for _ in range(2):  # the first one may be on its way already
            at = self.snapshot_at
            until(lambda at=at: self.snapshot_at > at)

    def forget(self) -> None:
        """Forget what the engines saw."""
        for engine in (*self.engines, self.spare):
            engine.behave()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("nginx")
    with event_loop() as loop:
        engines = [Engine(loop) for _ in range(3)]
        spare = Engine(loop)

        async def emulate() -> EngineServer:
            server = EngineServer("demo-8b", A100_8B, Limits())
            await server.start()
            return server

        emulated = asyncio.run_coroutine_threadsafe(emulate(), loop).result(10)
        found = folder / "targets.json"
        config = {
            "global": {"scrape_interval": "500ms", "scrape_timeout": "400ms"},
            "pools": [
                {"name": "chat", "models": ["m"], "file_sd_configs": [{"files": [str(found)]}]},
                {
                    "name": "emulated",
                    "models": ["demo-*"],
                    "static_configs": [{"targets": [emulated.address]}],
                },
            ],
        }
        found.write_text(json.dumps([{"targets": [each.target for each in engines]}]))
        daemon = DaemonProcess(folder, config)
        daemon.process.kill()
        daemon.process.wait(5)
        metrics_port = free_port()
        nginx = None
        try:
            nginx = Nginx(folder, "lua.conf", {
                "/opt/scorer": str(ROOT),
                '"127.0.0.1:9808"': f'"{daemon.url.removeprefix("http://")}"',
                'pool = "chat",': "model_from_body = true,",
                '"10.0.0.1:8000", "10.0.0.2:8000"': ", ".join(f'"{e.target}"' for e in engines),
                "127.0.0.1:9145": f"127.0.0.1:{metrics_port}",
            })  # fmt: skip
            nginx.metrics_port = metrics_port
            yield Rig(nginx, daemon, engines, spare, emulated, found)
            assert nginx.alarms == []
        finally:
            if nginx:
                nginx.close()
            daemon.process.kill()
            daemon.process.wait(5)
            daemon.http.close()
            asyncio.run_coroutine_threadsafe(emulated.close(), loop).result(10)
            for engine in (*engines, spare):
                engine.stop()


@pytest.fixture
def up(rig: Rig) -> Rig:
    """Return the rig with a daemon that is asked, and a snapshot of it."""
    if rig.daemon.process.poll() is not None:
        restart(rig.daemon)
    rig.daemon.ready()
    rig.forget()
    until(rig.asks, what=lambda: rig.nginx.log)
    until(rig.has_snapshot)
    rig.forget()
    return rig


def test_nginx_starts_without_a_daemon(rig: Rig):
    """Requests go to the configured targets, at random; when the daemon comes it is asked."""

    def request() -> None:
        assert rig.nginx.post()[0] == 200

    sent = repeat(request, 30, lambda: all(len(engine.seen) >= 3 for engine in rig.engines))
    until(lambda: rig.picks("random") >= sent)
    restart(rig.daemon)
    rig.daemon.ready()
    until(rig.asks, 5.0, lambda: rig.nginx.log)


def test_a_killed_daemon_costs_no_request(up: Rig):
    """Killed in mid-load and started again: no failure, engines share the load all the time."""
    load = Load(up.nginx)
    with load.running():
        until(lambda: len(load.times) > 300)
        killed, asked = time.monotonic(), up.asked_in_vain()
        up.daemon.process.kill()
        up.daemon.process.wait(5)
        until(lambda: up.picks("local") > 50)
        up.forget()
        # With so many even three dice are as even as that.
        until(lambda: sum(len(engine.seen) for engine in up.engines) >= 1000)
        shares = [len(engine.seen) for engine in up.engines]
        asked, back = up.asked_in_vain() - asked, time.monotonic()
        restart(up.daemon)
        up.daemon.ready()
        daemons = up.picks("daemon")
        until(lambda: up.picks("daemon") > daemons + 50)
    assert load.failures == []
    assert min(shares) > 0.2 * sum(shares)
    assert asked < sum(killed < sent < back for sent in load.times) / 5


def test_a_stopped_daemon_costs_no_request(up: Rig):
    """SIGSTOP in mid-load: few requests wait for the deadline, none fails, SIGCONT is enough."""
    load = Load(up.nginx)
    with load.running():
        until(lambda: len(load.times) > 100)
        misses = up.nginx.metrics().get(("gateway_pick_misses_total", "timeout"), 0.0)
        up.daemon.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        time.sleep(2.2)
        until(lambda: sum(stopped < sent for sent in load.times) >= 200)
        waited = up.nginx.metrics()[("gateway_pick_misses_total", "timeout")] - misses
        on = time.monotonic()
        up.daemon.signal(signal.SIGCONT)
        daemons = up.picks("daemon")
        until(lambda: up.picks("daemon") > daemons + 20)
    assert load.failures == []
    # In each of two workers: those under way, three in a row, then one a second.
    assert 2 <= waited <= load.clients + 2 * (3 + (on - stopped) + 1)
    assert waited < sum(stopped < sent < on for sent in load.times) / 2


def test_engine_and_daemon_dead_at_once(up: Rig):
    """A local pick that meets a dead engine is tried elsewhere, then the engine is passed by."""
    up.daemon.process.kill()
    up.daemon.process.wait(5)
    up.engines[0].stop()
    retries = up.nginx.total("gateway_retries_total")
    try:
        began = time.monotonic()
        assert [up.nginx.post()[0] for _ in range(40)] == [200] * 40
        took = time.monotonic() - began
        up.nginx.settled()
        # Each of two workers finds out by itself, and looks again after two seconds.
        assert up.nginx.total("gateway_retries_total") - retries <= 2 * (took // 2.0 + 1)
    finally:
        up.engines[0].start()


def test_local_picks_see_what_is_under_way(up: Rig):
    """A slow engine gets less, because both workers count what it has not answered yet."""
    up.daemon.process.kill()
    up.daemon.process.wait(5)
    slow, *others = up.engines
    slow.behave(first=4.0)
    load = Load(up.nginx, clients=12)
    with load.running():
        # Nearly all clients come to wait there, and the others are not enough to go on at a third.
        until(lambda: up.nginx.metrics()[("gateway_requests_in_flight", slow.target)] >= 1)
        until(lambda: sum(len(engine.seen) for engine in others) >= 600)
        asked = len(slow.seen)
    assert load.failures == []
    assert asked < 0.1 * 600
    assert until(lambda: up.nginx.total("gateway_requests_in_flight") == 0) is True


def test_targets_come_and_go(up: Rig):
    """One that was added gets requests, one that left gets none, also once the daemon is dead."""
    up.discover(*up.engines[1:], up.spare)
    until(lambda: up.nginx.post()[0] == 200 and up.spare.seen)
    until(lambda: up.daemon.get(f"/api/v1/targets/{up.engines[0].target}").status_code == 404)
    until(lambda: up.daemon.target(up.spare.target)["warmup_ratio"] > 0.4)
    up.takes_snapshot()
    up.daemon.process.kill()
    up.daemon.process.wait(5)
    up.forget()

    def request() -> None:
        assert up.nginx.post()[0] == 200

    repeat(request, 30, lambda: len(up.spare.seen) >= 2)
    assert len(up.engines[0].seen) == 0
    labels = {label for key in up.nginx.metrics() for label in key}
    assert up.spare.target in labels
    up.discover(*up.engines)
    restart(up.daemon)
    up.daemon.ready()
    until(lambda: up.spare.target not in {label for key in up.nginx.metrics() for label in key})


def unknown(rig: Rig) -> tuple[int, bytes] | None:
    """Return the answer for a model that nobody serves; None if a daemon that lives was late."""
    status, body = rig.nginx.post(model="none-such")
    alive = rig.daemon.process.poll() is None
    assert status in ({404, 503} if alive else {503})
    return None if alive and status == 503 else (status, body)


def test_the_model_of_a_request_names_its_pool(up: Rig):
    """By the body, with and without the daemon; 404 for a model that nobody serves."""
    big = {"size": 70_000, "max_tokens": 2}
    for _ in range(2):
        status, body = up.nginx.post(model="demo-8b", **big)
        assert (status, b"demo-8b" in body) == (200, True)
        status, body = until(partial(unknown, up))
        assert "none-such" in json.loads(body)["error"]["message"]
        up.daemon.process.kill()
        up.daemon.process.wait(5)


def test_ttft_is_that_of_the_engine(up: Rig):
    """Prompt by prompt: what the emulated engine measured itself, and the way to the client."""
    tally, counted = up.emulated.engine.tally.ttft, "gateway_ttft_seconds_count"
    up.nginx.settled()
    for number in range(9):
        count, seen = up.nginx.total(counted), up.nginx.total("gateway_ttft_seconds_sum")
        measured, connection, began = tally.sum, up.nginx.connect(), time.monotonic()
        answer = send(connection, model="demo-8b", size=4_000 * number + 100, max_tokens=20)
        until(lambda answer=answer: b'"content"' in answer.readline())
        client = time.monotonic() - began
        answer.read()
        connection.close()
        until(lambda count=count: up.nginx.total(counted) == count + 1)
        took = up.nginx.total("gateway_ttft_seconds_sum") - seen
        assert tally.sum - measured - 0.01 < took < client + 0.01
