"""The text format: what is read, and what fails the whole page."""

import math

import pytest

from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.sources import exposition
from scorer.sources.exposition import Exposition, parse_exposition

NAMES = frozenset({"a", "b_total", "ns:gauge", "ns:hist", "ns:hist_sum", "ns:hist_count"})
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def parse(text: str | bytes, content_type: str = "text/plain", *, complete: bool = True):
    """Parse a page for the names above."""
    body = text.encode() if isinstance(text, str) else text
    return parse_exposition(body, content_type, NAMES, complete=complete)


def values(page: Exposition) -> dict[str, list[float]]:
    """Return the values of a page by series name."""
    return {name: [row.value for row in rows] for name, rows in page.rows.items()}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('ns:gauge{x="y"} 1.5', 1.5),
        ('ns:gauge{x="y"}532', 532),
        ('ns:gauge{x="y",} 2.0 1760000000123', 2),
        ('  \tns:gauge{ x = "y" , }\t3.1e-01 \t', 0.31),
        ("ns:gauge 7", 7),
        ("ns:gauge\t8", 8),
        ("ns:gauge {} 9", 9),
        ('ns:gauge{x="a} 1,b # x{"} 10', 10),
        (r'ns:gauge{x="q\"u\\o\nte"} 11', 11),
        ("ns:gauge 1.17e+010", 1.17e10),
        ("ns:gauge +Inf", math.inf),
        ("ns:gauge -1", -1),
        ("ns:gauge 1e18\r", 1e18),
    ],
)
def test_oddly_written_lines_are_read(line, value):
    """Blanks, tabs, commas, timestamps, escapes and a missing blank are all legal."""
    assert values(parse(f"# odd\n#\n{line}\n")) == {"ns:gauge": [value]}


def test_not_a_number_is_a_value():
    """NaN is what the page says; what it means is decided elsewhere."""
    (row,) = parse("a NaN\n").rows["a"]
    assert math.isnan(row.value)


def test_labels_are_unescaped_and_empty_ones_dropped():
    """An empty label equals an absent one."""
    (row,) = parse('a{x="q\\"\\n",y=""} 1\n').rows["a"]
    assert row.labels == {"x": 'q"\n'}
    assert row.key == ("a", (("x", 'q"\n'),))


def test_order_of_labels_makes_no_difference():
    """A series is known by its labels, not by how they are written down."""
    (first, second) = parse('a{x="1",y="2"} 3\na{y="2",x="1"} 3\n').rows["a"]
    assert first.key == second.key


def test_other_lines_are_not_looked_at():
    """Longer names, buckets and unreadable lines of other families cost nothing."""
    page = 'ns:gauge_by{x="y"} 1\nns:hist_bucket{le="1"} 2\nns:other{half=\nspam\na2 3\n'
    assert parse(page).rows == {}


def test_declared_families_are_known_without_samples():
    """A TYPE line tells a family that has no samples yet from one that is absent."""
    assert parse("# TYPE ns:hist histogram\n# TYPE other gauge\n").declared == {"ns:hist"}


def test_repeated_family_keeps_all_its_rows():
    """A page merged of two engines' pages declares its families twice."""
    page = '# TYPE a gauge\na{e="0"} 1\n# TYPE b gauge\n# TYPE a gauge\na{e="1"} 64\n'
    assert values(parse(page)) == {"a": [1, 64]}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ns:gauge", "cannot read the value"),
        ("ns:gauge{", "cannot read the value"),
        ('ns:gauge{x="y"', "cannot read the value"),
        ('ns:gauge{x="y} 5', "cannot read the labels"),
        ('ns:gauge spam{x="y"} 5', "cannot read the labels"),
        ("ns:gauge 0x10", "cannot read the value"),
        ("ns:gauge 1_000", "cannot read the value"),
        ("ns:gauge \u0661", "cannot read the value"),
        ("ns:gauge 1 2 3", "cannot read the value"),
        ("ns:gauge 1 soon", "cannot read the value"),
        ("ns:gauge=5", "cannot read the value"),
    ],
)
def test_malformed_wanted_line_fails_the_page(line, why):
    """The line is named by number and text, and nothing of the page is applied."""
    got = parse(f"a 1\n# TYPE ns:gauge gauge\n{line}\na 2\n")
    assert got == ScrapeFailed(ScrapeFailure.PARSE, f"line 3: {why}: {line!r}")


def test_long_line_is_cut_in_the_message():
    """A message shows at most 80 characters of what the target sent."""
    got = parse("a " + "x" * 500 + "\n")
    assert got.detail == f"line 1: cannot read the value: 'a {'x' * 77}…'"


def test_line_of_a_megabyte_is_refused():
    """No label set of an engine is longer than 64 KiB."""
    got = parse('a{x="' + "y" * 1_000_000 + '"} 1\n')
    assert got.reason is ScrapeFailure.PARSE
    assert "line too long" in got.detail


def test_same_series_with_two_values_fails_the_page():
    """Which of two values is right cannot be told, and the series is named."""
    got = parse('a{x="1",y="2"} 45.0\na{y="2",x="1"} 0.0\n')
    detail = """line 2: the same series again, 0 after 45: 'a{y="2",x="1"} 0.0'"""
    assert got == ScrapeFailed(ScrapeFailure.PARSE, detail)


@pytest.mark.parametrize("value", ["45.0", "NaN"])
def test_same_series_with_one_value_is_no_contradiction(value):
    """A line printed twice says nothing wrong."""
    assert isinstance(parse(f"a {value}\na {value}\n"), Exposition)


def test_cut_last_line_fails_the_page():
    """45 cut to 4 is still a number: without framing a last line needs its line feed."""
    got = parse("b_total 1\na 4", complete=False)
    detail = "the last line has no line feed: cut short at 'b_total 1\\na 4'"
    assert got == ScrapeFailed(ScrapeFailure.TRUNCATED, detail)


def test_last_line_may_lack_its_line_feed_when_the_body_is_proven_whole():
    """Content-Length or chunks prove more than a line feed."""
    assert values(parse("a 4")) == {"a": [4]}


def test_byte_order_mark_is_skipped():
    """A page that starts with a byte-order mark is read from behind it."""
    assert values(parse(b"\xef\xbb\xbfa 1\n")) == {"a": [1]}


def test_page_that_is_not_utf8_is_wrong_content():
    """The first byte that is not UTF-8 is named."""
    got = parse(b"a 1\n\xff\xfe")
    detail = "not a text page: byte 4 is not UTF-8"
    assert got == ScrapeFailed(ScrapeFailure.WRONG_CONTENT, detail)


def test_openmetrics_exemplars_are_dropped():
    """An exemplar behind the value is not part of it."""
    page = 'b_total{x="# {"} 5.0 1.5 # {trace="a b"} 0.67 1.6\na 1 # {} 2\n# EOF\n'
    assert values(parse(page, OPENMETRICS)) == {"b_total": [5], "a": [1]}


@pytest.mark.parametrize("page", ["a 1\n", "a 1\n# EOF\nb_total 1\n"])
def test_openmetrics_without_its_end_is_truncated(page):
    """An OpenMetrics page ends in # EOF, whatever the framing says."""
    got = parse(page, OPENMETRICS)
    assert got.reason is ScrapeFailure.TRUNCATED


def test_too_many_rows_are_refused(monkeypatch):
    """A federation of many engines is not one engine's page."""
    monkeypatch.setattr(exposition, "MAX_ROWS", 3)
    got = parse("".join(f'a{{x="{n}"}} 1\n' for n in range(4)))
    assert got == ScrapeFailed(ScrapeFailure.TOO_LARGE, "more than 3 rows of wanted families")
