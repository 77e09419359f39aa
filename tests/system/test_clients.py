"""Hostile and slow clients against the daemon: picks go on, memory stays, nothing breaks.

All attacks of ``hostile.py`` run side by side, once, while picks and reports go on and
are measured; what happened is judged afterwards. Case B53 is among it: clients that
stall or read a byte a second, and a pool whose engines hang.
"""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.cases import CASES
from tests.system.conftest import DaemonProcess, FakeEngine
from tests.system.neighbour import neighbour
from tests.waited import waited_to_end

pytestmark = [pytest.mark.alone, pytest.mark.system]

HOSTILE = Path(__file__).with_name("hostile.py")
STALLING = CASES / "B53" / "slow_clients.py"
SECONDS = 26.0
MOST_GROWTH = 64 << 10
"""Kilobytes by which the daemon may grow, with thousands of connections open."""


class Caller:
    """Asks for something so many times a second over one connection, and measures."""

    def __init__(self, port: int, rate: float, *request: Any) -> None:
        self._port, self._pause, self._request = port, 1.0 / rate, request
        self.seen: list[tuple[float, int]] = []
        self.connections = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._stop.wait(self._pause):
            began = time.monotonic()
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
                    self.connections += 1
                connection.request(*self._request)
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except (OSError, http.client.HTTPException):
                connection, status = None, 0
            self.seen.append((time.monotonic() - began, status))
        if connection is not None:
            connection.close()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def within(self, share: float) -> float:
        """Return the seconds within which a share of the answers came."""
        times = sorted(seconds for seconds, _ in self.seen)
        return times[int(len(times) * share)]

    @property
    def statuses(self) -> set[int]:
        return {status for _, status in self.seen}


class Siege:
    """The daemon under attack, and what was seen meanwhile."""

    def __init__(self, running: DaemonProcess, target: str, neighbour: int) -> None:
        self.running = running
        self.port = int(running.url.rpartition(":")[2])
        self.results: dict[str, Any] = {}
        self.sizes: list[int] = []
        report = json.dumps({"target": target, "pool": "chat", "status": 200, "ttft_seconds": 0.1})
        self.picks = [Caller(self.port, 100, "GET", f"/pick?pool={p}") for p in ("chat", "hung")]
        self.reports = Caller(self.port, 100, "POST", "/feedback", report)
        self.health = Caller(self.port, 10, "GET", "/-/healthy")
        self.neighbour = Caller(neighbour, 100, "GET", "/")
        self.callers = [*self.picks, self.reports, self.health, self.neighbour]

    def run(self) -> None:
        """Attack, and watch."""
        command = [sys.executable, str(HOSTILE), str(self.port), str(SECONDS)]
        stalling = [sys.executable, str(STALLING), "127.0.0.1", str(self.port)]
        with (
            subprocess.Popen(stalling, stdout=subprocess.DEVNULL) as stalled,
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as attack,
        ):
            while attack.poll() is None:
                self.sizes.append(self.size())
                time.sleep(0.1)
            assert attack.stdout is not None
            self.results = json.loads(attack.stdout.read())
            stalled.kill()
        for caller in self.callers:
            caller.stop()

    def size(self) -> int:
        """Return the resident kilobytes of the daemon."""
        text = Path(f"/proc/{self.running.process.pid}/status").read_text()
        return int(text.partition("VmRSS:")[2].split()[0])


@pytest.fixture(scope="module")
def siege(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Siege]:
    """Return a siege that is over; the daemon is still there."""
    good, hung = FakeEngine(), [FakeEngine(), FakeEngine()]
    for each in hung:
        each.hangs()
    pools = [
        {"name": "chat", "models": ["llama-*"], "static_configs": [{"targets": [good.target]}]},
        {"name": "hung", "models": ["qwen-*"],
         "static_configs": [{"targets": [each.target for each in hung]}]},
    ]  # fmt: skip
    running = DaemonProcess(tmp_path_factory.mktemp("siege"), {"pools": pools})
    try:
        running.ready()
        running.get("/metrics")
        with neighbour() as port:
            under = Siege(running, good.target, port)
            under.sizes.append(under.size())
            under.run()
        yield under
    finally:
        running.process.kill()
        running.process.wait(5)
        for each in (good, *hung):
            each.close()


def test_every_attack_took_place(siege: Siege) -> None:
    """None of them failed by itself, which would prove nothing."""
    assert {name: found for name, found in siege.results.items() if isinstance(found, str)} == {}
    assert len(siege.results) == 10


def test_b53_picks_and_reports_are_not_delayed(siege: Siege) -> None:
    """Every one is answered, 99 of 100 in 50 ms more than anybody's, over one connection."""
    usual = siege.neighbour.within(0.99)
    for caller, wanted in ((siege.picks[0], 200), (siege.picks[1], 200), (siege.reports, 202)):
        assert (caller.statuses, caller.connections) == ({wanted}, 1)
        assert caller.within(0.99) < usual + 0.05


def test_b53_liveness_is_not_delayed(siege: Siege) -> None:
    """Though every engine of a pool hangs, and whatever clients do."""
    assert siege.health.statuses == {200}
    assert siege.health.within(0.99) < siege.neighbour.within(0.99) + 0.1


def test_memory_does_not_grow(siege: Siege) -> None:
    """Whatever clients send, or do not read, little of it stays."""
    assert max(siege.sizes) - siege.sizes[0] < MOST_GROWTH


def test_idle_connections_cost_nobody(siege: Siege) -> None:
    """Thousands that keep quiet are kept, for as long as others may be."""
    idle = siege.results["idle"]
    assert idle["opened"] >= 2000
    assert idle["ended"] == 0


def test_clients_that_do_not_read_are_not_read_either_and_cut(siege: Siege) -> None:
    """Floods stop where the kernel's buffers are full, and end after some time."""
    for name in ("picks", "pages", "picks read slowly"):
        assert all(flood["sent"] < 50_000_000 for flood in siege.results[name])
    assert all(15.0 < flood["cut"] < 25.0 for flood in siege.results["picks"])
    for end in siege.results["slow readers"]:
        assert 15.0 < end < 28.0


def test_endless_heads_are_431(siege: Siege) -> None:
    """Whatever they are made of, and the client gets to know."""
    for statuses in siege.results["head floods"].values():
        assert set(statuses) == {431}


def test_requests_that_do_not_end_are_cut(siege: Siege) -> None:
    """About ten seconds after they began, be it the head or the body that drips."""
    for ends in siege.results["dripping"].values():
        assert all(end is not None and 8.0 < end < 14.0 for end in ends)


def test_nonsense_is_400(siege: Siege) -> None:
    """Garbage, TLS, unknown methods and versions get an answer and the end."""
    for statuses in siege.results["nonsense"].values():
        assert set(statuses) == {400}


def test_odd_requests_get_their_answers(siege: Siege) -> None:
    """Long queries, any method, any path below /pick, models that nobody serves."""
    odd = siege.results["odd requests"]
    assert odd["long query"] == {"404": 20, "200": 40, "405": 20}
    assert odd["methods"] == {"200": 7}
    assert odd["models"] == {"404": 3000}


def test_huge_bodies_are_413(siege: Siege) -> None:
    """Announced or not, on every path that reads them; a pick's body is thrown away."""
    found = siege.results["huge bodies"]
    assert found.pop("endless") == [True]
    assert found.pop("/pick?pool=chat") == [200, 200, 200]
    assert len(found) == 5
    assert all(statuses == [413, 413, 413] for statuses in found.values())


def test_log_stays_short_and_without_tracebacks(siege: Siege) -> None:
    """What clients do is no news, and never a traceback."""
    log = siege.running.log
    assert "Traceback" not in log
    assert len([line for line in log.splitlines() if "state=" not in line]) < 40


def test_daemon_is_well_after_all(siege: Siege) -> None:
    """It scores and picks as ever."""
    running = siege.running
    assert running.get("/-/healthy").status_code == 200
    judged = running.get("/api/v1/pools").json()["data"][0]["judged_at"]
    running.until(lambda: running.get("/api/v1/pools").json()["data"][0]["judged_at"] > judged, 3.0)


def test_clients_that_do_not_read_do_not_keep_the_daemon(siege: Siege) -> None:
    """It stops in seconds, without a word about those that it had to cut."""
    running = siege.running
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", siege.port)))
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
        time.sleep(1.0)
        running.signal(signal.SIGTERM)
        assert waited_to_end(running.process) < 6.0
        assert running.process.returncode == 0
    assert "Traceback" not in running.log
