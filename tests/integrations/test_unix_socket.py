"""Proxies on the daemon's own machine, which ask it by a Unix socket."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.engines import StreamingEngine, chat
from tests.integrations.envoy_stack import EnvoyProcess
from tests.integrations.haproxy import Haproxy
from tests.integrations.haproxy_world import PATIENT
from tests.integrations.load import request
from tests.integrations.nginx_rig import ROOT, Nginx, restart, until
from tests.system.conftest import DaemonProcess, free_port, pool_of

pytestmark = pytest.mark.system

CONNECTED = "03"
"""The state of a connection in the system's list of Unix sockets."""


@dataclass
class Site:
    """Two engines, and a daemon of whose addresses a proxy is told only the path."""

    folder: Path
    engines: list[StreamingEngine]
    daemon: DaemonProcess
    path: Path
    udp: str

    def targets(self) -> list[dict[str, Any]]:
        """Return what the daemon says of each target."""
        found: list[dict[str, Any]] = self.daemon.get("/api/v1/targets").json()["data"]
        return found

    def picks(self) -> float:
        """Return how often the daemon picked."""
        return float(sum(target["picks"] for target in self.targets()))

    def connections(self) -> set[str]:
        """Return the connections that are open at the path, by their numbers."""
        lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
        return {
            line[6] for line in lines
            if line[-1] == str(self.path) and line[5] == CONNECTED
        }  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("unix")
    engines, udp = [StreamingEngine(), StreamingEngine()], f"127.0.0.1:{free_port()}"
    config = pool_of(*(each.target for each in engines)) | {
        "web": {"unix_socket": {"path": str(folder / "s")}},
        "feedback": {"udp": {"listen": udp}},
    }
    daemon = DaemonProcess(folder, config)
    try:
        daemon.ready()
        yield Site(folder, engines, daemon, folder / "s", udp)
    finally:
        daemon.process.kill()
        daemon.process.wait(5)
        for each in engines:
            each.close()


@dataclass
class Proxy:
    """A proxy that runs; ``tells`` is whether it tells how requests end."""

    address: str
    end: Callable[[], object]
    tells: bool = True

    def ask(self) -> None:
        """Send a request, which must be answered well."""
        status, body = request(self.address, chat())
        assert (status, body.endswith(b"data: [DONE]\n\n")) == (200, True)


def auth_request(site: Site, folder: Path) -> Proxy:
    """Start nginx without Lua."""
    nginx = Nginx(folder, "auth_request.conf", {
        "server 127.0.0.1:9808": f"server unix:{site.path}",
        "127.0.0.1:9807": f"127.0.0.1:{free_port()}",
        "127.0.0.1:9809": site.udp,
        "10.0.0.1:8000": site.engines[0].target,
        "10.0.0.2:8000": site.engines[1].target,
        "proxy_connect_timeout 20ms": "proxy_connect_timeout 500ms",
        "proxy_read_timeout 20ms": "proxy_read_timeout 500ms",
    })  # fmt: skip
    return Proxy(f"127.0.0.1:{nginx.port}", nginx.close)


def nginx_lua(site: Site, folder: Path) -> Proxy:
    """Start nginx with Lua."""
    nginx = Nginx(folder, "lua.conf", {
        "/opt/scorer": str(ROOT),
        '"127.0.0.1:9808"': f'"unix:{site.path}", deadline = 0.5',
        '"10.0.0.1:8000", "10.0.0.2:8000"': ", ".join(f'"{e.target}"' for e in site.engines),
        "127.0.0.1:9145": f"127.0.0.1:{free_port()}",
    })  # fmt: skip
    return Proxy(f"127.0.0.1:{nginx.port}", nginx.close)


def haproxy_lua(site: Site, folder: Path) -> Proxy:
    """Start HAProxy with Lua."""
    told = ("SCORER_ADDRESS 127.0.0.1:9808", f"SCORER_ADDRESS unix:{site.path}")
    udp = int(site.udp.rpartition(":")[2])
    haproxy = Haproxy(folder, "lua.cfg", {9809: udp}, changes=(PATIENT, told))
    return Proxy(f"127.0.0.1:{haproxy.port}", haproxy.kill)


def envoy_ext_authz(site: Site, folder: Path) -> Proxy:
    """Start Envoy without Lua."""
    targets = [each.target for each in site.engines]
    envoy = EnvoyProcess(
        folder / "envoy", "ext-authz.yaml", f"unix:{site.path}", targets, hasty=False
    )

    def end() -> None:
        envoy.process.kill()
        envoy.process.wait(5)

    try:
        until(envoy.ready)
    except AssertionError:
        end()
        raise
    return Proxy(envoy.address, end, tells=False)


WAYS = (auth_request, nginx_lua, haproxy_lua, envoy_ext_authz)


@pytest.fixture(scope="module", params=WAYS, ids=[way.__name__ for way in WAYS])
def proxy(site: Site, request: pytest.FixtureRequest) -> Iterator[Proxy]:
    folder = site.folder / request.param.__name__
    folder.mkdir()
    running = request.param(site, folder)
    yield running
    running.end()


def picked_for(site: Site, proxy: Proxy, count: int = 1) -> bool:
    """Return whether each of some requests was a pick of the daemon."""
    picks = site.picks()
    for _ in range(count):
        proxy.ask()
    return site.picks() == picks + count


def test_requests_are_picked_for_and_their_ends_told(site: Site, proxy: Proxy) -> None:
    """By and to the daemon, which the proxy can reach by its socket only."""
    until(lambda: picked_for(site, proxy, 20))
    if proxy.tells:
        until(lambda: all(each["in_flight"] == 0 for each in site.targets()), what=site.targets)


def test_connections_are_kept(site: Site, proxy: Proxy) -> None:
    """One that is there before some requests is there after them."""

    def kept() -> bool:
        before = site.connections()
        for _ in range(3):
            proxy.ask()
        return bool(before & site.connections())

    until(kept)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_no_request_fails_without_the_daemon(
    site: Site, proxy: Proxy, number: signal.Signals
) -> None:
    """With a socket on which nobody listens, and without one; then it is asked again."""
    site.daemon.signal(number)
    site.daemon.process.wait(60)
    assert site.path.exists() == (number is signal.SIGKILL)
    for _ in range(10):
        proxy.ask()
    restart(site.daemon)
    site.daemon.ready()
    until(lambda: picked_for(site, proxy))
