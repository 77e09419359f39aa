"""Liveness: the daemon asks to be started again when nothing is judged any more."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scorer.clocks import Clocks
from scorer.config import load_config
from scorer.daemon import STUCK_AFTER, Daemon
from tests.system.conftest import free_port

EMPTY = {"pools": [{"name": "chat", "file_sd_configs": [{"files": ["/nonexistent/*.yml"]}]}]}
PATIENCE = 20.0
"""Seconds within which a daemon has judged its pool again, on any machine."""


def built(folder: Path, config: dict[str, object]) -> Daemon:
    """Return a daemon of a configuration."""
    path = folder / "scorer.yml"
    path.write_text(yaml.safe_dump(config))
    return Daemon(load_config(path), path)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Return a running daemon with one target that nobody answers for."""
    targets = [f"127.0.0.1:{free_port()}"]
    pools = [{"name": "chat", "static_configs": [{"targets": targets}]}]
    running = built(tmp_path, {"pools": pools})
    running.start()
    yield running
    running.stop()


def later(daemon: Daemon, seconds: float) -> str | None:
    """Return what the daemon would say so long after its last judgement."""
    judged_at = max(view.judged_at for view in daemon.registry.snapshot.pools.values())
    daemon.clocks = Clocks(lambda: judged_at + seconds)
    return daemon.alive()


def test_alive_while_pools_are_judged(daemon: Daemon) -> None:
    """Also when no target can be reached."""
    assert daemon.alive() is None


def test_stuck_scoring_says_since_when(daemon: Daemon) -> None:
    """A few seconds without any judgement are too many; one late judgement is not."""
    assert later(daemon, STUCK_AFTER - 0.5) is None
    reason = later(daemon, 60.0)
    assert reason is not None
    assert reason.startswith("scoring is stuck: no pool has been judged for ")


def test_really_stuck_scoring_is_noticed(daemon: Daemon) -> None:
    """A pool whose lock is never released is judged no more."""
    with daemon.registry.pools["chat"].lock:
        deadline = time.monotonic() + STUCK_AFTER + PATIENCE
        while daemon.alive() is None and time.monotonic() < deadline:
            threading.Event().wait(0.05)
        assert daemon.alive() is not None
    deadline = time.monotonic() + PATIENCE
    while daemon.alive() is not None and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    assert daemon.alive() is None


def test_stopping_daemon_is_not_stuck(daemon: Daemon) -> None:
    """It judges no more because it was told to stop."""
    daemon.stopping = True
    assert later(daemon, 60.0) is None


def test_pool_without_targets_is_judged_all_the_same(tmp_path: Path) -> None:
    """Nothing to score is no reason to start again."""
    running = built(tmp_path, EMPTY)
    assert running.alive() is None
    running.start()
    try:
        before = running.registry.snapshot.pools["chat"].judged_at
        deadline = time.monotonic() + PATIENCE
        while running.registry.snapshot.pools["chat"].judged_at == before:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert running.alive() is None
    finally:
        running.stop()
