"""Engines, the daemon and a real HAProxy with the shipped Lua configuration."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
import trustme

from tests.integrations import engine as ways
from tests.integrations.engine import Engine
from tests.integrations.haproxy import Haproxy, end, until
from tests.system.conftest import DaemonProcess, free_port, pool_of

PATIENT = ("SCORER_PICK_TIMEOUT_MS 20", "SCORER_PICK_TIMEOUT_MS 5000")
"""A machine that is busy with other tests answers later, which is another test's matter."""


@dataclass
class World:
    """Three engines, one of them on IPv6; the daemon; HAProxy."""

    engines: list[Engine]
    daemon: DaemonProcess
    haproxy: Haproxy

    @property
    def port(self) -> int:
        """Where clients come."""
        return self.haproxy.port

    def page(self) -> str:
        """Return HAProxy's metrics."""
        port = self.haproxy.ports[9813]
        return requests.get(f"http://127.0.0.1:{port}/metrics", timeout=5).text

    def value(self, series: str) -> float:
        """Return a metric's value, 0 without one."""
        lines = (line.rpartition(" ") for line in self.page().splitlines())
        return next((float(value) for name, _, value in lines if name == series), 0.0)

    def outcomes(self, target: str) -> dict[str, float]:
        """Return what was told of a target, by class."""
        lines = self.daemon.get("/metrics?name[]=scorer_feedback_total").text.splitlines()
        wanted = f'target="{target}",outcome="'
        return {
            line.split(wanted)[1].split('"')[0]: float(line.rpartition(" ")[2])
            for line in lines
            if wanted in line and not line.endswith(" 0.0")
        }

    def told(self, target: str, outcome: str, more_than: float) -> None:
        """Wait until an outcome was counted more often than that."""
        until(
            lambda: self.outcomes(target).get(outcome, 0) > more_than,
            why=lambda: f"{self.outcomes(target)} {self.haproxy.log} {self.daemon.log}",
        )

    def best(self) -> Engine:
        """Return the engine with the highest score, which will get requests."""
        return max(self.engines, key=lambda each: self.daemon.target(each.target)["score"])

    def rest(self) -> None:
        """Let every engine serve, and the daemon forget cooldowns."""
        for each in self.engines:
            each.way = ways.serves
            url = f"{self.daemon.url}/api/v1/targets/{each.target}/end-cooldown"
            self.daemon.http.post(url, json={})


BIND = "    bind 127.0.0.1:8080\n"
TLS_PORT = 8443


def binds(folder: Path) -> tuple[str, str]:
    """Return the change of the configuration that adds TLS, and with it HTTP/2 by ALPN."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    file = folder / "haproxy.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(file))
    return BIND, f"{BIND}    bind 127.0.0.1:{TLS_PORT} ssl crt {file} alpn h2,http/1.1\n"


@contextmanager
def running(folder: Path) -> Iterator[World]:
    """Start everything once; HAProxy is alive at the end."""
    engines = [Engine(), Engine(), Engine("::1")]
    udp = free_port()
    feedback = {"udp": {"listen": f"127.0.0.1:{udp}"}}
    config = {**pool_of(*(each.target for each in engines)), "feedback": feedback}
    daemon = DaemonProcess(folder, config)
    haproxy = None
    try:
        daemon.ready()
        haproxy = Haproxy(
            folder,
            "lua.cfg",
            {9808: int(daemon.url.rpartition(":")[2]), 9809: udp},
            changes=(PATIENT, binds(folder)),
        )
        made = World(engines, daemon, haproxy)
        daemon.until(lambda: all(daemon.target(e.target)["state"] == "healthy" for e in engines))
        yield made
        haproxy.stop()
    finally:
        end(haproxy, daemon, engines)
