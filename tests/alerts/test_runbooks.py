"""What the runbooks tell people to type: it runs against a daemon, word for word."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.alerts.shipped import ROOT
from tests.invoked import invoked
from tests.system.conftest import DaemonProcess, FakeEngine, pool_of

PAGES = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("systemctl", "journalctl")
"""Programs of machines that run the daemon as a service; here there may be none."""
DAEMON = "localhost:9808"

SCORER_ALONE = re.compile(r"scorer (?:[\w./:-]|[ ]|'[\w /:.,-]*')*")
"""A command in which a shell has nothing to do but to split it."""

COMMANDS = {
    line: page.stem
    for page in PAGES
    for block in FENCE.findall(page.read_text())
    for line in block.splitlines()
}
"""Each once, with one of the pages that have it."""


class Shell:
    """A shell beside a daemon with one healthy target in its pool."""

    def __init__(self, daemon: DaemonProcess, target: str) -> None:
        self._daemon, self._target = daemon, target
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "SCORER_URL": daemon.url}

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of a page with its placeholders filled in."""
        address = self._daemon.url.removeprefix("http://")
        filled = command.replace(DAEMON, address)
        filled = re.sub(r"\bTARGET\b", self._target, filled)
        filled = re.sub(r"\bPOOL\b", "chat", filled)
        if SCORER_ALONE.fullmatch(filled):
            folder, words = self._daemon.path.parent, shlex.split(filled)
            return invoked(*words[1:], folder=folder, SCORER_URL=self._daemon.url)
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", filled], env=self._environment,
            cwd=self._daemon.path.parent, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Return the shell; the daemon stops at the end."""
    engine = FakeEngine()
    engine.serves()
    daemon = DaemonProcess(tmp_path_factory.mktemp("runbooks"), pool_of(engine))
    try:
        daemon.ready()
        assert daemon.get("/pick").status_code == 200
        yield Shell(daemon, engine.target)
    finally:
        daemon.stop()
        engine.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_runbook_says_what_to_type(page: Path) -> None:
    """A diagnosis without a command is a guess."""
    assert FENCE.search(page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_runbook_lead_somewhere(page: Path) -> None:
    """At night nobody looks for the page that was meant."""
    for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert (page.parent / link).exists(), link


@pytest.mark.system
@pytest.mark.parametrize(("command", "page"), COMMANDS.items())
def test_command_works(shell: Shell, command: str, page: str) -> None:
    """It is there, takes these arguments, and the daemon has an answer for it."""
    if command.startswith(ELSEWHERE):
        parsed = subprocess.run(["bash", "-n", "-c", command], check=False)
        assert parsed.returncode == 0
        return
    done = shell.run(command)
    # The doctor's 3 says that the engine can be read and has signals missing.
    good = (0, 3) if command.startswith("scorer doctor") else (0,)
    assert done.returncode in good, f"{page}: {command}\n{done.stdout}{done.stderr}"


@pytest.mark.system
@pytest.mark.parametrize(
    "command",
    [
        "curl -sf localhost:9808/api/v1/target/TARGET",
        "curl -sf localhost:9808/api/v1/pools | jq '.data[].pool | keys'",
        "scorer explain TARGET --because",
        "scorer drian TARGET",
    ],
)
def test_wrong_command_is_seen(shell: Shell, command: str) -> None:
    """A path, a field, an option or a verb that does not exist fails here."""
    assert shell.run(command).returncode not in (0, 3)
