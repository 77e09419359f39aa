"""The generated dashboards: up to date, by the rules, ready to be provisioned."""

import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.dashboards import lint
from tests.dashboards.boards import BOARDS, FOLDER

PAGES = {"scorer-overview", "scorer-target", "scorer-picks", "scorer-daemon"}
LARGEST = 256 * 1024
"""Bytes that `kubectl apply` can keep of an object in its annotation."""


def generate(*arguments: str, folder: Path = FOLDER) -> subprocess.CompletedProcess[str]:
    """Run the generator."""
    return subprocess.run(
        [sys.executable, str(folder / "generate.py"), *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_there_are_four() -> None:
    """Each file has the name of its uid."""
    assert {name: board["uid"] for name, board in BOARDS.items()} == {p: p for p in PAGES}


def test_files_are_what_the_generator_writes() -> None:
    """A dashboard edited by hand would be lost with the next generation."""
    checked = generate("--check")
    assert checked.returncode == 0, checked.stderr


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Return a copy of the folder."""
    return Path(shutil.copytree(FOLDER, tmp_path / "dashboards"))


def test_edited_file_is_found(elsewhere: Path) -> None:
    """And written anew without --check."""
    edited = elsewhere / "scorer-picks.json"
    edited.write_text(edited.read_text().replace("Picks / s", "Picks"))
    checked = generate("--check", folder=elsewhere)
    assert (checked.returncode, checked.stderr.split()[0]) == (1, edited.name)
    assert generate(folder=elsewhere).returncode == 0
    assert edited.read_text() == (FOLDER / edited.name).read_text()


def test_stray_file_is_found(elsewhere: Path) -> None:
    """A file that nothing writes would be provisioned with the others."""
    (elsewhere / "old.json").write_text("{}")
    checked = generate("--check", folder=elsewhere)
    assert (checked.returncode, checked.stderr.split()[0]) == (1, "old.json")


def test_unknown_argument_is_refused() -> None:
    """It says what there is."""
    refused = generate("--write")
    assert (refused.returncode, refused.stderr[:6]) == (2, "usage:")


@pytest.mark.parametrize("rule", lint.RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", sorted(BOARDS))
def test_dashboard_keeps_the_rules(name: str, rule: lint.Rule) -> None:
    """Nothing to complain about."""
    assert list(rule(BOARDS[name])) == []


def first(board: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the first panel of a kind."""
    return next(panel for panel in board["panels"] if panel["type"] == kind)


def with_query(query: str, kind: str = "timeseries") -> Callable[[dict[str, Any]], None]:
    """Return a change of the first query of the first panel of a kind."""

    def change(board: dict[str, Any]) -> None:
        first(board, kind)["targets"][0]["expr"] = query

    return change


RATE = 'rate(scorer_picks_total{job=~"$job"}[$__rate_interval])'
BREAKAGES: list[tuple[lint.Rule, Callable[[dict[str, Any]], object]]] = [
    (lint.imports_anywhere, lambda board: board.update(id=7)),
    (lint.imports_anywhere, lambda board: board.update(uid="Scorer!")),
    (lint.imports_anywhere, lambda board: board.update(__inputs=[])),
    (lint.imports_anywhere, lambda board: board["links"].clear()),
    (lint.source_is_a_variable, lambda board: first(board, "stat").update(datasource="Prom")),
    (lint.source_is_a_variable, lambda board: first(board, "stat")["targets"][0].pop("datasource")),
    (lint.variables_never_blank, lambda board: board["templating"]["list"].reverse()),
    (lint.variables_never_blank, lambda board: board["templating"]["list"][1].update(refresh=1)),
    (lint.variables_never_blank, lambda board: board["templating"]["list"][1].pop("allValue")),
    (
        lint.variables_never_blank,
        lambda board: board["templating"]["list"][1].update(definition="label_values(scorer, job)"),
    ),
    (lint.places_do_not_overlap, lambda board: first(board, "stat")["gridPos"].update(w=24)),
    (lint.places_do_not_overlap, lambda board: first(board, "stat").update(id=2)),
    (lint.panels_explain_themselves, lambda board: first(board, "stat").update(title="")),
    (lint.panels_explain_themselves, lambda board: first(board, "stat").update(type="graph")),
    (lint.panels_explain_themselves, lambda board: first(board, "stat").update(description="A.")),
    (
        lint.panels_explain_themselves,
        lambda board: first(board, "stat")["fieldConfig"]["defaults"].update(unit="percents"),
    ),
    (lint.targets_are_named, lambda board: first(board, "stat")["targets"].clear()),
    (lint.targets_are_named, lambda board: first(board, "table")["targets"][1].update(refId="A")),
    (lint.metrics_exist, with_query('avg(scorer_target_scores{job=~"$job"})')),
    (lint.metrics_exist, with_query("avg(scorer_target_score)")),
    (lint.counters_are_rates, with_query('sum(scorer_picks_total{job=~"$job"})')),
    (lint.counters_are_rates, with_query('delta(scorer_picks_total{job=~"$job"}[1m])')),
    (lint.ranges_follow_the_chart, with_query('rate(scorer_picks_total{job=~"$job"}[5m])')),
    (lint.arithmetic_is_sound, with_query('sum(scorer_target_score{job=~"$job"})')),
    (
        lint.arithmetic_is_sound,
        with_query('sum by (pool) (scorer_target_error_ratio{job=~"$job"})'),
    ),
    (lint.arithmetic_is_sound, with_query(f"{RATE} / {RATE}")),
    (
        lint.arithmetic_is_sound,
        with_query(f"histogram_quantile(0.9, sum by (pool) ({RATE}))"),
    ),
    (lint.units_fit_the_metrics, with_query('max(scorer_target_ttft_seconds{job=~"$job"})')),
    (lint.units_fit_the_metrics, with_query('max(scorer_target_error_ratio{job=~"$job"})')),
    (
        lint.thresholds_begin_below,
        lambda board: first(board, "stat")["fieldConfig"]["defaults"]["thresholds"]["steps"].pop(0),
    ),
]


@pytest.mark.parametrize(("rule", "breaks"), BREAKAGES, ids=lambda value: value.__name__)
def test_rule_complains(rule: lint.Rule, breaks: Callable[[dict[str, Any]], object]) -> None:
    """A rule that finds nothing in a broken dashboard would prove nothing."""
    board = copy.deepcopy(BOARDS["scorer-overview"])
    breaks(board)
    assert list(rule(board))


def test_heatmaps_ask_for_buckets() -> None:
    """As plain series, Grafana would draw each bucket as a line of its own."""
    board = copy.deepcopy(BOARDS["scorer-picks"])
    first(board, "heatmap")["targets"][0]["format"] = "time_series"
    assert list(lint.targets_are_named(board))


def test_every_rule_is_seen_to_complain() -> None:
    """None is left out above."""
    assert {rule for rule, _ in BREAKAGES} == set(lint.RULES)


def test_configmaps_hold_the_files() -> None:
    """One for each, with the label that Grafana's side car looks for, small enough to apply."""
    printed = generate("--configmaps").stdout
    maps = {each["metadata"]["name"]: each for each in yaml.safe_load_all(printed)}
    assert set(maps) == PAGES
    for name, each in maps.items():
        assert each["metadata"]["labels"] == {"grafana_dashboard": "1"}
        assert json.loads(each["data"][f"{name}.json"]) == BOARDS[name]
        assert len(json.dumps(each)) < LARGEST


def test_provisioning_files_are_what_grafana_reads() -> None:
    """A provider of files and a data source; nothing in them names a file that is not there."""
    folder = FOLDER / "provisioning"
    [provider] = yaml.safe_load((folder / "dashboards/scorer.yaml").read_text())["providers"]
    [source] = yaml.safe_load((folder / "datasources/prometheus.yaml").read_text())["datasources"]
    assert (provider["type"], bool(provider["options"]["path"])) == ("file", True)
    assert (source["type"], source["access"]) == ("prometheus", "proxy")
