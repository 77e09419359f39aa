"""Discovery in the running daemon: who comes, who goes, and how soon."""

import contextlib
import json
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scorer.config import Config
from scorer.daemon import Daemon
from tests.discovery.conftest import Server
from tests.discovery.kubernetes_api import KubernetesApi, endpoint, slice_of
from tests.system.conftest import DaemonProcess, FakeEngine, page, pool_of, send

pytestmark = pytest.mark.system

Engines = Callable[[], FakeEngine]
Daemons = Callable[..., DaemonProcess]
Serve = Callable[..., Server]


def pool(**keys: Any) -> dict[str, Any]:
    return {"pools": [{"name": "chat", **keys}]}


def write(path: Path, *engines: FakeEngine) -> None:
    """Write a file of targets as Prometheus' users do, by an atomic replacement."""
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_suffix(".next")
    fresh.write_text(json.dumps([{"targets": [each.target for each in engines]}]))
    fresh.replace(path)


def targets(running: DaemonProcess) -> set[str]:
    return {each["target"] for each in running.get("/api/v1/targets").json()["data"]}


def picked(running: DaemonProcess, times: int = 30) -> set[str]:
    return {running.get("/pick?format=text").text.strip() for _ in range(times)}


def metric(running: DaemonProcess, name: str, mechanism: str) -> float:
    """Return the value of a metric of discovery."""
    series = f'{name}{{pool="chat",mechanism="{mechanism}"}} '
    [line] = [line for line in running.get("/metrics").text.splitlines() if series in line]
    return float(line.rpartition(" ")[2])


@contextlib.contextmanager
def seen_in_two_seconds(scraped: FakeEngine) -> Iterator[None]:
    """Assert that the daemon makes no more scrapes of an engine than in two of its seconds."""
    before = len(scraped.scraped_at)
    yield
    assert len(scraped.scraped_at) - before <= 3


def of(*engines: FakeEngine) -> set[str]:
    return {each.target for each in engines}


def test_change_of_a_file_is_seen_within_two_seconds(
    engine: Engines, daemon: Daemons, tmp_path: Path
) -> None:
    """A target that was added is there, one that was taken out is not, without a signal."""
    one, two = engine(), engine()
    path = tmp_path / "targets" / "chat.json"
    write(path, one)
    running = daemon(pool(file_sd_configs=[{"files": [str(path.parent / "*.json")]}])).ready()
    assert targets(running) == of(one)
    with seen_in_two_seconds(one):
        write(path, one, two)
        running.until(lambda: targets(running) == of(one, two))
    with seen_in_two_seconds(two):
        write(path, two)
        running.until(lambda: targets(running) == of(two))
    assert picked(running) == of(two)


def test_departed_target_is_gone_and_stays_gone(
    engine: Engines, daemon: Daemons, tmp_path: Path
) -> None:
    """Gone from gauges, API, picks and list at once; a late scrape does not bring it back."""
    one, two = engine(), engine()
    path = tmp_path / "targets" / "chat.json"
    write(path, one, two)
    more = {"global": {"scrape_interval": "5s", "scrape_timeout": "4s"}}
    running = daemon({**pool(file_sd_configs=[{"files": [str(path)]}]), **more}).ready()
    asked, answered = threading.Event(), threading.Event()

    def slowly(handler: Any) -> None:
        asked.set()
        one.released.wait(10)
        send(handler, page(waiting=7).encode())
        answered.set()

    one.answer = slowly
    assert asked.wait(10)
    write(path, two)
    running.until(lambda: targets(running) == of(two))
    gone = one.target
    assert gone not in running.get("/metrics").text
    assert gone not in running.get("/api/v1/sd/chat").text
    assert gone not in running.get("/").text
    assert running.get(f"/api/v1/targets/{gone}").status_code == 404
    assert picked(running) == of(two)
    one.released.set()
    assert answered.wait(10)
    judged = running.get("/api/v1/pools").json()["data"][0]["judged_at"]
    running.until(lambda: running.get("/api/v1/pools").json()["data"][0]["judged_at"] > judged)
    assert gone not in running.get("/metrics").text
    assert (targets(running), picked(running)) == (of(two), of(two))


def test_drained_target_that_is_lost_for_a_moment_comes_back_drained(
    engine: Engines, daemon: Daemons, tmp_path: Path
) -> None:
    """While it is away there is no trace of it, and no order about it is taken."""
    one, two = engine(), engine()
    path = tmp_path / "chat.json"
    write(path, one, two)
    running = daemon(pool(file_sd_configs=[{"files": [str(path)]}])).ready()
    url = f"{running.url}/api/v1/targets/{one.target}"
    assert running.http.post(f"{url}/drain", json={"reason": "upgrade"}).status_code == 200
    write(path, two)
    running.until(lambda: targets(running) == of(two))
    assert one.target not in running.get("/metrics").text
    assert running.http.post(f"{url}/undrain", json={}).status_code == 404
    write(path, one, two)
    running.until(lambda: targets(running) == of(one, two))
    shown = running.target(one.target)
    assert (shown["state"], shown["state_reason"]) == ("draining", "manual")
    assert picked(running) == of(two)


def test_target_that_stays_keeps_its_score_and_one_that_comes_warms_up(
    engine: Engines, daemon: Daemons, tmp_path: Path
) -> None:
    """The fleet of the start is not new; who comes later begins at 0."""
    one, two = engine(), engine()
    path = tmp_path / "chat.yml"
    path.write_text(f"- {{targets: ['{one.target}']}}")
    running = daemon(pool(file_sd_configs=[{"files": [str(path)]}])).ready()
    assert running.target(one.target)["score"] == 100.0
    path.write_text(f"- {{targets: ['{one.target}', '{two.target}']}}")
    shown = running.until(
        lambda: two.target in targets(running) and running.target(two.target), seconds=5
    )
    assert (shown["state"], running.target(one.target)["score"]) == ("warmup", 100.0)


def test_broken_file_keeps_the_targets(engine: Engines, daemon: Daemons, tmp_path: Path) -> None:
    """A file cut short changes nothing but a counter and the log; an empty list is obeyed."""
    one = engine()
    path = tmp_path / "chat.json"
    write(path, one)
    running = daemon(pool(file_sd_configs=[{"files": [str(path)]}])).ready()
    path.write_text('[{"targets": ["127.0')
    running.until(lambda: metric(running, "scorer_sd_refresh_failures_total", "file") > 1)
    assert targets(running) == picked(running) == of(one)
    running.until(lambda: "Discovery fails" in running.log)
    assert running.log.count("Discovery fails") == 1
    path.write_text("[]")
    running.until(lambda: targets(running) == set())
    assert running.get("/pick").status_code == 503
    assert metric(running, "scorer_sd_targets", "file") == 0
    running.until(lambda: "Discovery works again" in running.log)
    assert running.log.count("Discovery works again") == 1


def test_http_failure_keeps_and_empty_answer_empties(
    serve: Serve, engine: Engines, daemon: Daemons
) -> None:
    """An error page keeps the targets, an empty list removes them."""
    one, server = engine(), serve()
    server.lists(one.target)
    sd = {"url": server.url, "refresh_interval": "1s"}
    running = daemon(pool(http_sd_configs=[sd])).ready()
    server.status, server.body = 500, b"<html>Internal Server Error</html>"
    running.until(lambda: metric(running, "scorer_sd_refresh_failures_total", "http") > 1)
    assert targets(running) == picked(running) == of(one)
    assert running.get("/-/ready").status_code == 200
    emptied = time.time()
    server.status, server.body = 200, []
    running.until(lambda: targets(running) == set())
    assert running.get("/pick").status_code == 503
    refreshed = metric(running, "scorer_sd_last_refresh_success_timestamp_seconds", "http")
    assert emptied <= refreshed <= time.time()


def test_pool_is_not_ready_before_its_discovery_has_answered(
    serve: Serve, engine: Engines, daemon: Daemons
) -> None:
    """Readiness waits for the first answer and names what it waits for."""
    one, server = engine(), serve()
    server.status = 503
    running = daemon(pool(http_sd_configs=[{"url": server.url, "refresh_interval": "1s"}]))
    running.until(lambda: metric(running, "scorer_sd_refresh_failures_total", "http") > 1)
    answer = running.get("/-/ready")
    assert (answer.status_code, answer.text) == (
        503, f"pool chat waits for the first answer of http discovery ({server.url}).\n",
    )  # fmt: skip
    server.lists(one.target)
    running.ready()
    assert running.target(one.target)["score"] == 100.0


def test_pool_is_ready_after_a_while_whatever_its_discovery_says(
    serve: Serve, engine: Engines, daemon: Daemons
) -> None:
    """One source that never answers does not keep the others from being used for ever."""
    one, server = engine(), serve()
    server.status = 503
    static = [{"targets": [one.target]}]
    sd = [{"url": server.url}]
    running = daemon(pool(static_configs=static, http_sd_configs=sd))
    running.until(lambda: one.target in targets(running))
    assert picked(running) == of(one)
    running.until(lambda: running.get("/-/ready").status_code == 200, seconds=20)


def test_dns_name_becomes_targets(nameserver: str, engine: Engines, daemon: Daemons) -> None:
    """The addresses of a name are scraped at the configured port."""
    one = engine()
    sd = {
        "names": ["local.llm.test"], "type": "A", "port": int(one.target.rpartition(":")[2]),
        "nameservers": [nameserver],
    }  # fmt: skip
    running = daemon(pool(dns_sd_configs=[sd])).ready()
    assert picked(running) == of(one)


@pytest.fixture
def kubernetes() -> Iterator[KubernetesApi]:
    """Return a fake of the Kubernetes API."""
    found = KubernetesApi()
    yield found
    found.close()


def test_kubernetes_endpoint_drains_and_leaves(
    kubernetes: KubernetesApi, engine: Engines, daemon: Daemons
) -> None:
    """An endpoint that serves and is not ready gets no picks; one that is deleted is gone."""
    one, two = engine(), engine()

    def slice_with(port_of: FakeEngine, name: str, **conditions: bool) -> dict[str, Any]:
        port = int(port_of.target.rpartition(":")[2])
        ports = [{"name": "http", "port": port}]
        return slice_of(name, endpoint("127.0.0.1", f"pod-{name}", **conditions), ports=ports)

    kubernetes.put("ADDED", slice_with(one, "one"))
    kubernetes.put("ADDED", slice_with(two, "two"))
    sd = {"namespace": "llm", "port": "http", "api_server": kubernetes.url}
    running = daemon(pool(kubernetes_sd_configs=[sd])).ready()
    assert picked(running) == of(one, two)
    kubernetes.put("MODIFIED", slice_with(one, "one", ready=False, terminating=True))
    running.until(lambda: running.target(one.target)["state"] == "draining")
    assert running.target(one.target)["state_reason"] == "discovery"
    assert picked(running) == of(two)
    kubernetes.put("DELETED", slice_with(one, "one"))
    running.until(lambda: targets(running) == of(two))
    kubernetes.put("ADDED", slice_with(one, "one"))
    running.until(lambda: targets(running) == of(one, two))


def test_relabel_rules_choose_and_label(engine: Engines, daemon: Daemons, tmp_path: Path) -> None:
    """One file for all pools: each takes its own targets by a label."""
    one, two = engine(), engine()
    groups = [
        {"targets": [one.target], "labels": {"model": "chat", "zone": "a"}},
        {"targets": [two.target], "labels": {"model": "code"}},
    ]
    (tmp_path / "all.json").write_text(json.dumps(groups))
    rule = {"source_labels": ["model"], "regex": "chat", "action": "keep"}
    files = [{"files": [str(tmp_path / "all.json")]}]
    running = daemon(pool(file_sd_configs=files, relabel_configs=[rule])).ready()
    assert targets(running) == of(one)
    [group] = running.get("/api/v1/sd/chat").json()
    assert group["labels"]["zone"] == "a"
    assert metric(running, "scorer_sd_targets", "file") == 2


def test_capacity_is_where_learning_starts() -> None:
    """A target that is said to be twice as fast is reckoned to be, until picks tell more."""
    static = [{"targets": ["a:1"], "labels": {"capacity": "2.0"}}, {"targets": ["b:1"]}]
    config = Config.model_validate(pool(static_configs=static))
    built = Daemon(config)
    built._apply(config)
    speed = built.inflight.speed
    assert speed("chat", "a:1") == 2.0 * (speed("chat", "b:1") or 0.0)
    built.discovery.stop()


def test_reload_to_another_mechanism_keeps_the_history(
    serve: Serve, engine: Engines, daemon: Daemons
) -> None:
    """Targets that both mechanisms know are the same targets."""
    one, two, server = engine(), engine(), serve()
    server.status = 503
    running = daemon(pool_of(one, two)).ready()
    running.write(pool(http_sd_configs=[{"url": server.url, "refresh_interval": "1s"}]))
    running.signal(signal.SIGHUP)
    running.until(lambda: "Configuration reloaded" in running.log)
    running.until(lambda: metric(running, "scorer_sd_refresh_failures_total", "http") > 0)
    assert targets(running) == of(one, two)
    server.lists(one.target)
    running.until(lambda: targets(running) == of(one))
    assert running.target(one.target)["score"] == 100.0


def test_prometheus_reads_the_list_of_targets(
    engine: Engines, daemon: Daemons, tmp_path: Path
) -> None:
    """``http_sd_configs`` of a real Prometheus takes the list as it is."""
    promtool = shutil.which("promtool")
    assert promtool, "the package `prometheus` is part of the set-up"
    one = engine()
    running = daemon(pool_of(one)).ready()
    config = tmp_path / "prometheus.yml"
    url = f"{running.url}/api/v1/sd/chat"
    jobs = [{"job_name": "engines", "http_sd_configs": [{"url": url}]}]
    config.write_text(json.dumps({"scrape_configs": jobs}))
    done = subprocess.run(
        [promtool, "check", "service-discovery", "--timeout=5s", str(config), "engines"],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    [found] = json.loads(done.stdout)
    assert found["labels"] == {
        "instance": one.target, "job": "engines", "pool": "chat", "target": one.target,
        "__address__": one.target, "__metrics_path__": "/metrics", "__scheme__": "http",
        "__scrape_interval__": "1m", "__scrape_timeout__": "10s",
    }  # fmt: skip
