"""The dashboards as tests look at them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parents[2] / "dashboards"
BOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")
}
STEP = 60
"""Seconds between two points of a chart of two hours."""
TIMES = {"__rate_interval": "120s", "__interval": f"{STEP}s", "__range": "7200s"}


class Asked(NamedTuple):
    """One query of one panel."""

    uid: str
    panel: dict[str, Any]
    target: dict[str, Any]

    @property
    def name(self) -> str:
        """The words that a test run shows."""
        return f"{self.uid}: {self.panel['title']} {self.target['refId']}"


def panels(board: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a dashboard without the titles of its rows."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


PANELS = [(uid, panel) for uid, board in BOARDS.items() for panel in panels(board)]
QUERIES = [Asked(uid, panel, target) for uid, panel in PANELS for target in panel["targets"]]


def filled(text: str, **chosen: str) -> str:
    """Return a query with its variables filled in: all of everything, but for ``chosen``."""
    values = {"job": ".*", "pool": ".*", "target": ".*", "instance": ".*", **TIMES, **chosen}
    return re.sub(r"\$(\w+)", lambda match: values[match[1]], text)
