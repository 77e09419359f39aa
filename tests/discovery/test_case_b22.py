"""B22: addresses as people write them, and metrics elsewhere than traffic."""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from tests.system.conftest import DaemonProcess, page, send

pytestmark = pytest.mark.system

Daemons = Callable[..., DaemonProcess]


class Engine:
    """An engine that notes every path it is asked for."""

    def __init__(self, host: str) -> None:
        self.paths: set[str] = set()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                engine.paths.add(self.path)
                send(self, page().encode())

            def log_message(self, *_: object) -> None:
                pass

        class Listening(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        self._server = Listening((host, 0), Handler)
        self.port = self._server.server_port
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def engines() -> Iterator[dict[str, Engine]]:
    """Return the engines of the case by name."""
    hosts = {"six": "::1", "slash": "127.0.0.1", "bare": "127.0.0.1", "base": "127.0.0.1"}
    hosts |= {"split": "127.0.0.1", "port": "127.0.0.1"}
    started = {name: Engine(host) for name, host in hosts.items()}
    yield started
    for each in started.values():
        each.close()


def configuration(engines: dict[str, Engine]) -> dict[str, Any]:
    """Return the entries of the case, written as they are in it."""
    port = {name: each.port for name, each in engines.items()}
    split = {"__metrics_address__": f"127.0.0.1:{port['split']}"}
    split |= {"__metrics_path__": "/prometheus/metrics"}
    plain = [
        f"http://[::1]:{port['six']}",
        f"http://127.0.0.1:{port['slash']}/",
        f"127.0.0.1:{port['bare']}",
        f"http://127.0.0.1:{port['base']}/v1",
    ]
    targets = [{"targets": plain}, {"targets": ["http://127.0.0.1:8000"], "labels": split}]
    elsewhere = {"name": "port", "metrics_port": port["port"], "metrics_path": "/page"}
    elsewhere["static_configs"] = [{"targets": ["127.0.0.1:8000"]}]
    return {"pools": [{"name": "chat", "static_configs": targets}, elsewhere]}


def test_each_entry_is_scraped_at_one_right_url(
    engines: dict[str, Engine], daemon: Daemons
) -> None:
    """IPv6, a slash, no scheme, another port and path, a base path: no guess, no doubled slash."""
    running = daemon(configuration(engines)).ready()
    shown = running.get("/api/v1/targets").json()["data"]
    assert all(each["last_scrape"]["ok"] for each in shown)
    assert {name: each.paths for name, each in engines.items()} == {
        "six": {"/metrics"},
        "slash": {"/metrics"},
        "bare": {"/metrics"},
        "base": {"/metrics"},
        "split": {"/prometheus/metrics"},
        "port": {"/page"},
    }


def test_picks_name_hosts_ready_for_a_url(engines: dict[str, Engine], daemon: Daemons) -> None:
    """An IPv6 host is in brackets; two targets on one host have names of their own."""
    running = daemon(configuration(engines)).ready()
    answers = [running.get("/pick?pool=chat").json() for _ in range(100)]
    port = {name: each.port for name, each in engines.items()}
    assert {answer["target"]: answer["url"] for answer in answers} == {
        f"[::1]:{port['six']}": f"http://[::1]:{port['six']}",
        f"127.0.0.1:{port['slash']}": f"http://127.0.0.1:{port['slash']}",
        f"127.0.0.1:{port['bare']}": f"http://127.0.0.1:{port['bare']}",
        f"127.0.0.1:{port['base']}/v1": f"http://127.0.0.1:{port['base']}/v1",
        "127.0.0.1:8000": "http://127.0.0.1:8000",
    }


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ("127.0.0.1", "must name the port, as host:port"),
        ("http://127.0.0.1", "must name the port, as host:port"),
        ("::1:8000", "must put an IPv6 address in brackets, as [::1]:8000"),
        ("http://::1:8000", "must put an IPv6 address in brackets, as [::1]:8000"),
        ("127.0.0.1:0", "must have a port from 1 to 65535"),
    ],
)
def test_entry_that_names_no_port_is_refused_at_start(
    tmp_path: Path, entry: str, rule: str
) -> None:
    """Nothing is sent to port 80: the entry is named, and the exit code is 2."""
    path = tmp_path / "scorer.yml"
    path.write_text(
        yaml.safe_dump({"pools": [{"name": "chat", "static_configs": [{"targets": [entry]}]}]})
    )
    done = subprocess.run(
        [sys.executable, "-m", "scorer", "run", "--config.file", str(path)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"pools[0].static_configs[0].targets[0]: {rule}, got {entry}" in done.stderr
