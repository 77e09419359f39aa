"""The Unix socket of the real daemon: the same interface, and a file that comes and goes."""

import contextlib
import json
import signal
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import trustme
import yaml

from tests.integrations.nginx_rig import restart
from tests.invoked import invoked
from tests.system.conftest import DaemonProcess, FakeEngine, pool_of
from tests.unix import UnixConnection, connect
from tests.waited import waited_to_end

pytestmark = pytest.mark.system

PICK = b"GET /pick?format=text HTTP/1.1\r\nHost: x\r\n\r\n"
JSON = {"Content_Type": "application/json"}


def config(path: Path, *engines: FakeEngine, **more: Any) -> dict[str, Any]:
    """Return a configuration with a Unix socket at a path."""
    return pool_of(*engines) | {"web": {"unix_socket": {"path": str(path)}, **more}}


@dataclass
class Site:
    """A daemon that listens on a Unix socket too, and its only target."""

    daemon: DaemonProcess
    engine: FakeEngine
    path: Path

    @contextlib.contextmanager
    def connected(self) -> Iterator[UnixConnection]:
        """Yield a connection to it."""
        with contextlib.closing(UnixConnection(self.path)) as connection:
            yield connection

    def ask(self, path: str, body: str | None = None, **headers: str) -> tuple[int, bytes]:
        """Return status and body of an answer, on a connection of its own."""
        with self.connected() as connection:
            return connection.ask(path, body, **headers)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("unix")
    engine, path = FakeEngine(), folder / "s"
    made = Site(DaemonProcess(folder, config(path, engine)), engine, path)
    made.daemon.ready()
    yield made
    made.daemon.process.kill()
    made.daemon.process.wait(5)
    engine.close()


PATHS = ("/", "/pick", "/pick/v1/x?format=headers", "/metrics", "/-/healthy", "/-/ready",
         "/api/v1/targets", "/api/v1/snapshot", "/api/v1/status/config", "/feedback",
         "/static/status.css", "/nowhere")  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_every_path_is_answered_as_over_tcp(site: Site, path: str) -> None:
    """One interface, two ways to it."""
    assert site.ask(path)[0] == site.daemon.get(path).status_code


def test_only_owner_and_group_may_connect(site: Site) -> None:
    """Unless the file says otherwise."""
    assert stat.S_IMODE(site.path.stat().st_mode) == 0o660


def test_picks_and_reports_share_a_kept_connection(site: Site) -> None:
    """Whatever the form, and however long the query; a report closes the lease of its pick."""
    leases = site.daemon.target(site.engine.target)["in_flight"]
    with site.connected() as connection:
        connection.connect()
        first = connection.sock
        for _ in range(3):
            status, body = connection.ask(f"/pick?key={'k' * 10_000}")
            pick = json.loads(body)
            assert (status, pick["target"]) == (200, site.engine.target)
            assert site.daemon.target(site.engine.target)["in_flight"] == leases + 1
            report = {"pick_id": pick["pick_id"], "target": pick["target"], "status": 200}
            assert connection.ask("/feedback", json.dumps(report))[0] == 202
            assert site.daemon.target(site.engine.target)["in_flight"] == leases
            assert connection.ask("/pick?format=xml")[0] == 400
            assert connection.ask("/metrics")[0] == 200
        assert connection.sock is first


def test_pipelined_picks_are_answered_in_order(site: Site) -> None:
    """Many at once, which take more than one turn, and behind something slower."""
    slow = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(site.path) as sock:
        sock.sendall(
            PICK * 100 + slow + PICK + b"GET /nowhere HTTP/1.1\r\nConnection: close\r\n\r\n"
        )
        received = b"".join(iter(lambda: sock.recv(65536), b""))
    assert received.count(b"HTTP/1.1 200 OK") == 102
    assert received.index(b"HTTP/1.1 404 ") > received.index(b"scorer is healthy")


def test_orders_are_taken_as_from_this_machine(site: Site) -> None:
    """Those who may connect are trusted as loopback is, and what they passed on is not."""
    order = f"/api/v1/targets/{site.engine.target}/cooldown"
    body = json.dumps({"duration": "1s"})
    assert site.ask(order, body, **JSON)[0] == 200
    site.daemon.until(lambda: "peer=unix" in site.daemon.log)
    assert site.ask(order, body, **JSON, X_Forwarded_For="10.0.0.1")[0] == 403


def test_our_own_commands_use_it(site: Site) -> None:
    """With ``unix:/path`` in place of a URL."""
    target, url = site.engine.target, f"unix:{site.path}"
    done = invoked("cooldown", target, "--duration", "1s", "--url", url)
    assert (done.returncode, done.stderr) == (0, "")
    done = invoked("explain", target, "-o", "json", SCORER_URL=url)
    assert json.loads(done.stdout)["target"] == target


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nowhere", "no answer from unix:{path}: No such file or directory"),
        ("file", "connection refused by unix:{path}: nothing listens there"),
    ],
)
def test_our_own_commands_say_who_does_not_answer(tmp_path: Path, path: str, said: str) -> None:
    """In one line."""
    (tmp_path / "file").touch()
    done = invoked("undrain", "a:1", "--url", f"unix:{tmp_path / path}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"scorer: {said.format(path=tmp_path / path)}\n"


def test_idle_and_broken_connections_cost_nobody(site: Site) -> None:
    """Connections that say nothing, leave in the middle, or never read."""
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connect(site.path)) for _ in range(500)]
        for begun in idle[:100]:
            begun.sendall(PICK[:20])
            begun.close()
        for deaf in idle[100:108]:
            deaf.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                deaf.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000)
        assert site.ask("/pick")[0] == 200
        assert site.daemon.get("/pick").status_code == 200
        idle[-1].sendall(PICK)
        assert idle[-1].recv(65536).startswith(b"HTTP/1.1 200 OK")
    assert "Traceback" not in site.daemon.log


def test_nonsense_is_400(site: Site) -> None:
    """And the end of the connection."""
    with connect(site.path) as sock:
        sock.sendall(b"\x16\x03\x01\x02\x00")
        assert b"".join(iter(lambda: sock.recv(65536), b"")).startswith(b"HTTP/1.1 400 ")


def test_path_in_use_is_a_clear_error(site: Site, tmp_path: Path) -> None:
    """A second daemon says so, exits with 1 and leaves the first alone."""
    second = DaemonProcess(tmp_path, config(site.path, site.engine))
    assert second.process.wait(60) == 1
    assert f"scorer: cannot listen on unix:{site.path}: Address already in use" in second.log
    assert site.ask("/-/healthy")[0] == 200


def test_it_stops_in_time_and_its_file_is_gone(
    daemon: Callable[..., DaemonProcess], engine: Callable[[], FakeEngine], tmp_path: Path
) -> None:
    """Whoever is connected: idle, in the middle of a request, or without reading."""
    path = tmp_path / "s"
    running = daemon(config(path, engine())).ready()
    with contextlib.ExitStack() as stack:
        idle, begun, deaf = (stack.enter_context(connect(path)) for _ in range(3))
        idle.sendall(PICK)
        assert idle.recv(65536)
        begun.sendall(PICK[:20])
        deaf.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            deaf.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000)
        running.signal(signal.SIGTERM)
        assert idle.recv(65536) == b""
        assert waited_to_end(running.process) < 6.0
    assert running.process.returncode == 0
    assert not path.exists()
    assert "Traceback" not in running.log


def test_it_starts_again_where_it_was_killed(
    daemon: Callable[..., DaemonProcess], engine: Callable[[], FakeEngine], tmp_path: Path
) -> None:
    """The file that nobody could take away is replaced."""
    path = tmp_path / "s"
    running = daemon(config(path, engine())).ready()
    running.signal(signal.SIGKILL)
    running.process.wait(5)
    with pytest.raises(ConnectionRefusedError):
        connect(path)
    restart(running)
    running.ready()
    with contextlib.closing(UnixConnection(path)) as connection:
        assert connection.ask("/pick")[0] == 200
    assert running.stop() == 0
    assert not path.exists()


def test_password_is_asked_for_and_tls_is_not(
    daemon: Callable[..., DaemonProcess], engine: Callable[[], FakeEngine], tmp_path: Path
) -> None:
    """Nothing leaves the machine here; who knows the password is let in, as over TCP."""
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    web = tmp_path / "web.yml"
    web.write_text(yaml.safe_dump({
        "tls_server_config": {"cert_file": "both.pem", "key_file": "both.pem"},
        "basic_auth_users": {"ops": hashed},
    }))  # fmt: skip
    path = tmp_path / "s"
    running = daemon(config(path, engine()), "--web.config.file", str(web))
    running.until(lambda: "unix:" in running.log)
    with contextlib.closing(UnixConnection(path)) as connection:
        assert [connection.ask(each)[0] for each in ("/pick", "/metrics")] == [401, 401]
        known = {"Authorization": "Basic b3BzOnNlY3JldA=="}
        running.until(lambda: connection.ask("/-/ready", **known)[0] == 200)
        assert [connection.ask(each, **known)[0] for each in ("/pick", "/metrics")] == [200, 200]
