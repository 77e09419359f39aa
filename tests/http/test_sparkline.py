"""The line of the last quarter of an hour: steps, gaps, words, and where it is shown."""

import re
from dataclasses import replace

import pytest

from scorer.http.app import create_flask
from scorer.http.sparkline import label, path
from scorer.trends import SLOTS, Trends
from tests.http.builders import NOW, pool, ports, snapshot, target, unscored

NONE = (None,) * SLOTS


@pytest.mark.parametrize(
    ("scores", "drawn"),
    [
        ((None, None), ""),
        ((90.0,), "M0 10.0H1"),
        ((90.0, 90.0, 40.0), "M0 10.0H2V60.0H3"),
        ((None, 90.0, None, 0.0), "M1 10.0H2M3 100.0H4"),
    ],
)
def test_path(scores, drawn):
    """Steps from slot to slot; a gap ends the line, and 0 is the bottom and no gap."""
    assert path(scores) == drawn


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        (NONE, "no score in the last 15 minutes"),
        ((*NONE[1:], 87.5), "lowest of the last 15 minutes 87.5, at present"),
        ((*NONE[2:], 0.0, 90.0), "lowest of the last 15 minutes 0.0, 15 s ago"),
        ((0.0, *NONE[2:], 90.0), "lowest of the last 15 minutes 0.0, 14 min ago"),
        ((*NONE[3:], 10.0, 90.0, 10.0), "lowest of the last 15 minutes 10.0, at present"),
    ],
)
def test_label(scores, text):
    """The lowest score, and how long ago it was, the latest of several."""
    assert label(scores) == text


@pytest.mark.parametrize("where", ["/", "/targets/a:1"])
def test_pages_draw_it(where):
    """Both pages have the line with its words, in attributes and not in a style."""
    trends = Trends()
    for ago, score in ((60.0, 20.0), (0.0, 87.5)):
        trends.see(snapshot(replace(pool(target("a:1", score=score)), judged_at=NOW - ago)))
    given = ports(pool(target("a:1")), trends=trends)
    html = create_flask(given).test_client().get(where).get_data(as_text=True)
    [line] = re.findall(r'<svg class="trend".*?</svg>', html, re.DOTALL)
    assert 'aria-label="lowest of the last 15 minutes 20.0, 1 min ago"' in line
    assert 'd="M55 80.0H56M59 12.5H60"' in line


def test_target_without_a_score_has_no_line():
    """Not a line at 0."""
    html = create_flask(ports(pool(unscored()))).test_client().get("/").get_data(as_text=True)
    assert "no score in the last 15 minutes" in html
    assert "<path" not in html
