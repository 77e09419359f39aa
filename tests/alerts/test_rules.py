"""Alert rules under the real promtool, and what each of them must bring along."""

import re
import subprocess
from typing import Any

import pytest

from exporters.catalogue import METRICS, Type
from tests.alerts.shipped import NAMES, ROOT, RULES, RULES_FILE, SCENARIOS, TEST_FILES

HEADINGS = ("## Meaning", "## Impact", "## Diagnosis", "## Mitigation")
DASHBOARDS = {"scorer-overview", "scorer-target", "scorer-picks", "scorer-daemon"}
PAGES = {
    "ScorerPoolNoEligibleTargets",
    "ScorerPoolTargetsUnavailable",
    "ScorerPoolScoreLow",
    "ScorerPoolKVCachePressure",
    "ScorerPoolCooldowns",
    "ScorerDown",
    "ScorerScoringStalled",
}
SUFFIXES = ("_bucket", "_sum", "_count")
SECONDS = {"s": 1, "m": 60, "h": 3600}
SCRAPE_INTERVAL = 15

each_rule = pytest.mark.parametrize(
    "rule", RULES, ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}"
)
each_alert = pytest.mark.parametrize("alert", NAMES)


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *map(str, arguments)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.system
def test_rules_are_lint_free() -> None:
    """Promtool accepts every rule, lint included."""
    checked = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES_FILE)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.system
@pytest.mark.slow
def test_rules_fire_and_stay_silent_as_they_should() -> None:
    """Every scenario of the test files comes out as written."""
    tested = promtool("test", "rules", *TEST_FILES)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_pages_are_few() -> None:
    """A person is woken for a pool or for the daemon; all else is a ticket."""
    critical = {rule["alert"] for rule in RULES if rule["labels"]["severity"] == "critical"}
    assert critical == PAGES


def test_no_rule_is_there_twice() -> None:
    """One name may have two severities, and one severity one rule."""
    pairs = [(rule["alert"], rule["labels"]["severity"]) for rule in RULES]
    assert len(pairs) == len(set(pairs))


@each_rule
def test_alert_is_complete(rule: dict[str, Any]) -> None:
    """Each has a name with our prefix, a duration, a severity, texts and addresses."""
    notes = rule["annotations"]
    assert re.fullmatch(r"Scorer([A-Z]+[a-z]*)+", rule["alert"])
    assert rule["for"]
    assert set(rule["labels"]) == {"severity"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert notes["summary"].endswith(".")
    assert "{{" not in notes["summary"], "alerts of one group share their summary"
    assert notes["description"].endswith(".")
    assert notes["runbook_url"] == f"docs/runbooks/{rule['alert'].lower()}.md"
    assert re.match(r"/d/([\w-]+)", notes["dashboard_url"])[1] in DASHBOARDS  # type: ignore[index]


@each_rule
def test_description_names_what_it_is_about(rule: dict[str, Any]) -> None:
    """The pool, target or replica; what is down altogether has no name."""
    kind = re.match(r"Scorer(Pool|Target|Pick|Scoring|SD|)", rule["alert"])[1]  # type: ignore[index]
    wanted = {"Target": "target", "": "instance"}.get(kind, "pool")
    named = "{{ $labels." + wanted in rule["annotations"]["description"]
    assert named or rule["alert"] == "ScorerDown"


@each_rule
def test_expression_waits_for_several_scrapes(rule: dict[str, Any]) -> None:
    """A range has room for at least four scrapes, whichever of them fails."""
    for number, unit in re.findall(r"\[(\d+)([smh])\]", rule["expr"]):
        assert int(number) * SECONDS[unit] >= 4 * SCRAPE_INTERVAL


@each_rule
def test_expression_is_sturdy(rule: dict[str, Any]) -> None:
    """No topk, whose members change; no counter but under rate or increase; a comparison."""
    expression = rule["expr"]
    assert "topk" not in expression
    assert re.search(r"[<>]|==|absent|unless", expression)
    for name in re.findall(r"scorer_\w+_total", expression):
        assert re.search(rf"(?:rate|increase)\({name}", expression)


@each_alert
def test_alert_has_a_runbook(alert: str) -> None:
    """Named after it, with the four headings in their order."""
    page = (ROOT / "docs" / "runbooks" / f"{alert.lower()}.md").read_text()
    assert page.startswith(f"# {alert}\n")
    found = [line for line in page.splitlines() if line.startswith("## ")]
    assert found == list(HEADINGS)


def test_every_runbook_is_of_an_alert() -> None:
    """A page of an alert that is gone would mislead."""
    pages = {path.stem for path in (ROOT / "docs" / "runbooks").glob("*.md")}
    assert pages == {name.lower() for name in NAMES}


@each_alert
def test_alert_is_tested_both_ways(alert: str) -> None:
    """Each has a scenario in which it fires and one in which it stays silent."""
    expected = {
        bool(case["exp_alerts"])
        for scenario in SCENARIOS
        for case in scenario["alert_rule_test"]
        if case["alertname"] == alert
    }
    assert expected == {True, False}


@each_rule
def test_alert_uses_metrics_that_exist(rule: dict[str, Any]) -> None:
    """A metric that the catalogue does not have would make an alert silent for ever."""
    names = {metric.name for metric in METRICS}
    parts = {
        metric.name + suffix
        for metric in METRICS
        if metric.type is Type.HISTOGRAM
        for suffix in SUFFIXES
    }
    used = set(re.findall(r"\bscorer_\w+", rule["expr"]))
    assert used or "up{" in rule["expr"]
    assert used <= names | parts


@each_rule
def test_alert_selects_labels_that_exist(rule: dict[str, Any]) -> None:
    """A label that the metric does not have selects nothing, or everything."""
    labels = {metric.name: set(metric.labels) for metric in METRICS}
    for name, matchers in re.findall(r"\b(scorer_\w+)\{([^}]*)\}", rule["expr"]):
        assert set(re.findall(r"(\w+)\s*=", matchers)) <= labels[name]
