"""Grafana dashboards as code.

    python dashboards/generate.py               writes dashboards/scorer-*.json
    python dashboards/generate.py --check       fails when a file is not what this writes
    python dashboards/generate.py --configmaps  prints them as ConfigMaps for Kubernetes

Classic JSON for Grafana 10.4 and later (schemaVersion 39); the data source is a variable,
so the files import and provision anywhere. Nothing but Python's library is needed.
"""

import json
import sys
from pathlib import Path

from daemon import daemon
from one_target import one_target
from overview import overview
from picks import picks

FOLDER = Path(__file__).parent
USAGE = "usage: python dashboards/generate.py [--check | --configmaps]"


def files() -> dict[str, str]:
    """Return the text of every file by its name."""
    boards = (overview(), one_target(), picks(), daemon())
    return {
        f"{board['uid']}.json": json.dumps(board, indent=2, ensure_ascii=False) + "\n"
        for board in boards
    }


def write(wanted: dict[str, str]) -> int:
    """Write all files."""
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


def check(wanted: dict[str, str]) -> int:
    """Say which files are not up to date, and which should not be there."""
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    wrong = [name for name, text in wanted.items() if there.get(name) != text]
    for name in wrong:
        print(f"{name} is not up to date: run python dashboards/generate.py", file=sys.stderr)
    for name in there.keys() - wanted.keys():
        print(f"{name} is not a dashboard of dashboards/generate.py", file=sys.stderr)
    return int(bool(wrong) or bool(there.keys() - wanted.keys()))


def configmaps(wanted: dict[str, str]) -> int:
    """Print one ConfigMap for each file, with the label that Grafana's side car looks for."""
    for name, text in wanted.items():
        metadata = {
            "name": name.removesuffix(".json"),
            "labels": {"grafana_dashboard": "1"},
            "annotations": {"grafana_folder": "Scorer"},
        }
        compact = json.dumps(json.loads(text), separators=(",", ":"))
        whole = {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {name: compact},
        }  # fmt: skip
        print("---")
        print(json.dumps(whole, indent=2))  # JSON is YAML
    return 0


def main(arguments: list[str]) -> int:
    """Do what the arguments say."""
    actions = {(): write, ("--check",): check, ("--configmaps",): configmaps}
    action = actions.get(tuple(arguments))
    if action is None:
        print(USAGE, file=sys.stderr)
        return 2
    return action(files())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
