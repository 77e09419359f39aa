"""Relabel rules mean what they mean in Prometheus."""

from typing import Any

import pytest

from scorer.config.relabel import RelabelConfig
from scorer.sources.discovery.relabel import relabel

FOUND = {"a": "foo", "b": "bar", "c": "baz"}


def after(labels: dict[str, str], *rules: dict[str, Any]) -> dict[str, str] | None:
    return relabel(labels, [RelabelConfig.model_validate(rule) for rule in rules])


def only(**rule: Any) -> dict[str, str] | None:
    """Return what one rule makes of three labels."""
    return after(FOUND, rule)


def test_no_rule_changes_nothing() -> None:
    """Without rules the labels are those found, but for empty ones."""
    assert after({**FOUND, "d": ""}) == FOUND


def test_replace_writes_what_the_groups_matched() -> None:
    """``$1`` and ``${1}`` stand for a group, values are joined by the separator."""
    rule = {"source_labels": ["a", "b"], "separator": ";", "regex": "f(.*);(.*)r"}
    done = only(**rule, target_label="a", replacement="b${1}${2}m")
    assert done == {**FOUND, "a": "boobam"}


def test_replace_needs_the_whole_value_to_match() -> None:
    """A regular expression is anchored at both ends."""
    assert only(source_labels=["a"], regex="f", target_label="d", replacement="x") == FOUND


def test_replace_defaults_copy_the_value() -> None:
    """Without regex and replacement a label is copied."""
    assert only(source_labels=["a"], target_label="d") == {**FOUND, "d": "foo"}


def test_replace_with_nothing_removes_the_label() -> None:
    """A label with an empty value is a label that is not there."""
    assert only(source_labels=["a"], target_label="b", replacement="") == {"a": "foo", "c": "baz"}


def test_missing_source_is_empty() -> None:
    """A label that is not there joins as an empty value."""
    done = only(source_labels=["x", "a"], target_label="d", regex="(;.*)", replacement="[$1]")
    assert done == {**FOUND, "d": "[;foo]"}


def test_target_label_is_made_of_groups() -> None:
    """The name of the label may come from the value; one that is no name changes nothing."""
    rule = {"source_labels": ["a"], "regex": "(.*)", "target_label": "x_${1}", "replacement": "y"}
    assert only(**rule) == {**FOUND, "x_foo": "y"}
    assert after({"a": "f-o"}, rule) == {"a": "f-o"}


@pytest.mark.parametrize(
    ("replacement", "value"),
    [
        ("$1x", None),
        ("${1}x", "foox"),
        ("$$1", "$1"),
        ("${name}!", "foo!"),
        ("$9", None),
        ("a$", "a$"),
        ("${", "${"),
    ],
)
def test_references_of_a_replacement(replacement: str, value: str | None) -> None:
    """A name is as long as it can be, an unknown group is empty, ``$$`` is a dollar sign."""
    done = only(
        source_labels=["a"], regex="(?P<name>.*)", target_label="d", replacement=replacement
    )
    assert done is not None
    assert done.get("d") == value


def test_group_names_of_re2() -> None:
    """``(?<name>…)`` is RE2's other way to name a group."""
    done = only(source_labels=["a"], regex="(?<n>.).*", target_label="d", replacement="$n")
    assert done == {**FOUND, "d": "f"}


def test_dot_matches_a_line_feed() -> None:
    """As in Prometheus, a value of several lines matches ``.*``."""
    assert after({"a": "x\ny"}, {"source_labels": ["a"], "regex": "x.y", "action": "keep"})


def test_character_classes_are_of_ascii() -> None:
    r"""``\d`` does not match the digits of other scripts."""
    rule = {"source_labels": ["a"], "regex": r"\d", "action": "keep"}
    assert after({"a": "٣"}, rule) is None


@pytest.mark.parametrize(
    ("action", "regex", "stays"),
    [("keep", "fo+", True), ("keep", "fo", False), ("drop", "fo", True), ("drop", "foo", False)],
)
def test_keep_and_drop(action: str, regex: str, stays: bool) -> None:
    """A rule decides whether the target stays."""
    assert (only(source_labels=["a"], regex=regex, action=action) is not None) == stays


def test_rule_after_a_drop_is_not_reached() -> None:
    """What is dropped stays dropped."""
    drop = {"source_labels": ["a"], "regex": "foo", "action": "drop"}
    assert after(FOUND, drop, {"source_labels": ["b"], "target_label": "a"}) is None


def test_each_rule_sees_what_the_one_before_left() -> None:
    """Rules apply in their order."""
    first = {"source_labels": ["a"], "target_label": "b"}
    assert after(FOUND, first, {"source_labels": ["b"], "target_label": "c"}) == {
        "a": "foo", "b": "foo", "c": "foo",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "source", "modulus", "shard"),
    [(FOUND, "c", 1000, "976"), ({"a": "foo\nbar"}, "a", 1000, "734")],
)
def test_hashmod_is_the_shard_of_prometheus(
    labels: dict[str, str], source: str, modulus: int, shard: str
) -> None:
    """The same value gets the same shard as from Prometheus, so that both split alike."""
    rule = {
        "source_labels": [source], "modulus": modulus, "target_label": "d", "action": "hashmod",
    }  # fmt: skip
    assert after(labels, rule) == {**labels, "d": shard}


def test_labelmap_renames_by_name() -> None:
    """Labels whose name matches are copied under a name made of it."""
    found = {"__meta_zone": "a", "__meta_node_rack": "7", "x": "1"}
    done = after(found, {"action": "labelmap", "regex": "__meta_(.+)"})
    assert done == {**found, "zone": "a", "node_rack": "7"}


def test_labeldrop_and_labelkeep() -> None:
    """Labels go or stay by their names."""
    assert only(action="labeldrop", regex="a|b") == {"c": "baz"}
    assert only(action="labelkeep", regex="a|b") == {"a": "foo", "b": "bar"}


def test_lowercase_and_uppercase() -> None:
    """The joined value is written in one case."""
    rule = {"source_labels": ["a"], "target_label": "a"}
    assert after({"a": "Foo"}, {**rule, "action": "lowercase"}) == {"a": "foo"}
    assert after({"a": "Foo"}, {**rule, "action": "uppercase"}) == {"a": "FOO"}


@pytest.mark.parametrize(
    ("action", "other", "stays"),
    [
        ("keepequal", "foo", True),
        ("keepequal", "bar", False),
        ("dropequal", "foo", False),
        ("dropequal", "bar", True),
    ],
)
def test_keepequal_and_dropequal(action: str, other: str, stays: bool) -> None:
    """The target stays or goes by whether two labels agree."""
    rule = {"source_labels": ["a"], "target_label": "z", "action": action}
    assert (after({"a": "foo", "z": other}, rule) is not None) == stays
