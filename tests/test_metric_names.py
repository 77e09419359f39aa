"""Code, catalogue, documents, dashboards and alerts agree on the names of metrics."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from exporters import collector
from exporters.catalogue import METRICS, Type

ROOT = Path(__file__).parent.parent
HISTOGRAMS = {metric.name for metric in METRICS if metric.type is Type.HISTOGRAM}
CATALOGUE = {metric.name for metric in METRICS}
NAME = re.compile(r"(?<![\w./-])scorer_[a-z_]+\b")
OTHERS = {"scorer_pick_id", "scorer_attempt", "scorer_picked", "scorer_fallback"}
"""Names that documents give to other things, such as variables of proxies."""
PARTS = re.compile(r"_(?:bucket|sum|count)$")
ROW = re.compile(r"^\| `(scorer_\w+)` \|", re.MULTILINE)
READ_BY_PEOPLE = [ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")]
USED_BY_PROGRAMS = [*ROOT.glob("dashboards/*.json"), *ROOT.glob("alerts/*.yml")]


def strangers(text: str) -> set[str]:
    """Return the names in a text that are of no metric; ``scorer_sd_`` stands for several."""
    found = set(NAME.findall(text)) - CATALOGUE - OTHERS
    return {
        name
        for name in found
        if not (PARTS.search(name) and PARTS.sub("", name) in HISTOGRAMS)
        and not (name.endswith("_") and any(known.startswith(name) for known in CATALOGUE))
    }


def texts(paths: Iterable[Path]) -> list[Path]:
    """Return those of the paths that name a metric."""
    return [path for path in paths if NAME.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "path", texts([*READ_BY_PEOPLE, *USED_BY_PROGRAMS]), ids=lambda path: path.name
)
def test_every_name_is_of_a_metric(path: Path) -> None:
    """A metric that was renamed in the catalogue is renamed everywhere."""
    assert strangers(path.read_text(encoding="utf-8")) == set()


def test_code_fills_every_metric_and_no_other() -> None:
    """The collector names all of the catalogue; that each has samples is tested with the page."""
    code = Path(collector.__file__).read_text(encoding="utf-8")
    assert set(NAME.findall(code)) == CATALOGUE


def test_document_lists_every_metric_once() -> None:
    """In the order of the page."""
    document = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert ROW.findall(document) == [metric.name for metric in METRICS]


def test_alerts_and_dashboards_are_looked_at() -> None:
    """The test above would also pass if it found no files."""
    assert {"scorer-overview.json", "scorer.rules.yml", "metrics.md"} <= {
        path.name for path in texts([*READ_BY_PEOPLE, *USED_BY_PROGRAMS])
    }


def test_alert_expressions_are_about_metrics() -> None:
    """What an alert compares is in its expression, not only in its words."""
    rules = yaml.safe_load((ROOT / "alerts" / "scorer.rules.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            used = set(NAME.findall(rule["expr"]))
            assert used - strangers(rule["expr"]) or "up{" in rule["expr"], rule["alert"]


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("`scorer_target_score`", set()),
        ("`scorer_target_scores`", {"scorer_target_scores"}),
        ("rate(scorer_pick_duration_seconds_bucket[5m])", set()),
        ("rate(scorer_target_score_bucket[5m])", {"scorer_target_score_bucket"}),
        ("the `scorer_sd_*` metrics", set()),
        ("the `scorer_ds_*` metrics", {"scorer_ds_"}),
        ("scorer_pool_score", {"scorer_pool_score"}),
    ],
)
def test_wrong_name_is_found(text: str, unknown: set[str]) -> None:
    """Parts belong to histograms only, and the beginning of a name is no name."""
    assert strangers(text) == unknown
