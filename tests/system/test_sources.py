"""Sources besides an engine's own page: a real Prometheus, and gateways."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.system.agree import POINT, both_ways, prometheus, scores, settled, watch, works
from tests.system.conftest import DaemonProcess, FakeEngine, free_port, pool_of, send
from tests.waited import Waited

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


def measures(gateway: FakeEngine, target: str, ttft: float) -> None:
    """Serve a gateway's page on which every fifth request of a target fails."""
    began = time.monotonic()

    def answer(handler: Any) -> None:
        count = int(20 * (time.monotonic() - began)) + 10
        numbers = {"count": count, "sum": count * ttft, "failed": count // 4}
        send(handler, GATEWAY.format(target=target, **numbers).encode())

    gateway.answer = answer


def test_prometheus_gives_the_scores_that_scraping_gives(
    engine: Engines, daemon: Daemons, tmp_path: Path
) -> None:
    """Two engines, scraped by us and by a real Prometheus: the same scores, and the same again."""
    busy, calm, edge = engine(), engine(), engine()
    works(busy, 1.0, running=8, waiting=15, kv_cache=0.9)
    works(calm, 0.2, running=2)
    measures(edge, busy.target, 1.6)
    with prometheus(tmp_path, vllm=[busy.target, calm.target], edge=[edge.target]) as url:
        config = both_ways(url, busy, calm)
        gateway = {"name": "edge", "preset": "nginx", "selector": 'job="edge"', "pool": "edge"}
        config["gateways"] = [gateway]
        config["pools"].append({**config["pools"][0], "name": "edge"})
        running = daemon(config)
        running.until(lambda: settled(running), 30)
        names = {busy.target: "busy", calm.target: "calm"}
        assert watch(running, names, 4.0) <= POINT
        row = running.target(f"{busy.target}?pool=asked")
        assert (row["mapping"], row["running"]) == ("vllm_v1", 8)
        assert row["signals"]["kv_cache"]["value"] == 0.9
        edge_row = running.target(f"{busy.target}?pool=edge")["signals"]["ttft"]
        assert edge_row["source"] == "gateway"
        assert edge_row["value"] == pytest.approx(1.6, abs=0.05)
        works(calm, 0.2, running=9, waiting=30)
        running.until(lambda: scores(running, "scraped")[calm.target] < 80)
        running.until(lambda: settled(running), 30)


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
    running.until(lambda: "Prometheus remarks" in running.log)
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
    woken, waited = time.monotonic(), Waited(running.process.pid)
    one.scraped_at.clear()
    os.kill(running.process.pid, signal.SIGCONT)
    running.until(lambda: one.scraped_at)
    assert waited.seconds < 1.2
    running.until(lambda: len(one.scraped_at) > 3)
    assert one.scraped_at[3] - woken > 1.5  # one at once, the others in their phase
