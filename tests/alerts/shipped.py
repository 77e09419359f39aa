"""The rules that ship, and the scenarios that they are tested with."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "alerts"
RULES_FILE = FOLDER / "scorer.rules.yml"
TEST_FILES = sorted(FOLDER.glob("*.test.yml"))

RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for rule in group["rules"]
]
SCENARIOS: list[dict[str, Any]] = [
    scenario for path in TEST_FILES for scenario in yaml.safe_load(path.read_text())["tests"]
]
NAMES = sorted({rule["alert"] for rule in RULES})
