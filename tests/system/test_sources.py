"""Sources besides an engine's own page: a real Prometheus, and gateways."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.system.conftest import DaemonProcess, FakeEngine, free_port, page, pool_of, send

pytestmark = pytest.mark.system

Engines = Callable[[], FakeEngine]
Daemons = Callable[..., DaemonProcess]

GATEWAY = """\
# TYPE gateway_ttft_seconds histogram
gateway_ttft_seconds_sum{{pool="edge",target="{target}"}} {sum}
gateway_ttft_seconds_count{{pool="edge",target="{target}"}} {count}
# TYPE gateway_requests_total counter
gateway_requests_total{{pool="edge",target="{target}",code="200"}} {count}
gateway_requests_total{{pool="edge",target="{target}",code="500"}} {failed}
"""


def works(engine: FakeEngine, ttft: float, **load: object) -> None:
    """Serve ten requests a second, each with the same TTFT, under a load."""
    began = time.monotonic()

    def answer(handler: Any) -> None:
        count = int(10 * (time.monotonic() - began)) + 10
        body = page(count=count, sum=count * ttft, tokens=100 * count, **load)
        send(handler, body.encode())

    engine.answer = answer


def measures(gateway: FakeEngine, target: str, ttft: float) -> None:
    """Serve a gateway's page on which every fifth request of a target fails."""
    began = time.monotonic()

    def answer(handler: Any) -> None:
        count = int(20 * (time.monotonic() - began)) + 10
        numbers = {"count": count, "sum": count * ttft, "failed": count // 4}
        send(handler, GATEWAY.format(target=target, **numbers).encode())

    gateway.answer = answer


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return a function that starts a Prometheus, waits until it has scraped, and returns its URL.

    Each keyword is a job with the addresses that it scrapes.
    """
    started: list[subprocess.Popen[bytes]] = []

    def scraped(url: str) -> int:
        try:
            answer = requests.get(f"{url}/api/v1/query?query=up==1", timeout=5)
            return len(answer.json()["data"]["result"])
        except (requests.ConnectionError, ValueError, KeyError):
            return 0

    def start(**jobs: list[str]) -> str:
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "900ms"},
            "scrape_configs": [
                {"job_name": name, "static_configs": [{"targets": targets}]}
                for name, targets in jobs.items()
            ],
        }
        path = tmp_path / "prometheus.yml"
        path.write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{free_port()}"
        with (tmp_path / "prometheus.log").open("wb") as log:
            started.append(
                subprocess.Popen(
                    ["prometheus", f"--config.file={path}", f"--web.listen-address={address}",
                     f"--storage.tsdb.path={tmp_path / 'tsdb'}", "--log.level=warn"],
                    stdout=log, stderr=log,
                )
            )  # fmt: skip
        deadline = time.monotonic() + 20.0
        while scraped(f"http://{address}") < sum(map(len, jobs.values())):
            assert time.monotonic() < deadline, (tmp_path / "prometheus.log").read_text()
            time.sleep(0.1)
        return f"http://{address}"

    yield start
    for each in started:
        each.kill()
        each.wait(5)


def test_prometheus_gives_the_scores_that_scraping_gives(
    engine: Engines, daemon: Daemons, prometheus: Callable[..., str]
) -> None:
    """Two engines, scraped by us and by a real Prometheus: the same scores, and the same again."""
    busy, calm, edge = engine(), engine(), engine()
    works(busy, 1.0, running=8, waiting=15, kv_cache=0.9)
    works(calm, 0.2, running=2)
    measures(edge, busy.target, 1.6)
    url = prometheus(vllm=[busy.target, calm.target], edge=[edge.target])
    targets = [{"targets": [busy.target, calm.target]}]
    asked = {"source": "prometheus", "engine": "vllm", "prometheus": {"selector": 'job="vllm"'}}
    config = {
        "prometheus": {"url": url},
        "gateways": [{"name": "edge", "preset": "nginx", "selector": 'job="edge"', "pool": "edge"}],
        "pools": [
            {"name": "scraped", "static_configs": targets},
            {"name": "asked", "static_configs": targets, **asked},
            {"name": "edge", "static_configs": targets},
        ],
    }
    running = daemon(config)

    def scores(pool: str) -> dict[str, float]:
        data = running.get(f"/api/v1/targets?pool={pool}").json()["data"]
        return {row["target"]: row["score"] or 0.0 for row in data}

    def alike() -> bool:
        one, other = scores("scraped"), scores("asked")
        return all(abs(one[name] - other[name]) <= 1.0 for name in one)

    running.until(lambda: min(scores("asked").values()) > 50 and alike(), 20)
    deadline = time.monotonic() + 4.0
    while time.monotonic() < deadline:
        assert alike(), (scores("scraped"), scores("asked"))
        time.sleep(0.2)
    row = running.target(f"{busy.target}?pool=asked")
    assert (row["mapping"], row["running"]) == ("vllm_v1", 8)
    assert row["signals"]["kv_cache"]["value"] == 0.9
    edge_row = running.target(f"{busy.target}?pool=edge")["signals"]["ttft"]
    assert (edge_row["source"], edge_row["value"]) == ("gateway", pytest.approx(1.6, abs=0.05))
    works(calm, 0.2, running=9, waiting=30)
    running.until(lambda: scores("scraped")[calm.target] < 80 and alike(), 10)


def test_prometheus_that_is_down_is_no_news_of_targets(engine: Engines, daemon: Daemons) -> None:
    """Targets are not observed rather than dead, the reason is told, and picks go on."""
    one = engine()
    pool = {**pool_of(one)["pools"][0], "source": "prometheus", "engine": "vllm"}
    url = f"http://127.0.0.1:{free_port()}"
    running = daemon({"prometheus": {"url": url, "timeout": "500ms"}, "pools": [pool]}).ready()
    row = running.until(
        lambda: (row := running.target(one.target))["state"] == "unreachable" and row, 10
    )
    assert row["state_reason"] == "scrapes_failed"
    assert row["last_scrape"]["reason"] == "connect"
    assert running.log.count("Prometheus remarks") == 1
    answer = running.get("/pick").json()
    assert (answer["target"], answer["panic"]) == (one.target, True)


def test_gateway_is_believed_before_the_engine(engine: Engines, daemon: Daemons) -> None:
    """TTFT and errors as the gateway counts them, with their source, for the target it names.

    A gateway that a reload takes out of the file is not read any more.
    """
    one, two, edge = engine(), engine(), engine()
    works(one, 0.1, running=1)
    works(two, 0.1, running=1)
    measures(edge, one.target, 1.8)
    gateway = {"name": "edge", "preset": "nginx", "metrics_url": f"http://{edge.target}/metrics"}
    running = daemon({**pool_of(one, two), "gateways": [gateway]}).ready()
    signals = running.until(
        lambda: (
            (found := running.target(one.target)["signals"])["ttft"].get("source") == "gateway"
            and found["errors"].get("source") == "gateway"
            and found
        )
    )
    assert signals["ttft"]["value"] == pytest.approx(1.8, abs=0.1)
    other = running.until(
        lambda: (found := running.target(two.target)["signals"]["ttft"]).get("value") and found
    )
    assert (other["source"], other["value"]) == ("engine", pytest.approx(0.1, abs=0.05))
    assert running.target(one.target)["score"] < running.target(two.target)["score"] - 20
    running.write(pool_of(one, two))
    running.signal(signal.SIGHUP)
    running.until(lambda: "Configuration reloaded" in running.log)
    seen = len(edge.scraped_at)
    one.scraped_at.clear()
    running.until(lambda: len(one.scraped_at) > 2)
    assert len(edge.scraped_at) <= seen + 1


def test_stopped_process_catches_up_once(engine: Engines, daemon: Daemons) -> None:
    """After SIGSTOP and SIGCONT the next scrape comes at once, and no burst follows."""
    one = engine()
    running = daemon(pool_of(one)).ready()
    os.kill(running.process.pid, signal.SIGSTOP)
    time.sleep(3.0)
    woken = time.monotonic()
    one.scraped_at.clear()
    os.kill(running.process.pid, signal.SIGCONT)
    running.until(lambda: len(one.scraped_at) > 3)
    assert one.scraped_at[0] - woken < 1.2
    gaps = [after - before for before, after in pairwise(one.scraped_at)]
    assert sum(gap < 0.3 for gap in gaps) <= 1
