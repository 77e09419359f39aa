"""docs/alerts.md says what the rules and the configuration are."""

import re
import subprocess

import pytest
import yaml

from scorer.config.signals import AlertsConfig
from scorer.durations import parse_duration
from tests.alerts.shipped import NAMES, ROOT, RULES, TEST_FILES

PAGE = (ROOT / "docs" / "alerts.md").read_text()
ROW = re.compile(r"^\| \[`(\w+)`\]\(runbooks/(\w+)\.md\) \| .* \| (\w+) \|$", re.MULTILINE)
THRESHOLD = re.compile(r"^\| `alerts\.(\w+)\.(\w+)` \| (\S+) \| `(\w+)` \|$", re.MULTILINE)
SUITE = "promtool test rules "
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if not line.startswith(SUITE)
]


def test_every_alert_is_listed() -> None:
    """Once, beside the pages or beside the tickets, with its runbook."""
    rows = ROW.findall(PAGE)
    assert sorted(name for name, _, _ in rows) == NAMES
    assert all(page == name.lower() for name, page, _ in rows)


@pytest.mark.parametrize(("name", "after"), [(row[0], row[2]) for row in ROW.findall(PAGE)])
def test_listed_duration_is_that_of_the_rule(name: str, after: str) -> None:
    """Of two rules with one name, that of the graver."""
    rule = next(rule for rule in RULES if rule["alert"] == name)
    assert rule["for"] == after


def test_pages_and_tickets_are_told_apart() -> None:
    """The first table has the critical alerts, the second the others."""
    pages, tickets = (
        set(re.findall(r"`(Scorer\w+)`\]", part)) for part in PAGE.split("| ticket |")
    )
    critical = {rule["alert"] for rule in RULES if rule["labels"]["severity"] == "critical"}
    assert (pages, tickets) == (critical, set(NAMES) - critical)


@pytest.mark.parametrize(("signal", "severity", "default", "name"), THRESHOLD.findall(PAGE))
def test_threshold_is_that_of_the_configuration(
    signal: str, severity: str, default: str, name: str
) -> None:
    """The default, and the alert whose expression compares with it."""
    value = getattr(getattr(AlertsConfig(), signal), severity)
    assert value == (parse_duration(default) if default.endswith("s") else float(default))
    rule = next(rule for rule in RULES if rule["alert"] == name)
    assert re.search(rf'{signal}\w*threshold\w*\{{severity="{severity}"}}', rule["expr"])


def test_every_threshold_is_listed() -> None:
    """What a rule compares with can be found in the table."""
    compared = sum("threshold" in rule["expr"] for rule in RULES)
    assert len(THRESHOLD.findall(PAGE)) == compared


def test_every_file_of_scenarios_is_named() -> None:
    """That promtool is content with them is tested with the rules."""
    line = next(line for line in PAGE.splitlines() if line.startswith(SUITE))
    assert {ROOT / name for name in line.removeprefix(SUITE).split()} == set(TEST_FILES)


@pytest.mark.system
@pytest.mark.parametrize("command", COMMANDS)
def test_command_works(command: str) -> None:
    """Run in the repository, as the page is read."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_addresses_go_in_front() -> None:
    """The line for sed changes both of every rule, and nothing else."""
    command = next(line for line in COMMANDS if line.startswith("sed "))
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=10, check=True
    )
    changed = [r for g in yaml.safe_load(done.stdout)["groups"] for r in g["rules"]]
    for before, after in zip(RULES, changed, strict=True):
        notes, wanted = after["annotations"], before["annotations"]
        assert notes["runbook_url"] == f"https://wiki.example/scorer/{wanted['runbook_url']}"
        assert notes["dashboard_url"] == f"https://grafana.example{wanted['dashboard_url']}"
        kept = {key: value for key, value in after.items() if key != "annotations"}
        assert kept == {key: value for key, value in before.items() if key != "annotations"}
