"""The generated dashboards: up to date, complete, and about metrics that exist."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exporters.catalogue import METRICS

FOLDER = Path(__file__).parents[2] / "dashboards"
BOARDS = {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
PANELS = [(board["uid"], panel) for board in BOARDS.values() for panel in board["panels"]]
SUFFIX = re.compile(r"_(bucket|sum|count)$")


def test_files_are_what_the_generator_writes() -> None:
    """A dashboard edited by hand would be lost with the next generation."""
    checked = subprocess.run(
        [sys.executable, str(FOLDER / "generate.py"), "--check"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("name", BOARDS)
def test_dashboard_imports_anywhere(name: str) -> None:
    """Stable uid equal to the file name, no id, schema of Grafana 10.4, data source first."""
    board = BOARDS[name]
    assert (board["uid"], board["id"], board["schemaVersion"]) == (name, None, 39)
    assert board["templating"]["list"][0]["type"] == "datasource"
    assert "__inputs" not in board


@pytest.mark.parametrize(("uid", "panel"), PANELS, ids=lambda value: str(value)[:40])
def test_panel_is_complete(uid: str, panel: dict[str, Any]) -> None:
    """Title, description, unit, the variable data source, and metrics of the catalogue."""
    names = {metric.name for metric in METRICS}
    assert uid
    assert panel["title"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"
    for target in panel["targets"]:
        used = set(re.findall(r"\bscorer_\w+", target["expr"]))
        assert used
        assert {name if name in names else SUFFIX.sub("", name) for name in used} <= names
        assert all(SUFFIX.sub("", name) in panel["description"] for name in used)


def test_panels_do_not_overlap() -> None:
    """Every cell of the grid belongs to at most one panel."""
    for board in BOARDS.values():
        cells = [
            (x, y)
            for place in (panel["gridPos"] for panel in board["panels"])
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ]
        assert len(cells) == len(set(cells))
        assert all(x < 24 for x, _ in cells)
