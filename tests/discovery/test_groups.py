"""Target groups: what Prometheus reads is read, and what is wrong is told."""

import pytest

from scorer.sources.discovery.groups import GroupsError, parse_json, parse_yaml

JSON = b"""
[{"targets": ["10.0.0.1:8000", "10.0.0.2:8000"], "labels": {"zone": "a"}},
 {"targets": ["[fd00::3]:8000"]}, {"targets": []}, {}]
"""
YAML = b"""
- targets: [10.0.0.1:8000, 10.0.0.2:8000]
  labels: {zone: a}
- targets:
  - '[fd00::3]:8000'
- targets: []
- {}
"""
READ = (
    {"__address__": "10.0.0.1:8000", "zone": "a"},
    {"__address__": "10.0.0.2:8000", "zone": "a"},
    {"__address__": "[fd00::3]:8000"},
)


def test_json_and_yaml_say_the_same() -> None:
    """Each target is a label set with the labels of its group."""
    assert parse_json(JSON) == parse_yaml(YAML) == READ


def test_scalars_of_yaml_stay_as_they_are_written() -> None:
    """A number or a truth value is the text that it is written as."""
    [labels] = parse_yaml(b"- {targets: ['a:1'], labels: {capacity: 1.0, on: yes, rack: 007}}")
    assert labels == {"__address__": "a:1", "capacity": "1.0", "on": "yes", "rack": "007"}


def test_empty_list_is_no_target() -> None:
    """An empty list is a good document."""
    assert parse_json(b"[]") == parse_yaml(b"[]") == ()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"[{", "is not valid JSON"),
        (b"\xff", "is not valid JSON: it is no UTF-8"),
        (b"[" + b"9" * 5000 + b"]", "is not valid JSON: a number has too many digits"),
        (b"null", "must be a list of target groups"),
        (b'{"targets": ["a:1"]}', "must be a list of target groups"),
        (b'["a:1"]', r"\[0\] must be a mapping"),
        (b'[{"targets": "a:1"}]', r"\[0\].targets must be a list of strings"),
        (b'[{}, {"targets": [8000]}]', r"\[1\].targets must be a list of strings"),
        (b'[{"labels": {"a": 1}}]', r"\[0\].labels must map label names to strings"),
        (b'[{"labels": ["a"]}]', r"\[0\].labels must map label names to strings"),
        (b'[{"target": ["a:1"]}]', r"\[0\] has the unknown key 'target'"),
        (b"[" * 100_000, "is not valid JSON: it is nested too deeply"),
    ],
)
def test_wrong_json_is_refused_whole(text: bytes, problem: str) -> None:
    """One mistake refuses the document, and the message says where."""
    with pytest.raises(GroupsError, match=problem):
        parse_json(text)


@pytest.mark.parametrize(
    "text", [b"- [", b"a: b: c", b"\xff\xfe\xfa", b"- &a [*a]", b"- !!python/name:os"]
)
def test_wrong_yaml_is_refused_whole(text: bytes) -> None:
    """What is no YAML, or no list of groups, is refused; tags have no effect."""
    with pytest.raises(GroupsError):
        parse_yaml(text)
