"""A restart of the daemon is no restart of the fleet: the real daemon, killed and started."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import DaemonProcess, FakeEngine, page, pool_of, send

pytestmark = [pytest.mark.system, pytest.mark.slow]

RETRY_AFTER = 30.0
FULL = {"status": 503, "headers": {"retry-after": "30"}, "error_body": "KV cache exhausted"}
WRITTEN = "scorer_state_file_last_write_success_timestamp_seconds"


def works(engine: FakeEngine, seconds: float = 0.1, **changes: object) -> None:
    """Serve ten requests a second, each with so many ``seconds`` to its first token."""

    def answer(handler: Any) -> None:
        count = int(time.monotonic() * 10)
        values = {"count": count, "sum": count * seconds, "tokens": count * 100, **changes}
        send(handler, page(**values).encode())

    engine.answer = answer


class Lives:
    """Daemons, one after the other, on the same engines and the same state file."""

    def __init__(
        self, daemon: Callable[..., DaemonProcess], path: Path, *engines: FakeEngine
    ) -> None:
        self._daemon, self.path = daemon, path
        self._config = {"global": {"state_file": str(path)}, **pool_of(*engines)}
        self.targets = [engine.target for engine in engines]
        self.now = self.next()

    def next(self) -> DaemonProcess:
        """Start the next daemon."""
        self.now = self._daemon(self._config)
        return self.now

    def all(self) -> list[dict[str, Any]]:
        """Return what the API says of the targets, in their order."""
        return [self.now.target(name) for name in self.targets]

    def scores(self) -> list[float]:
        return [each["score"] for each in self.all()]

    def settled(self) -> list[float]:
        """Return the scores once they stand still."""
        before: list[float] = []

        def still() -> bool:
            time.sleep(1.0)
            scores, before[:] = list(before), self.scores()
            return bool(scores) and scores == pytest.approx(before, abs=0.5)

        self.now.until(still)
        return before

    def watch(self, seconds: float) -> list[list[dict[str, Any]]]:
        """Return what the API says from the first answer on, for some seconds."""
        self.now.until(lambda: self.now.get("/-/healthy").status_code == 200)
        until, seen = time.monotonic() + seconds, []
        while time.monotonic() < until:
            seen.append(self.all())
            time.sleep(0.05)
        assert all(each["last_scrape"] for each in seen[-1])
        return seen

    def kill(self) -> None:
        """Kill the daemon, after it has written its file by itself."""
        read = f"/metrics?name[]={WRITTEN}"
        self.now.until(lambda: re.search(rf"^{WRITTEN} ", self.now.get(read).text, re.MULTILINE))
        self.now.signal(signal.SIGKILL)
        self.now.process.wait(5)


@pytest.fixture
def engines(engine: Callable[[], FakeEngine]) -> tuple[FakeEngine, FakeEngine]:
    """Return an engine that is slow and has a queue, and one that is well."""
    bad, good = engine(), engine()
    works(bad, 1.5, waiting=20, running=8)
    works(good, running=1)
    return bad, good


@pytest.fixture
def lives(daemon: Callable[..., DaemonProcess], engines: Any, tmp_path: Path) -> Lives:
    """Return a daemon that knows its targets well."""
    lives = Lives(daemon, tmp_path / "state.json", *engines)
    lives.now.ready()
    return lives


def cooled_until(lives: Lives) -> float:
    """Return the Unix second at which the cooldown of the second target ends, 0 without one."""
    until = lives.all()[1]["cooldown_until"]
    return datetime.fromisoformat(until).timestamp() if until else 0.0


def assert_goes_on(lives: Lives, before: list[float], states: list[str]) -> None:
    """Check that the next daemon shows the same from its first answer on."""
    for seen in lives.watch(2.0):
        assert [each["score"] for each in seen] == pytest.approx(before, abs=2.0)
        assert [each["state"] for each in seen] == states


def test_restart_of_the_daemon_is_not_seen_on_the_targets(lives: Lives) -> None:
    """Stopped or killed: scores, states and a cooldown go on from the first answer."""
    report = {"target": lives.targets[1], **FULL}
    said_at = time.time()
    lives.now.http.post(f"{lives.now.url}/feedback", data=json.dumps(report), timeout=10)
    until = lives.now.until(lambda: cooled_until(lives))
    assert said_at + RETRY_AFTER - 1.0 < until < time.time() + RETRY_AFTER
    before, states = lives.settled(), ["degraded", "cooldown"]
    assert before[0] < 70.0
    assert [each["state"] for each in lives.all()] == states

    assert lives.now.stop() == 0
    assert oct(lives.path.stat().st_mode)[-3:] == "600"
    lives.next()
    assert_goes_on(lives, before, states)

    lives.kill()
    lives.next()
    assert_goes_on(lives, before, states)
    assert cooled_until(lives) == pytest.approx(until, abs=1.0)
    lives.now.until(lambda: lives.all()[1]["state"] != "cooldown", 2 * RETRY_AFTER)
    assert time.time() > until - 1.0


def test_engine_restarted_meanwhile_warms_up(lives: Lives, engines: Any) -> None:
    """Only that one: the other goes on."""
    before = lives.settled()
    lives.now.stop()
    works(engines[1], running=1, start_time=2000)
    lives.next()
    seen = lives.watch(2.0)
    assert all(each[0]["score"] == pytest.approx(before[0], abs=2.0) for each in seen)
    assert (seen[-1][1]["state"], seen[-1][1]["state_reason"]) == ("warmup", "restarted")
    assert seen[-1][1]["restarts"] == 1
    assert seen[-1][1]["score"] < before[1]


def test_engine_that_died_meanwhile_is_not_picked(lives: Lives, engines: Any) -> None:
    """Its good score lasts until the first scrape that fails, and is 0 after the second."""
    lives.settled()
    lives.now.stop()
    engines[1].close()
    lives.next()
    lives.now.until(lambda: lives.all()[1]["last_scrape"])
    assert not lives.all()[1]["eligible"]
    lives.now.until(lambda: lives.all()[1]["state"] == "unreachable")
    assert lives.scores()[1] == 0.0


def test_unusable_file_starts_afresh(lives: Lives) -> None:
    """With a warning that names it; the next stop puts a good one in its place."""
    lives.now.stop()
    lives.path.write_bytes(os.urandom(10_000))
    lives.next().ready()
    assert "State file not used: starting afresh" in lives.now.log
    assert str(lives.path) in lives.now.log
    lives.now.stop()
    assert json.loads(lives.path.read_text().splitlines()[0])["scorer_state"] == 1
