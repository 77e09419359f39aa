"""Target groups as Prometheus reads them from files and over HTTP.

``[{"targets": ["10.0.0.1:8000"], "labels": {"zone": "a"}}]``: each target becomes a label
set with its address in ``__address__``. A document is taken whole or not at all.
"""

import json
from collections.abc import Mapping
from typing import Any

import yaml

from scorer.json_errors import why

ADDRESS = "__address__"
MOST_TARGETS = 100_000

LabelSet = Mapping[str, str]

# Scalars stay the text that they are written as: `capacity: 1.0` is "1.0", not a float.
_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class GroupsError(ValueError):
    """A document that is no list of target groups; its text says where and why."""


def parse_json(text: bytes) -> tuple[LabelSet, ...]:
    """Return the label sets in a JSON document; GroupsError when it is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GroupsError(f"is not valid JSON: {why(error)}") from None
    return label_sets(document)


def parse_yaml(text: bytes) -> tuple[LabelSet, ...]:
    """Return the label sets in a YAML document; GroupsError when it is none."""
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - it makes strings, lists and mappings only
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise GroupsError(f"is not valid YAML{where}") from None
    return label_sets(document)


def label_sets(document: object) -> tuple[LabelSet, ...]:
    """Return the label set of each target in a decoded document; GroupsError when it is wrong."""
    if not isinstance(document, list):
        raise GroupsError("must be a list of target groups, [] for no target")
    found: list[LabelSet] = []
    for index, group in enumerate(document):
        found += _group(f"[{index}]", group)
        if len(found) > MOST_TARGETS:  # a short document can mean any number, by YAML's aliases
            raise GroupsError(f"lists more than {MOST_TARGETS} targets")
    return tuple(found)


def _group(path: str, group: object) -> list[LabelSet]:
    if not isinstance(group, dict):
        raise GroupsError(f"{path} must be a mapping with targets and labels")
    if unknown := sorted(map(str, group.keys() - {"targets", "labels"})):
        raise GroupsError(f"{path} has the unknown key {unknown[0][:60]!r}")
    targets, labels = group.get("targets") or [], group.get("labels") or {}
    if not isinstance(targets, list) or not all(isinstance(each, str) for each in targets):
        raise GroupsError(f"{path}.targets must be a list of strings")
    if not isinstance(labels, dict) or not all(map(_is_text, labels.items())):
        raise GroupsError(f"{path}.labels must map label names to strings")
    return [{**labels, ADDRESS: target} for target in targets]


def _is_text(item: tuple[object, object]) -> bool:
    return all(isinstance(each, str) for each in item)
