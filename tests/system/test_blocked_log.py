"""Standard error that nobody reads: scoring, picks and the end of the daemon go on."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.conftest import DaemonProcess, FakeEngine, pool_of
from tests.system.wire import PICK, Wire
from tests.waited import waited_to_end

pytestmark = pytest.mark.system


class Pipe:
    """A pipe in the place of the daemon's log, that is read only when asked to."""

    def __init__(self, folder: Path) -> None:
        path = folder / "scorer.log"
        os.mkfifo(path)
        self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read(self, until: str, seconds: float = 10.0) -> str:
        """Return what comes up to some text, or in the time given."""
        got, deadline = b"", time.monotonic() + seconds
        while until.encode() not in got and time.monotonic() < deadline:
            try:
                got += os.read(self._reader, 1 << 20)
            except BlockingIOError:
                time.sleep(0.01)
        return got.decode()

    def close(self) -> None:
        os.close(self._reader)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    """Return a pipe that nobody reads."""
    unread = Pipe(tmp_path)
    yield unread
    unread.close()


@pytest.fixture
def blocked(
    pipe: Pipe, tmp_path: Path, engine: Callable[[], FakeEngine]
) -> Iterator[DaemonProcess]:
    """Return a daemon whose log has been blocked for thousands of lines."""
    running = DaemonProcess(tmp_path, pool_of(engine(), engine()), "--log.level", "debug")
    try:
        running.ready()
        with contextlib.closing(Wire(running.url)) as wire:
            running.until(lambda: dropped(running, wire) > 100)
        yield running
    finally:
        running.process.kill()
        running.process.wait(5)


def dropped(running: DaemonProcess, wire: Wire) -> float:
    """Pick a thousand times, and return how many lines were dropped so far."""
    for _ in range(10):
        assert {status for status, _ in wire.ask(*[PICK % b""] * 100)} == {200}
    metrics = running.get("/metrics").text
    return float(re.findall(r"^scorer_log_lines_dropped_total (.*)$", metrics, re.MULTILINE)[0])


def test_blocked_log_stops_nothing_and_tells_what_it_lost(
    blocked: DaemonProcess, pipe: Pipe
) -> None:
    """Pools are judged, the daemon is healthy, and once somebody reads, one line has the count."""
    judged = blocked.get("/api/v1/pools").json()["data"][0]["judged_at"]
    blocked.until(lambda: blocked.get("/api/v1/pools").json()["data"][0]["judged_at"] > judged)
    assert blocked.get("/-/healthy").status_code == 200
    text = pipe.read("log lines were dropped")
    assert re.search(r'level=warn source=scorer.logs msg="\d+ log lines were dropped', text)
    blocked.signal(signal.SIGTERM)
    assert "Scorer stopped" in pipe.read("Scorer stopped")
    assert blocked.process.wait(5) == 0


def test_blocked_log_does_not_keep_the_daemon(blocked: DaemonProcess) -> None:
    """SIGTERM ends it in about two seconds."""
    blocked.signal(signal.SIGTERM)
    assert waited_to_end(blocked.process) < 3.5
    assert blocked.process.returncode == 0
