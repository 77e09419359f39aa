"""Alert rules under the real promtool, and what each of them must bring along."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporters.catalogue import METRICS

ROOT = Path(__file__).parents[2]
RULES = ROOT / "alerts" / "scorer.rules.yml"
TESTS = ROOT / "alerts" / "scorer.test.yml"
HEADINGS = ("## Meaning", "## Impact", "## Diagnosis", "## Mitigation")
ALERTS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.system
def test_rules_are_lint_free() -> None:
    """Promtool accepts every rule, lint included."""
    checked = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.system
def test_rules_fire_and_stay_silent_as_they_should() -> None:
    """Every scenario of the test file comes out as written."""
    tested = promtool("test", "rules", str(TESTS))
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_alert_is_complete(alert: dict[str, Any]) -> None:
    """Each has a duration, a severity, texts and a runbook with the four headings."""
    notes = alert["annotations"]
    assert alert["for"]
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert notes["summary"].endswith(".")
    assert "{{" in notes["description"]
    assert notes["runbook_url"] == f"docs/runbooks/{alert['alert'].lower()}.md"
    page = (ROOT / notes["runbook_url"]).read_text()
    assert page.startswith(f"# {alert['alert']}\n")
    assert all(heading in page for heading in HEADINGS)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_alert_is_tested_both_ways(alert: dict[str, Any]) -> None:
    """Each has a scenario in which it fires and one in which it stays silent."""
    expected = [
        bool(case["exp_alerts"])
        for test in yaml.safe_load(TESTS.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case["alertname"] == alert["alert"]
    ]
    assert set(expected) == {True, False}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_alert_uses_metrics_that_exist(alert: dict[str, Any]) -> None:
    """A metric that the catalogue does not have would make an alert silent for ever."""
    names = {metric.name for metric in METRICS}
    used = {word for word in _words(alert["expr"]) if word.startswith("scorer_")}
    assert used
    assert used <= names


def _words(expression: str) -> set[str]:
    kept = "".join(char if char.isalnum() or char == "_" else " " for char in expression)
    return set(kept.split())
