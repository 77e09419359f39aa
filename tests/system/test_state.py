"""A restart of the daemon is no restart of the fleet: the real daemon, killed and started."""

import json
import os
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
EXACT = 0.25
"""Seconds that a deadline may seem to move: two clocks are read one after the other, and on a
busy machine there is time between. Whoever forgets the time without a daemon is off by more.
"""


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
        """Return what the API says from the first answer on, for some seconds and a scrape."""
        self.now.until(lambda: self.now.get("/-/healthy").status_code == 200)
        until, seen = time.monotonic() + seconds, []

        def over() -> bool:
            seen.append(self.all())
            return time.monotonic() >= until and all(each["last_scrape"] for each in seen[-1])

        self.now.until(over)
        return seen

    def refuse(self) -> float:
        """Have the second target say that it is full; return when its cooldown ends."""
        before, said_at = self.cooled_until(), time.time()
        report = {"target": self.targets[1], **FULL}
        self.now.http.post(f"{self.now.url}/feedback", data=json.dumps(report), timeout=10)
        until: float = self.now.until(lambda: (at := self.cooled_until()) > before and at)
        assert said_at + RETRY_AFTER - EXACT < until < time.time() + RETRY_AFTER
        return until

    def cooled_until(self) -> float:
        """Return the Unix second at which the second target's cooldown ends, 0 without one."""
        until = self.all()[1]["cooldown_until"]
        return datetime.fromisoformat(until).timestamp() if until else 0.0

    def kept_until(self) -> float:
        """Return the same as the file has it."""
        head, *lines = map(json.loads, self.path.read_text().splitlines())
        [line] = [each for each in lines if each["target"] == self.targets[1]]
        age: float = line["data"]["health"]["cooldown"]["until"]
        return float(head["written_at"]) - line["ago"] - age

    def kill(self, until: float) -> None:
        """Kill the daemon, after it has written by itself that a cooldown ends then."""
        self.now.until(lambda: abs(self.kept_until() - until) < EXACT)
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


def assert_goes_on(lives: Lives, before: list[float], states: list[str]) -> None:
    """Check that the next daemon shows the same from its first answer on."""
    for seen in lives.watch(2.0):
        assert [each["score"] for each in seen] == pytest.approx(before, abs=2.0)
        assert [each["state"] for each in seen] == states


def test_restart_of_the_daemon_is_not_seen_on_the_targets(lives: Lives) -> None:
    """Stopped or killed: scores, states and a cooldown go on from the first answer.

    The cooldown ends when it would have: in the file and for the next daemon, to a fraction of
    the time without any. Before the second end it is prolonged, so that it outlasts slow starts.
    """
    lives.settled()
    until = lives.refuse()
    before, states = lives.scores(), ["degraded", "cooldown"]
    assert before[0] < 70.0
    assert [each["state"] for each in lives.all()] == states

    assert lives.now.stop() == 0
    assert lives.kept_until() == pytest.approx(until, abs=EXACT)
    assert oct(lives.path.stat().st_mode)[-3:] == "600"
    lives.next()
    assert_goes_on(lives, before, states)
    assert lives.cooled_until() == pytest.approx(until, abs=EXACT)

    until = lives.refuse()
    lives.kill(until)
    lives.next()
    assert_goes_on(lives, before, states)
    assert lives.cooled_until() == pytest.approx(until, abs=EXACT)
    lives.now.until(lambda: lives.all()[1]["state"] != "cooldown", 2 * RETRY_AFTER)
    assert time.time() > until - EXACT


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
    lives.now.until(lambda: "State file not used: starting afresh" in lives.now.log)
    assert str(lives.path) in lives.now.log
    lives.now.stop()
    assert json.loads(lives.path.read_text().splitlines()[0])["scorer_state"] == 1
