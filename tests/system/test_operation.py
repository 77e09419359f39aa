"""How the daemon is run: variables, reload by itself, what systemd is told, checks of files."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scorer import __version__
from tests.system.conftest import DaemonProcess, FakeEngine, free_port, pool_of

pytestmark = pytest.mark.system


class Told:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(20)

    def next(self) -> str:
        """Return the next message, the first word of each line."""
        lines = self._socket.recv(4096).decode().splitlines()
        return " ".join(line.partition("=")[0] for line in lines)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    end = Told(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", end.path)
    yield end
    end.close()


def test_systemd_is_told(told: Told, daemon: Callable[..., DaemonProcess]) -> None:
    """Ready once it listens, reloading and ready again, stopping; a failed reload is over too."""
    running = daemon(pool_of("127.0.0.1:1"))
    assert told.next() == "READY"
    assert running.get("/-/healthy").status_code == 200
    running.signal(signal.SIGHUP)
    assert [told.next(), told.next()] == ["RELOADING MONOTONIC_USEC", "READY"]
    running.path.write_text("pools: []\n")
    running.signal(signal.SIGHUP)
    assert [told.next(), told.next()] == ["RELOADING MONOTONIC_USEC", "READY"]
    assert running.stop() == 0
    assert told.next() == "STOPPING"


def test_a_changed_file_is_loaded_by_itself(
    engine: Callable[[], FakeEngine], daemon: Callable[..., DaemonProcess]
) -> None:
    """Replaced as Kubernetes does it; a broken one is tried once and changes nothing."""
    one, two = engine(), engine()
    flags = ("--config.auto-reload", "--config.auto-reload-interval", "1s")
    running = daemon(pool_of(one), *flags).ready()
    other = running.path.with_name("other.yml")
    other.write_text("pools: []\n")
    other.replace(running.path)
    running.until(lambda: "scorer_config_last_reload_successful 0" in running.get("/metrics").text)
    running.path, path = other, running.path
    running.write(pool_of(two))
    other.replace(path)
    running.until(lambda: running.get("/pick").json()["target"] == two.target)
    running.until(lambda: "Configuration reloaded" in running.log)
    assert running.log.count("Configuration not reloaded") == 1
    assert running.log.count("Configuration reloaded") == 1


def test_variables_are_flags(tmp_path: Path) -> None:
    """A daemon that gets everything from its environment; empty variables count as none."""
    (tmp_path / "scorer.yml").write_text(
        "pools: [{name: a, static_configs: [{targets: ['h:1']}]}]\n"
    )
    (tmp_path / "web.yml").write_text("basic_auth_users: {ops: nothing}\n")
    given = {
        "SCORER_CONFIG_FILE": str(tmp_path / "scorer.yml"),
        "SCORER_WEB_LISTEN_ADDRESS": f"127.0.0.1:{free_port()}",
        "SCORER_CONFIG_CHECK": "true",
        "SCORER_WEB_CONFIG_FILE": "",
        "SCORER_PORT": "tcp://10.0.0.1:9808",
        "SCORER_SERVICE_HOST": "10.0.0.1",
    }
    checked = _scorer("run", **given)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert checked.stdout.startswith("SUCCESS: ")
    refused = _scorer("run", **given | {"SCORER_WEB_CONFIG_FILE": str(tmp_path / "web.yml")})
    assert refused.returncode == 2
    assert refused.stderr == (
        f"FAILED: {tmp_path / 'web.yml'}: basic_auth_users.ops: must be a bcrypt hash of cost 4 "
        "to 16, as htpasswd -nBC 10 prints\n"
    )


def test_check_config_checks_the_web_file_too(tmp_path: Path) -> None:
    """Exit code 2 and a line for what is wrong with it."""
    (tmp_path / "scorer.yml").write_text(
        "pools: [{name: a, static_configs: [{targets: ['h:1']}]}]\n"
    )
    web = tmp_path / "web.yml"
    web.write_text("tls_server_config: {cert_file: no.pem, key_file: no.key}\n")
    check = ("check-config", str(tmp_path / "scorer.yml"), "--web.config.file", str(web))
    failed = _scorer(*check)
    assert failed.returncode == 2
    assert f"FAILED: {web}: tls_server_config.cert_file: cannot be read: No such" in failed.stderr
    web.write_text("basic_auth_users: {}\n")
    fine = _scorer(*check)
    assert (fine.returncode, fine.stderr) == (0, "")
    assert f"SUCCESS: {web}\n" in fine.stdout


def test_version_names_the_build() -> None:
    """On standard output, exit code 0."""
    said = _scorer("--version")
    assert said.returncode == 0
    assert said.stdout.startswith(f"scorer, version {__version__} (revision: ")
    assert f"python version: {sys.version.split()[0]}" in said.stdout


def _scorer(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scorer", *arguments],
        env={**os.environ, **environment},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
