"""One daemon and its readers: failure cases from public bug reports (B43, B44)."""

import contextlib
import json
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.system.cases import CASES
from tests.system.conftest import DaemonProcess, free_port, pool_of
from tests.system.neighbour import neighbour

pytestmark = [pytest.mark.system, pytest.mark.slow]

HAMMER = Path(__file__).with_name("hammer.py")
HAMMERED = 8.0
WATCHED = 6.0


@dataclass
class Engines:
    """The scripted engines of a case, by letter."""

    targets: dict[str, str]
    log: Path

    def scrapes(self) -> Counter[str]:
        """Return how often each was scraped."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return Counter(line["engine"] for line in lines if line["path"] == "/metrics")


@contextlib.contextmanager
def engines_of(case: str, folder: Path) -> Iterator[Engines]:
    """Run the engines of a case on free ports."""
    scenario = json.loads((CASES / case / "scenario.json").read_text())
    for spec in scenario["engines"].values():
        spec["port"] = free_port()
        for phases in spec["routes"].values():
            for phase in phases:
                if "body_file" in phase:
                    phase["body_file"] = str(CASES / case / phase["body_file"])
    (folder / "scenario.json").write_text(json.dumps(scenario))
    fake = subprocess.Popen(
        [sys.executable, str(CASES / "common" / "fake_engine.py"), str(folder / "scenario.json"),
         "--log", str(folder / "fake.log")],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert fake.stderr is not None
    try:
        assert "ready" in fake.stderr.readline()
        ports = {letter: spec["port"] for letter, spec in scenario["engines"].items()}
        targets = {letter: f"127.0.0.1:{port}" for letter, port in ports.items()}
        yield Engines(targets, folder / "fake.log")
    finally:
        fake.kill()
        fake.wait(5)
        fake.stderr.close()


@contextlib.contextmanager
def running(folder: Path, config: dict[str, Any], *flags: str) -> Iterator[DaemonProcess]:
    """Run a daemon."""
    folder.mkdir(exist_ok=True)
    daemon = DaemonProcess(folder, config, *flags)
    try:
        yield daemon
    finally:
        daemon.process.kill()
        daemon.process.wait(5)


# B43


@dataclass
class Hammered:
    """What readers and clients saw of a daemon that was reloaded all the while."""

    daemon: DaemonProcess
    readers: dict[str, Any]
    clients: dict[str, Any]
    neighbour: dict[str, Any]
    pages: list[str]


@pytest.fixture(scope="module")
def b43(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hammered]:
    folder = tmp_path_factory.mktemp("b43")
    with engines_of("B43", folder) as engines:
        a, b = engines.targets.values()
        two, one = pool_of(a, b), pool_of(a)
        with running(folder / "daemon", two) as daemon, neighbour() as port:
            daemon.ready()
            reading = _hammer("read", daemon.url, HAMMERED, folder)
            asking = _hammer("ask", daemon.url, HAMMERED, a)
            beside = _hammer("ask", f"http://127.0.0.1:{port}", HAMMERED, a)
            for index in range(int(HAMMERED * 2)):
                daemon.write(one if index % 2 == 0 else two)
                daemon.signal(signal.SIGHUP)
                time.sleep(0.5)
            readers, clients = _result(reading), _result(asking)
            pages = [path.read_text() for path in sorted(folder.glob("page-*.prom"))]
            yield Hammered(daemon, readers, clients, _result(beside), pages)


def _hammer(what: str, url: str, seconds: float, more: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(HAMMER), what, url, str(seconds), str(more)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _result(process: subprocess.Popen[str]) -> dict[str, Any]:
    printed, _ = process.communicate(timeout=90)
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(printed)
    return found


def promtool(page: str) -> tuple[int, str]:
    """Return what promtool says of a page."""
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=page, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.alone
def test_b43_no_read_fails_while_targets_come_and_go(b43: Hammered) -> None:
    """Every page and every pick is 200, every report 202; reloads were applied meanwhile."""
    assert b43.readers["statuses"] == {"200": 20 * 2 * HAMMERED}
    assert b43.clients["statuses"] == {"200": 50 * HAMMERED, "202": 50 * HAMMERED}
    assert b43.daemon.log.count("Configuration reloaded") >= HAMMERED
    assert "level=ERROR" not in b43.daemon.log


@pytest.mark.alone
def test_b43_every_page_is_one(b43: Hammered) -> None:
    """Promtool finds nothing, with one engine and with two; bounds are written one way."""
    assert b43.readers["types"] == {
        "text/plain; version=0.0.4; charset=utf-8": 20 * 2 * HAMMERED,
    }
    assert len(b43.pages) >= 5
    assert [promtool(page) for page in b43.pages] == [(0, "")] * len(b43.pages)
    bounds = b43.readers["le"]
    assert "+Inf" in bounds
    assert len({float(each) for each in bounds}) == len(bounds)


@pytest.mark.alone
def test_b43_reads_do_not_block_picks(b43: Hammered) -> None:
    """What a pick takes beyond what anybody's answer takes meanwhile stays below 20 ms."""
    took, usual = (
        statistics.quantiles(each["seconds"], n=20)[-1] for each in (b43.clients, b43.neighbour)
    )
    assert took - usual < 0.020


@pytest.mark.alone
@pytest.mark.parametrize(
    ("method", "headers", "kind"),
    [
        ("GET", {"Accept": "application/openmetrics-text; version=1.0.0"}, "application/openm"),
        ("GET", {"Accept-Encoding": "gzip"}, "text/plain; version=0.0.4"),
        ("HEAD", {}, "text/plain; version=0.0.4"),
    ],
)
def test_b43_other_forms_of_the_page(
    b43: Hammered, method: str, headers: dict[str, str], kind: str
) -> None:
    """OpenMetrics ends with its mark, gzip is gzip, HEAD has no body."""
    answer = b43.daemon.http.request(
        method, f"{b43.daemon.url}/metrics", headers=headers, timeout=9
    )
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith(kind)
    if "Accept" in headers:
        assert answer.text.endswith("# EOF\n")
    if "Accept-Encoding" in headers:
        assert answer.headers["Content-Encoding"] == "gzip"
    assert bool(answer.text) == (method == "GET")


# B44


def counters(page: str) -> dict[str, float]:
    """Return the samples of a page that may only rise."""
    rows = [line.rpartition(" ") for line in page.splitlines() if line and line[0] != "#"]
    return {
        name: float(value)
        for name, _, value in rows
        if name.partition("{")[0].endswith(("_total", "_bucket", "_count", "_sum"))
    }


@pytest.mark.alone
def test_b44_one_daemon_scrapes_remembers_and_counts_once(tmp_path: Path) -> None:
    """Each engine is scraped once a second, nobody picks one that failed, counters only rise."""
    feedback, picking = (
        json.loads(line) for line in (CASES / "B44" / "requests.jsonl").read_text().splitlines()
    )
    with engines_of("B44", tmp_path) as engines:
        a, b = engines.targets["a"], engines.targets["b"]
        with running(tmp_path / "daemon", pool_of(a, b)) as daemon:
            daemon.ready()
            before, began = engines.scrapes(), time.monotonic()
            for _ in range(feedback["repeat"]):
                said = {"target": a, "status": feedback["json"]["status"]}
                assert daemon.http.post(f"{daemon.url}/feedback", json=said).status_code == 202
            daemon.until(lambda: not daemon.target(a)["eligible"], 3.0)
            picked = [daemon.get("/pick").json()["target"] for _ in range(picking["repeat"])]
            assert set(picked) <= {a, b}
            # What is in cooldown is probed with a request now and then, and not picked.
            decisions = daemon.get(f"/api/v1/decisions?limit={picking['repeat']}").json()["data"]
            assert [each["probe"] for each in decisions if each["target"] == a] in ([], [True])
            assert picked.count(a) <= 1
            seen: dict[str, float] = {}
            for _ in range(20):
                page = counters(daemon.get("/metrics").text)
                assert {name: v for name, v in seen.items() if page.get(name, v) < v} == {}
                assert set(seen) <= set(page)
                seen = page
            time.sleep(max(0.0, began + WATCHED - time.monotonic()))
            after, span = engines.scrapes(), time.monotonic() - began
            for letter in ("a", "b"):
                # One more or less is where the watch begins and ends.
                assert abs(after[letter] - before[letter] - span) <= 1 + span * 0.1


def test_b44_two_daemons_draw_different_picks(tmp_path: Path) -> None:
    """Started at the same moment on one configuration, they are not the same sequence."""
    with engines_of("B44", tmp_path) as engines:
        config = pool_of(*engines.targets.values())
        with running(tmp_path / "1", config) as one, running(tmp_path / "2", config) as two:
            sequences = []
            for daemon in (one.ready(), two.ready()):
                picks = [daemon.get("/pick?format=text").text for _ in range(60)]
                assert len(set(picks)) == 2
                sequences.append(picks)
            assert sequences[0] != sequences[1]


def test_b44_a_second_daemon_on_the_same_port_says_so(tmp_path: Path) -> None:
    """One line, exit code 1, and the first goes on."""
    with running(tmp_path / "1", pool_of("127.0.0.1:1")) as first:
        first.until(lambda: first.get("/-/healthy").status_code == 200)
        address = first.url.removeprefix("http://")
        second = subprocess.run(
            [sys.executable, "-m", "scorer", "run", "--config.file", str(first.path),
             "--web.listen-address", address],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert second.stderr == f"scorer: cannot listen on {address}: Address already in use\n"
        assert first.get("/-/healthy").status_code == 200


APPLICATIONS = """
import importlib, pkgutil, scorer
for module in pkgutil.walk_packages(scorer.__path__, "scorer."):
    if module.name not in ("scorer.__main__", "scorer.demo.child"):
        made = importlib.import_module(module.name)
        print(*(module.name for n in ("app", "application") if callable(getattr(made, n, None))))
"""


def test_b44_there_is_nothing_for_workers_to_run() -> None:
    """No module offers a WSGI or ASGI application that gunicorn or uvicorn could fork."""
    found = subprocess.run(
        [sys.executable, "-c", APPLICATIONS],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert found.stdout.split() == []


def test_reload_is_not_taken_unless_enabled(tmp_path: Path) -> None:
    """403 by default, whatever the file says."""
    with running(tmp_path / "1", pool_of("127.0.0.1:1")) as daemon:
        daemon.until(lambda: daemon.get("/-/healthy").status_code == 200)
        assert requests.post(f"{daemon.url}/-/reload", timeout=9).status_code == 403
        assert daemon.get("/-/reload").status_code == 405
        assert "Configuration reloaded" not in daemon.log
