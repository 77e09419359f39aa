"""Promtool's scenarios notice when a part of a rule is missing."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.alerts.mutants import Rule, mutants
from tests.alerts.shipped import RULES, SCENARIOS

AT_ONCE = 2
"""Promtool computes; the machines that this runs on have two cores at least."""
PARTS = ("no for", "no keep_firing_for", "no max by", "no max_over_time", "no avg_over_time")

MUTANTS = [(rule, what, mutant) for rule in RULES for what, mutant in mutants(rule)]


def scenarios_of(alert: str) -> list[dict[str, Any]]:
    """Return the scenarios that expect something of an alert, and that alone."""
    found = []
    for scenario in SCENARIOS:
        checks = [each for each in scenario["alert_rule_test"] if each["alertname"] == alert]
        if checks:
            found.append({**scenario, "alert_rule_test": checks})
    return found


def passes(folder: Path, rules: list[Rule]) -> bool:
    """Return whether all rules of one alert do what the scenarios of that alert expect."""
    folder.mkdir()
    group = {"groups": [{"name": "mutant", "rules": rules}]}
    (folder / "rules.yml").write_text(yaml.safe_dump(group))
    suite = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "15s",
        "tests": scenarios_of(rules[0]["alert"]),
    }
    (folder / "test.yml").write_text(yaml.safe_dump(suite))
    return _promtool("test", "rules", folder / "test.yml").returncode == 0


def _promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


def among_its_like(rule: Rule, changed: Rule) -> list[Rule]:
    """Return the rules with the name of ``rule``, with ``changed`` in its place."""
    like = [each for each in RULES if each["alert"] == rule["alert"]]
    return [changed if each is rule else each for each in like]


@pytest.mark.system
def test_every_mutant_is_a_rule(tmp_path: Path) -> None:
    """Promtool loads each: what it notices later is what the rule does, not how it is written."""
    groups = [
        {"name": str(number), "rules": [mutant]} for number, (_, _, mutant) in enumerate(MUTANTS)
    ]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": groups}))
    checked = _promtool("check", "rules", path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.system
@pytest.mark.slow
def test_every_mutant_is_noticed(tmp_path: Path) -> None:
    """A rule without one of its parts fails a scenario; the rule as it is passes alone."""
    cases = [("as it is", rule, rule) for rule in RULES]
    cases += [(what, rule, mutant) for rule, what, mutant in MUTANTS]

    def run(number: int) -> bool:
        _, rule, changed = cases[number]
        return passes(tmp_path / str(number), among_its_like(rule, changed))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        passed = list(pool.map(run, range(len(cases))))
    wrong = [
        f"{rule['alert']} ({rule['labels']['severity']}): {what}"
        for (what, rule, _), went_well in zip(cases, passed, strict=True)
        if went_well != (what == "as it is")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("part", PARTS)
def test_mutants_leave_out(part: str) -> None:
    """The parts that keep alerts from coming twice, too early, too often are all tried."""
    assert sum(what.startswith(part) for _, what, _ in MUTANTS) >= 3
