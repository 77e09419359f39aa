"""The shared vectors of the pick: complete, up to date, and what Python comes to."""

import json
from collections import Counter
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.vectors.generate import FILES, documents, text_of
from tests.vectors.replay import replay

FOLDER = Path(__file__).parent / "vectors"
CASES = [
    pytest.param(case, id=f"{name}: {case['name']}")
    for name in FILES
    for case in json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
]
SCHEMA = Draft202012Validator(json.loads((FOLDER / "snapshot.schema.json").read_text()))


@pytest.mark.parametrize("case", CASES)
def test_python_comes_to_the_choice(case):
    """(snapshot, request, draws) decide everything, and no draw more is taken."""
    assert replay(case) == (case["choice"], case["draws_taken"])


@pytest.mark.parametrize("case", CASES)
def test_snapshot_of_a_case_is_one_that_the_daemon_could_send(case):
    """The schema of the API describes the vectors as well."""
    SCHEMA.validate(case["snapshot"])


def test_files_are_what_the_rule_writes():
    """A change of the rule changes the vectors with it."""
    for name, document in documents().items():
        path = FOLDER / f"{name}.json"
        assert path.read_text(encoding="utf-8") == text_of(document), path.name


def test_every_branch_has_its_cases():
    """At least 60 cases; every reason and every dropped filter more than once."""
    choices = [case.values[0]["choice"] for case in CASES]
    found = Counter(choice[key] for choice in choices if choice for key in ("reason", "relaxed"))
    assert len(CASES) >= 60
    assert {"draw", "cold", "key", "all", "kv_guard", "cooldown", "warmup"} <= set(found)
    assert min(found.values()) >= 2
    assert choices.count(None) >= 2
    assert any(choice["panic"] for choice in choices if choice)


def test_schema_refuses_what_it_does_not_know():
    """A misspelt key is an error, not something that a picker silently lacks."""
    snapshot = CASES[1].values[0]["snapshot"]
    [pool] = snapshot["pools"]
    assert not SCHEMA.is_valid({**snapshot, "pools": [{**pool, "kvguard": 1}]})
