"""The story of :mod:`world` in a real Prometheus."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.dashboards.world import HOURS, START, World
from tests.system.conftest import free_port

JOB = "scorer"
END = START + HOURS * 3600
CONFIG = "global: {}\n"


def stamped(text: str, instance: str, at: float) -> str:
    """Return a page's samples as Prometheus would keep them: with job, instance and time."""
    labels = f'job="{JOB}",instance="{instance}"'
    lines = []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        series, _, value = line.rpartition(" ")
        name, brace, rest = series.partition("{")
        inner = f"{labels},{rest}" if brace else f"{labels}}}"
        lines.append(f"{name}{{{inner} {value} {at}\n")
    return "".join(lines)


def write_history(folder: Path, hours: float = HOURS) -> None:
    """Write the blocks of a time series database."""
    told = folder / "history.om"
    with told.open("w", encoding="utf-8") as file:
        for instance, at, text in World().pages(hours):
            file.write(stamped(text + "up 1.0\n", instance, at))
        file.write("# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(told), "."]
    blocks = folder / "data"
    blocks.mkdir()
    subprocess.run(command, cwd=blocks, check=True, capture_output=True, timeout=300)
    told.unlink()


@dataclass(frozen=True)
class Prometheus:
    """A server that knows the story; times are Unix seconds."""

    url: str

    def ask(self, path: str, **parameters: object) -> Any:
        """Return the data of an answer."""
        answer = requests.get(f"{self.url}/api/v1/{path}", parameters, timeout=60)
        whole = answer.json()
        assert whole["status"] == "success", f"{parameters}: {whole}"
        return whole["data"]

    def over_time(self, query: str, step: int) -> list[dict[str, Any]]:
        """Return the series of a query over the whole story."""
        found = self.ask("query_range", query=query, start=START + 300, end=END, step=step)
        return found["result"]

    def at_the_end(self, query: str) -> list[dict[str, Any]]:
        """Return the values of a query at the end."""
        return self.ask("query", query=query, time=END)["result"]


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Prometheus]:
    """Run Prometheus on the blocks in ``folder``."""
    config = folder / "prometheus.yml"
    config.write_text(CONFIG)
    port = free_port()
    process = subprocess.Popen(
        [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=50y",
            "--log.level=error",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 30
        while not ready(url):
            assert process.poll() is None, "Prometheus ended"
            assert time.monotonic() < until, "Prometheus does not start"
            time.sleep(0.1)
        yield Prometheus(url)
    finally:
        process.terminate()
        process.wait(30)


def ready(url: str) -> bool:
    """Return whether a Prometheus can be asked."""
    try:
        return requests.get(f"{url}/-/ready", timeout=5).status_code == 200
    except requests.RequestException:
        return False
