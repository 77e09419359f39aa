"""Real Prometheus, real Alertmanager, and who gets their notifications."""

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.alerts.shipped import FOLDER, RULES_FILE
from tests.system.conftest import NAP, free_port

EXAMPLE = FOLDER / "alertmanager.example.yml"
DURATION = re.compile(r"(?<![\w.])(\d+)([smh])(?![\w.])")
MILLISECONDS = {"s": 1_000, "m": 60_000, "h": 3_600_000}

session = requests.Session()
session.trust_env = False


def hurried(text: str, times: int) -> str:
    """Return ``text`` with every duration in it divided by ``times``."""

    def shorter(found: re.Match[str]) -> str:
        return f"{int(found[1]) * MILLISECONDS[found[2]] // times}ms"

    return DURATION.sub(shorter, text)


def hurried_rules(times: int) -> str:
    """Return the shipped rules, ``times`` faster: ``for``, ranges and all other durations."""
    document = yaml.safe_load(RULES_FILE.read_text())
    for group in document["groups"]:
        for rule in group["rules"]:
            for key in ("for", "keep_firing_for", "expr"):
                if key in rule:
                    rule[key] = hurried(rule[key], times)
    return yaml.safe_dump(document)


@dataclass(frozen=True, slots=True)
class Notice:
    """One alert of a notification: who got it, when (monotonic seconds), and what it says."""

    at: float
    receiver: str
    status: str
    labels: dict[str, str]

    @property
    def name(self) -> str:
        """What the alert is called."""
        return self.labels["alertname"]


class Webhook:
    """Takes Alertmanager's notifications, at the path of each receiver."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                at, receiver = time.monotonic(), self.path.strip("/")
                hook.notices += [
                    Notice(at, receiver, alert["status"], alert["labels"])
                    for alert in body["alerts"]
                ]
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def first(self, receiver: str, name: str, status: str) -> Notice | None:
        """Return the first such notice, None while there is none."""
        return next(
            (
                each
                for each in self.notices
                if (each.receiver, each.name, each.status) == (receiver, name, status)
            ),
            None,
        )

    def close(self) -> None:
        """Stop taking notifications."""
        self._server.shutdown()
        self._server.server_close()


class Server:
    """A Prometheus or an Alertmanager: a process with an address."""

    def __init__(self, process: "subprocess.Popen[bytes]", address: str, log: Path) -> None:
        self.process, self.address, self._log = process, address, log
        self.url = f"http://{address}"
        self.folder = log.parent

    def get(self, path: str, **parameters: str) -> Any:
        """Return the answer's JSON."""
        answer = session.get(self.url + path, params=parameters, timeout=10)
        answer.raise_for_status()
        return answer.json()

    def until(self, condition: Callable[[], Any], seconds: float) -> Any:
        """Return the first true value of ``condition``; fail after ``seconds``."""
        for _ in range(int(seconds / NAP)):
            try:
                if value := condition():
                    return value
            except requests.ConnectionError:
                assert self.process.poll() is None, self._log.read_text()
            time.sleep(NAP)
        pytest.fail(f"did not happen within {seconds} s:\n{self._log.read_text()}")


@contextmanager
def running(command: list[str], address: str, folder: Path) -> Iterator[Server]:
    """Run a server in ``folder`` until the end; it is ready when it says so."""
    log = folder / f"{command[0]}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, cwd=folder)
    server = Server(process, address, log)
    try:
        ready = f"{server.url}/-/ready"
        server.until(lambda: session.get(ready, timeout=10).ok, 60)
        yield server
    finally:
        process.kill()
        process.wait(10)


@contextmanager
def alertmanager(folder: Path, hook: str, times: int) -> Iterator[Server]:
    """Run an Alertmanager with the shipped example, ``times`` faster, that notifies ``hook``."""
    document = yaml.safe_load(hurried(EXAMPLE.read_text(), times))
    for receiver in document["receivers"]:
        receiver["webhook_configs"] = [{"url": f"{hook}/{receiver['name']}", "send_resolved": True}]
    path = folder / "alertmanager.yml"
    path.write_text(yaml.safe_dump(document))
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus-alertmanager", f"--config.file={path}", f"--web.listen-address={address}",
        "--cluster.listen-address=", f"--storage.path={folder / 'alertmanager'}",
    ]  # fmt: skip
    with running(command, address, folder) as server:
        yield server


@contextmanager
def prometheus(folder: Path, daemon: str, alerts: str, times: int) -> Iterator[Server]:
    """Run a Prometheus that scrapes ``daemon`` and tells ``alerts``; intervals are 15 s / times."""
    (folder / "rules.yml").write_text(hurried_rules(times))
    interval = hurried("15s", times)
    document = {
        "global": {"scrape_interval": interval, "evaluation_interval": interval},
        "rule_files": ["rules.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alerts]}]}]},
        "scrape_configs": [
            {
                "job_name": "scorer",
                "scrape_timeout": interval,
                "static_configs": [{"targets": [daemon]}],
            }
        ],
    }
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(document))
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus", f"--config.file={path}", f"--web.listen-address={address}",
        f"--storage.tsdb.path={folder / 'prometheus'}", "--rules.alert.resend-delay=1s",
    ]  # fmt: skip
    with running(command, address, folder) as server:
        yield server
