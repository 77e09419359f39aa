"""The catalogue: valid names, and documentation that keeps up with it."""

import re

import pytest

from exporters.catalogue import BUCKETS, DOCUMENT, METRICS, Type, markdown

FORBIDDEN_LABELS = {"namespace", "pod", "container", "service", "endpoint", "job", "instance"}


def test_document_is_up_to_date():
    """docs/metrics.md is what ``python -m exporters.catalogue`` writes."""
    assert DOCUMENT.read_text(encoding="utf-8") == markdown()


def test_names_are_unique():
    """No metric is listed twice."""
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_and_labels_are_valid(metric):
    """The encoder checks neither, so they must be right here."""
    assert re.fullmatch(r"scorer_[a-z_]+", metric.name)
    assert all(re.fullmatch(r"[a-z_]+", label) for label in metric.labels)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_labels_leave_those_of_the_operator_alone(metric):
    """A label that Prometheus Operator sets would become exported_*."""
    assert not FORBIDDEN_LABELS & set(metric.labels)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_suffix_says_the_type(metric):
    """Counters end in _total, infos in _info, and nothing else does."""
    assert metric.name.endswith("_total") == (metric.type is Type.COUNTER)
    assert metric.name.endswith("_info") == (metric.type is Type.INFO)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_help_is_a_sentence(metric):
    """Help starts with a capital and ends with a full stop."""
    assert re.fullmatch(r"[A-Z].*\.", metric.help)


def test_every_histogram_has_documented_buckets():
    """The buckets of every histogram are in the document."""
    assert set(BUCKETS) == {metric.name for metric in METRICS if metric.type is Type.HISTOGRAM}
