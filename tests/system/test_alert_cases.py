"""Alerts and dashboards that must not go silent: a failure case from public bug reports (B55)."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.system.cases import CASES
from tests.system.conftest import DaemonProcess, FakeEngine, pool_of

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
RULES = ROOT / "alerts" / "scorer.rules.yml"
DASHBOARDS = sorted((ROOT / "dashboards").glob("scorer-*.json"))
JOB = "scorer"
ALERTS = [
    rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
]


def absent_alert() -> dict[str, Any]:
    """Return the alert that fires when there is no series at all."""
    (found,) = [each for each in ALERTS if re.match(r"absent\w*\(up\b", each["expr"].strip())]
    return found


def failures(folder: Path, document: dict[str, Any]) -> str:
    """Return what promtool says of tests of the shipped rules, "" when all hold."""
    (folder / "rules.yml").write_text(RULES.read_text())
    (folder / "test.yml").write_text(yaml.safe_dump({**document, "rule_files": ["rules.yml"]}))
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yml"],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stdout + done.stderr


def fires(name: str, at: str, **labels: str) -> dict[str, Any]:
    """Return an expectation: the alert with these labels and its own texts."""
    rule = next(each for each in ALERTS if each["alert"] == name)
    expected = {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": rule["annotations"]}
    return {"eval_time": at, "alertname": name, "exp_alerts": [expected]}


def silent(at: str, *but: str) -> list[dict[str, Any]]:
    """Return an expectation for each alert but some: it does not fire."""
    names = sorted({each["alert"] for each in ALERTS} - set(but))
    return [{"eval_time": at, "alertname": name, "exp_alerts": []} for name in names]


def test_b55_a_daemon_that_is_gone_is_alerted_on(tmp_path: Path) -> None:
    """No series at all, scrapes that flap, and scores that end: the case's own scenarios."""
    template = (CASES / "B55" / "absent_test.yml").read_text()
    name = absent_alert()["alert"]
    document = yaml.safe_load(template.replace("DAEMON_ABSENT", name).replace("DAEMON", JOB))
    gone, flapping = document["tests"]
    gone["alert_rule_test"] = [fires(name, "10m")]
    ended = {
        "interval": "30s",
        "name": "scores present, then gone",
        "input_series": [
            {"series": f'up{{job="{JOB}",instance="s:9808"}}', "values": "1x10 _x40"},
            {
                "series": f'scorer_target_score{{job="{JOB}",instance="s:9808",pool="chat",'
                'target="a:1"}',
                "values": "100x10 _x40",
            },
        ],
        "alert_rule_test": [fires(name, "20m")],
    }
    document["tests"] = [gone, ended]
    assert failures(tmp_path, document) == ""
    # Up every other time: somebody is told, be it of the replica or of the daemon.
    told = [each["alert"] for each in ALERTS if re.search(rf'up\{{job="{JOB}"', each["expr"])]
    assert told
    flapping["alert_rule_test"] = [
        {"eval_time": "10m", "alertname": each, "exp_alerts": []} for each in told
    ]
    said = failures(tmp_path, {**document, "tests": [flapping]})
    assert "alertname:" in said, "nobody is told of a daemon that answers every other scrape"


SERIES = {
    "scorer_target_score": "100", "scorer_target_up": "1", "scorer_target_weight_ratio": "1",
    "scorer_target_running_requests": "0", "scorer_target_waiting_requests": "0",
    "scorer_target_kv_cache_usage_ratio": "0",
}  # fmt: skip


def test_b55_no_traffic_and_a_departed_target_alert_nobody(tmp_path: Path) -> None:
    """Idle is fine, and so is a target that was taken out on purpose."""

    def of(target: str, values: str) -> list[dict[str, str]]:
        labels = f'job="{JOB}",instance="s:9808",pool="chat",target="{target}"'
        return [
            {"series": f"{name}{{{labels}}}", "values": values.replace("V", value)}
            for name, value in SERIES.items()
        ]

    pool = f'{{job="{JOB}",instance="s:9808",pool="chat"}}'
    lasting = [
        {"series": f'up{{job="{JOB}",instance="s:9808"}}', "values": "1x120"},
        {"series": f'scorer_config_last_reload_successful{{job="{JOB}"}}', "values": "1x120"},
        {"series": f"scorer_pool_eligible_targets{pool}", "values": "2x40 1x80"},
        {"series": f"scorer_pool_targets{pool}", "values": "2x40 1x80"},
    ]
    test = {
        "interval": "30s",
        "input_series": [*lasting, *of("a:1", "Vx120"), *of("b:1", "Vx40 _x80")],
        "alert_rule_test": [*silent("19m"), *silent("25m"), *silent("55m")],
    }
    assert failures(tmp_path, {"evaluation_interval": "30s", "tests": [test]}) == ""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the page of a daemon after a pick, a report and a failed scrape."""
    folder = tmp_path_factory.mktemp("b55")
    engine = FakeEngine()
    engine.serves((ROOT / "tests" / "data" / "expositions" / "vllm" / "v1-latest.prom").read_text())
    daemon = DaemonProcess(folder, pool_of(engine, "127.0.0.1:1")).ready()
    try:
        assert daemon.get("/pick").status_code == 200
        said = {"target": engine.target, "status": 200, "ttft_seconds": 0.1}
        assert daemon.http.post(f"{daemon.url}/feedback", json=said, timeout=9).status_code == 202
        failed = r'scorer_scrape_failures_total\{[^}]*target="127.0.0.1:1"[^}]*\} [1-9]'
        judged = "scorer_target_ttft_seconds{"  # the report has been judged
        daemon.until(
            lambda: re.search(failed, now := daemon.get("/metrics").text) and judged in now
        )
        text = daemon.get("/metrics").text
        (folder / "page.prom").write_text(text)
        yield folder / "page.prom"
    finally:
        daemon.process.kill()
        daemon.process.wait(5)
        engine.close()


@pytest.mark.parametrize("used", [RULES, *DASHBOARDS], ids=lambda path: path.name)
def test_b55_every_name_is_one_that_the_daemon_exports(page: Path, used: Path) -> None:
    """The case's own script finds no metric that a rule or a panel asks for in vain."""
    done = subprocess.run(
        [sys.executable, str(CASES / "B55" / "check_names.py"), str(page), str(used)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    # It is rough: names of groups and jobs are words that look like metrics.
    unknown = [line for line in done.stdout.splitlines() if "_" in line.rpartition(" ")[2]]
    assert unknown == []


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_b55_dashboards_load_without_inputs(path: Path) -> None:
    """Provisioned from a file nobody is asked for anything: a typed variable is the data source."""
    text = path.read_text()
    board = json.loads(text)
    assert "__inputs" not in board
    assert "${DS_" not in text
    kinds = {each["name"]: each for each in board["templating"]["list"]}
    assert kinds["datasource"]["type"] == "datasource"
    assert kinds["datasource"]["query"] == "prometheus"
