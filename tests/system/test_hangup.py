"""SIGHUP at a moment when the process has only just begun."""

import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.conftest import DaemonProcess, pool_of

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.system

MOMENTS = ("scorer.cli", "click", "uvicorn", "scorer.serving")
"""Modules whose import is a moment of the start, the first of ours first."""
HUNG_UP = f"""
import os, runpy, signal, sys

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it would be ignored

class Moments:
    def find_spec(self, name, path=None, target=None):
        if name in {MOMENTS}:
            os.kill(os.getpid(), signal.SIGHUP)

sys.meta_path.insert(0, Moments())
runpy.run_module("scorer", run_name="__main__")
"""


class HungUp(DaemonProcess):
    """A daemon that gets SIGHUP again and again while it imports what it is made of."""

    program = ("-c", HUNG_UP)


@pytest.fixture
def hung_up(tmp_path: Path) -> Iterator[DaemonProcess]:
    """Return such a daemon; it is stopped at the end."""
    started = HungUp(tmp_path, pool_of("127.0.0.1:9"))
    yield started
    started.process.kill()
    started.process.wait(5)


def test_hangup_during_the_start_reloads_once(hung_up: DaemonProcess) -> None:
    """The daemon lives, and reads its file once more when it runs, however often it was asked."""
    hung_up.ready()
    hung_up.until(lambda: "Configuration reloaded" in hung_up.log)
    assert hung_up.log.index("Scorer started") < hung_up.log.index("Configuration reloaded")
    hung_up.write(pool_of("127.0.0.1:9", "127.0.0.2:9"))
    hung_up.signal(signal.SIGHUP)
    hung_up.until(lambda: len(hung_up.get("/api/v1/targets").json()["data"]) == 2)
    hung_up.until(lambda: hung_up.log.count("Configuration reloaded") >= 2)
    assert hung_up.log.count("Configuration reloaded") == 2
    assert hung_up.stop() == 0


def test_other_commands_end_with_their_terminal(tmp_path: Path) -> None:
    """They have nothing to reload."""
    done = subprocess.run(
        [sys.executable, "-c", HUNG_UP, "doctor", str(tmp_path)], timeout=60, check=False
    )
    assert done.returncode == -signal.SIGHUP


def test_daemon_that_cannot_start_is_not_held_up(tmp_path: Path) -> None:
    """It ends as it would have without the signal."""
    done = subprocess.run(
        [sys.executable, "-c", HUNG_UP, "run", "--config.file", str(tmp_path / "none.yml")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "none.yml" in done.stderr


def test_installed_command_begins_as_the_module_does() -> None:
    """What is imported first is the same, however it is called."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"scorer": "scorer.start:main"}
