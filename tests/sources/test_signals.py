"""Values made of several rows: partners, copies, percent, and what each mapping does not know."""

import pytest

from scorer.core.samples import Reading
from scorer.core.vocabulary import Gap
from scorer.mappings.rows import CounterSource, HistogramSource, SignalSource
from scorer.sources.counts import counters, histogram
from scorer.sources.exposition import parse_exposition
from scorer.sources.signals import reading
from scorer.sources.view import View

NAMES = frozenset({"a", "b", "h_sum", "h_count", "sum_ms", "n"})


def view(*lines: str) -> View:
    """Return the view of a page with these lines."""
    body = "\n".join((*lines, "")).encode()
    page = parse_exposition(body, "", NAMES, complete=True)
    return View(page.rows, page)


def read(page: View, copies: tuple[str, ...] = ("pid",), **source: object) -> Reading:
    """Read one value with a source given as data."""
    given = {"family": "a", "aggregate": "sum", **source}
    return reading(page, (SignalSource.model_validate(given),), copies)


@pytest.mark.parametrize(
    ("operation", "expected"), [("plus", 12.0), ("minus", 8.0), ("times", 20.0), ("over", 5.0)]
)
def test_partner_is_combined_by_its_labels(operation, expected):
    """Rows are paired by all labels but those that they are chosen by."""
    page = view('a{kind="x",m="1"} 10', 'a{kind="y",m="1"} 99', 'b{m="1"} 2', 'b{m="2"} 7')
    given = {"where": {"kind": "x"}, operation: {"family": "b"}}
    assert read(page, **given) == Reading(expected)


def test_partners_are_paired_before_they_are_summed():
    """A ratio of several models is one ratio each; the largest counts."""
    page = view(
        'a{m="1",t="used"} 1', 'a{m="1",t="max"} 10', 'a{m="2",t="used"} 9', 'a{m="2",t="max"} 10'
    )
    over = {"family": "a", "where": {"t": "max"}}
    found = read(page, where={"t": "used"}, over=over, aggregate="max", unit="ratio")
    assert found == Reading(0.9)


@pytest.mark.parametrize(
    ("lines", "gap"),
    [
        (["a 1"], Gap.FAMILY_ABSENT),
        (["a 1", "# TYPE b gauge"], Gap.NO_SAMPLES),
        (['a{m="1"} 1', 'b{m="2"} 1'], Gap.NO_SAMPLES),
        (["a 1", "b NaN"], Gap.NOT_A_NUMBER),
        (["a 1", "b 0"], Gap.NOT_A_NUMBER),
    ],
)
def test_value_without_its_partner_is_missing(lines, gap):
    """Half of a value is none."""
    assert read(view(*lines), over={"family": "b"}) == Reading.missing(gap)


def test_negative_difference_is_missing():
    """A part that is larger than the whole was read from another moment."""
    assert read(view("a 1", "b 2"), minus={"family": "b"}) == Reading.missing(Gap.NEGATIVE)


def test_copies_are_one_series():
    """Ranks of one engine that print the same gauge are not added, engines are."""
    page = view('a{dp="0",tp="0"} 5', 'a{dp="0",tp="1"} 4', 'a{dp="1",tp="0"} 2')
    assert read(page, ("tp",)) == Reading(7)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["a 1", "b 0"], Reading.missing(Gap.FAMILY_ABSENT)),
        (["a 1"], Reading.missing(Gap.FAMILY_ABSENT)),
        (["a 1", "b NaN"], Reading.missing(Gap.FAMILY_ABSENT)),
        (["a 1", 'b{m="1"} 0', 'b{m="2"} 0.2'], Reading(1.0)),
    ],
)
def test_alternative_counts_only_while_another_family_is_above_zero(lines, expected):
    """Otherwise it is as if the page did not have it."""
    assert read(view(*lines), only_while="b") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("93.0", Reading(0.93)), ("104", Reading(1.0)), ("140", Reading.missing(Gap.OUT_OF_RANGE))],
)
def test_percent_is_read_where_the_mapping_says_so(value, expected):
    """A percentage is a ratio only by an explicit word of the mapping."""
    assert read(view(f"a {value}"), unit="ratio", scale="percent", aggregate="max") == expected


def test_value_that_no_source_tells_is_not_offered():
    """An engine that never has a metric is not one that lost it."""
    assert reading(view("a 1"), ()) == Reading.missing(Gap.NOT_OFFERED)


def test_coarse_counter_is_left_out():
    """A value whose printed step is more than ten is not seen moving."""
    source = CounterSource(family="a", digits=6)
    assert counters(view("a 9.99e+06"), source)
    assert counters(view("a 1e+07"), source) == {}


def test_absent_family_has_counted_nothing_when_the_mapping_says_so():
    """Some engines print a counter from its first event on."""
    assert counters(view("b 1"), CounterSource(family="a", sparse="family")) == {}
    assert counters(view("b 1"), CounterSource(family="a", sparse="series")) is None


def test_counters_may_stand_in_for_a_histogram():
    """A sum of milliseconds and a count are all that a mean needs."""
    source = HistogramSource(family="h", sum="sum_ms", count="n", scale="milliseconds")
    found = histogram(view('sum_ms{x="1"} 1500', 'n{x="1"} 3'), (source,))
    assert (found.sum, found.count) == (1.5, 3)


def test_rows_that_are_left_out_are_no_samples():
    """A family with rows, none of which counts, has no sample for the signal."""
    source = HistogramSource(family="h", where_not={"stream": "false"})
    page = view('h_sum{stream="false"} 9', 'h_count{stream="false"} 1')
    assert histogram(page, (source,)).gap is Gap.NO_SAMPLES


def test_failures_are_those_of_models_that_another_family_names():
    """Rows of other models on the same server are not this engine's."""
    page = view('a{model="llm"} 3', 'a{model="tokenizer"} 5', 'b{model="llm"} 1')
    source = CounterSource(family="a", among={"model": "b"})
    assert list(counters(page, source).values()) == [3]
