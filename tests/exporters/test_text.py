"""The encoder: prints what ``prometheus_client`` prints, in both formats."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from exporters.text import OPENMETRICS, TEXT, encode, negotiated

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.floats(allow_nan=False)


class Only:
    """A collector of given families."""

    def __init__(self, *families):
        self.families = families

    def collect(self):
        return self.families


def family(kind, help_text, rows):
    """Return a family with a sample for each of ``rows`` of label value and value."""
    suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
    result = Metric("scorer_thing", help_text, kind)
    result.samples = [
        Sample(f"scorer_thing{suffix}", {"target": label, "pool": "p"}, value)
        for label, value in rows.items()
    ]
    return result


def seen(families):
    """Return what a parser found, comparable."""
    return [
        (found.name, found.type, found.documentation, [sample[:3] for sample in found.samples])
        for found in families
    ]


@given(st.sampled_from(["gauge", "counter", "info"]), TEXTS, st.dictionaries(TEXTS, VALUES))
def test_text_reads_as_the_library_writes_it(kind, help_text, rows):
    """Any help, label and number reads back the same from our page as from the library's."""
    given_family = family(kind, help_text, rows)
    ours = encode([given_family], TEXT).decode()
    theirs = generate_latest(Only(given_family)).decode()
    assert seen(parse_text(ours)) == seen(parse_text(theirs))


@given(
    st.sampled_from(["gauge", "counter"]),
    TEXTS,
    st.dictionaries(TEXTS, st.floats(min_value=0, allow_infinity=False)),
)
def test_openmetrics_reads_as_the_library_writes_it(kind, help_text, rows):
    """The same in OpenMetrics, whose parser is strict."""
    given_family = family(kind, help_text, rows)
    ours = encode([given_family], OPENMETRICS).decode()
    theirs = generate_openmetrics(Only(given_family)).decode()
    assert seen(parse_openmetrics(ours)) == seen(parse_openmetrics(theirs))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (3, "3.0"),
        (1.9e9, "1900000000.0"),
    ],
)
def test_numbers(value, text):
    """Numbers are spelt as Prometheus spells them."""
    result = Metric("scorer_thing", "Help.", "gauge")
    result.samples = [Sample("scorer_thing", {}, value)]
    assert encode([result], TEXT).decode().splitlines()[-1] == f"scorer_thing {text}"


def test_openmetrics_page_ends_with_its_mark():
    """A page without the mark counts as cut short."""
    assert encode([], OPENMETRICS) == b"# EOF\n"


PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;"
    "escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,/;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        (PROMETHEUS_2, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS),
        ("application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text; version=2.0.0", TEXT),
        ("application/openmetrics-text;q=0, text/plain", TEXT),
        (",;;=,a;b;c", TEXT),
    ],
)
def test_negotiation(accept, content_type):
    """OpenMetrics is for those who name it in a version that we write."""
    assert negotiated(accept) == content_type
