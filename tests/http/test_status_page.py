"""The status page: what it says, and that hostile text stays text."""

import re

import pytest

from scorer.core.snapshot import SignalView
from scorer.core.vocabulary import Cause, Gap, Reason, ScrapeFailure, SignalName, State
from scorer.http import words
from scorer.http.app import create_flask
from scorer.http.page import row, score_bar
from tests.http.builders import (
    SIGNALS,
    chat,
    losses,
    pool,
    ports,
    target,
    unreachable,
    unscored,
)


def get(path, *pools):
    """Return Flask's response to a GET."""
    return create_flask(ports(*pools)).test_client().get(path)


def page(path, *pools):
    """Return the page's HTML."""
    response = get(path, *pools)
    assert response.status_code == 200
    return response.get_data(as_text=True)


def asset(path):
    """Return status and text of a static file."""
    with get(path) as response:
        return response.status_code, response.get_data(as_text=True)


def shown(view):
    """Return the row of a target."""
    return row(view, ports())


def test_summary_counts_the_whole_pool():
    """A pool's line says how many targets it has and how many are eligible."""
    assert "2 targets, 1 eligible" in page("/", pool(target(), unreachable()))


def test_every_target_is_there():
    """Each target has a row that links to its page."""
    html = page("/", chat(3))
    assert len(re.findall(r'href="targets/10\.0\.0\.\d(:|%3A)8000\?pool=chat"', html)) == 3


def test_panic_is_called_out():
    """A pool in panic says so."""
    assert "panic" in page("/", pool(target(), panic=True))


def test_no_panic_is_not_mentioned():
    """A calm pool says nothing of panic."""
    assert "panic" not in page("/", chat(2))


def test_empty_pool_says_so():
    """A pool without targets is not an empty table."""
    assert "This pool has no target." in page("/", pool())


def test_nothing_judged_says_so():
    """Before the first judgement the page says what it waits for."""
    assert "No pool has been judged yet." in page("/")


def test_state_filter():
    """``state`` leaves only the rows in that state, and the summary of the whole pool."""
    html = page("/?state=unreachable", pool(target("a:1"), unreachable("b:2")))
    assert "b:2" in html
    assert "a:1" not in html
    assert "2 targets, 1 eligible" in html


def test_state_filter_that_leaves_nothing():
    """A filter that no target passes says so."""
    assert "No target of this pool is what was asked for." in page("/?state=draining", chat(1))


def test_pool_filter():
    """``pool`` leaves only that pool."""
    html = page("/?pool=embed", pool(target("a:1")), pool(target("b:2", "embed"), name="embed"))
    assert "b:2" in html
    assert "a:1" not in html


def test_links_keep_the_other_filters():
    """Choosing a state keeps the pool and the reload interval."""
    html = page("/?pool=chat&refresh=30", chat(1), pool(name="embed"))
    assert 'href="./?pool=chat&amp;state=healthy&amp;refresh=30"' in html


@pytest.mark.parametrize("query", ["state=asleep", "refresh=soon", "refresh=-1", "refresh=99999"])
def test_malformed_parameter_is_400(query):
    """A parameter that means nothing is named, in plain text."""
    response = get(f"/?{query}", chat(1))
    assert (response.status_code, response.mimetype) == (400, "text/plain")
    assert response.get_data(as_text=True).startswith(query.split("=")[0])


def test_unknown_pool_is_404():
    """A pool that does not exist is not an empty page."""
    assert get("/?pool=x", chat(1)).status_code == 404


def test_page_reloads_itself():
    """Without a word about it the page reloads every five seconds."""
    assert '<meta http-equiv="refresh" content="5">' in page("/", chat(1))


def test_reload_can_be_stopped():
    """``refresh=0`` keeps the page as it is."""
    assert "http-equiv" not in page("/?refresh=0", chat(1))


def test_json_has_the_selected_targets():
    """``format=json`` gives the pools with the targets that the page would show."""
    body = get("/?format=json&state=healthy", pool(target("a:1"), unreachable("b:2"))).get_json()
    [shown_pool] = body["data"]
    assert [view["target"] for view in shown_pool["targets"]] == ["a:1"]
    assert shown_pool["eligible"] == 1


def test_json_errors_are_json():
    """With ``format=json`` a wrong filter is answered in JSON."""
    assert get("/?format=json&pool=x", chat(1)).get_json()["errorType"] == "not_found"


HOSTILE = "</small><script>alert(1)</script>\"'&\udcff"


def test_hostile_error_text_is_escaped():
    """What a server says in an error is text, quotes and broken bytes included."""
    html = page("/", pool(unreachable(detail=HOSTILE)))
    assert "<script" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize("field", ["engine_version", "target"])
def test_hostile_names_are_escaped(field):
    """No text of an engine or a configuration becomes markup."""
    assert "<script" not in page("/", pool(target(**{field: HOSTILE.replace("\udcff", "")})))


def test_csp_allows_nothing_inline():
    """The policy is strict, and the page keeps to it: no inline style, script or handler."""
    response = get("/", pool(target(), unreachable(), unscored()))
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<style|<script| style=| on\w+=", response.get_data(as_text=True))


@pytest.mark.parametrize("name", ["status.css", "favicon.svg"])
def test_assets_are_served(name):
    """What the page links to exists."""
    html = page("/", chat(1))
    [link] = re.findall(rf'href="(static/{name}[^"]*)"', html)
    assert asset(f"/{link}")[0] == 200


def test_bar_fills_100_points():
    """Score and losses fill the bar exactly, in the order of the causes."""
    bar, _ = score_bar(target(score=45.5, points_lost=losses(ttft=4.5, warmup=50.0)))
    assert [(part.kind, part.start, part.width) for part in bar] == [
        ("healthy", 0.0, 45.5),
        ("ttft", 45.5, 4.5),
        ("warmup", 50.0, 50.0),
    ]


def test_losses_come_largest_first():
    """The loss that matters most is read first; what is next to nothing is left out."""
    _, lost = score_bar(target(score=45.46, points_lost=losses(ttft=4.5, warmup=50.0, cap=0.04)))
    assert [part.label for part in lost] == ["warm-up −50.0", "TTFT −4.5"]


def test_unscored_target_has_no_bar():
    """A score that is not known is a dash, not an empty bar of a zero."""
    view = shown(unscored())
    assert (view.score, view.bar) == ("–", ())


def test_values_in_words():
    """Numbers are short and carry their unit."""
    view = shown(target())
    cells = (view.ttft, view.errors, view.waiting, view.kv_cache, view.running)
    assert [cell.text for cell in cells] == ["420 ms", "0%", "3", "63%", "7"]


def test_missing_signal_says_why():
    """A signal that cannot be read is n/a with the reason, never 0."""
    missing = SIGNALS | {SignalName.QUEUE: SignalView(None, unavailable=Gap.FAMILY_ABSENT)}
    cell = shown(target(signals=missing)).waiting
    assert (cell.text, cell.note) == ("n/a", "not on the engine's page")


def test_signal_without_traffic_is_a_dash():
    """No traffic is neither 0 nor a fault."""
    quiet = SIGNALS | {SignalName.TTFT: SignalView(None, None, "engine")}
    assert shown(target(signals=quiet)).ttft.text == "–"


def test_failed_scrape_in_words():
    """A failed scrape shows what went wrong."""
    scrape = shown(unreachable(detail="refused")).scrape
    assert (scrape.error, scrape.detail) == ("no connection", "refused")


@pytest.mark.parametrize(
    ("table", "words_of"),
    [
        (words.REASONS, Reason),
        (words.CAUSES, Cause),
        (words.GAPS, Gap),
        (words.FAILURES, ScrapeFailure),
    ],
)
def test_every_word_can_be_shown(table, words_of):
    """No member of a closed set is without words for people."""
    assert set(table) == set(words_of)


def test_every_state_and_cause_has_a_colour():
    """The style sheet has a colour for each state's and cause's dot and bar."""
    _, css = asset("/static/status.css")
    for name in (*State, *Cause):
        assert f"i.{name} " in css
        assert f"rect.{name} " in css


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (59.0, "59 s"),
        (60.0, "1 min"),
        (3599.0, "59 min"),
        (7500.0, "2 h 5 min"),
        (90_000.0, "1 d 1 h"),
    ],
)
def test_spans(seconds, text):
    """A duration is its one or two largest units."""
    assert words.span(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (1234.0, "1\u202f234"), (2_500_000.0, "2.50 M")]
)
def test_counts(value, text):
    """A count stays readable at any size."""
    assert words.count(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0, "0%"), (0.004, "0.4%"), (0.97, "97%")])
def test_percents(value, text):
    """A small share keeps the decimal that tells it from nothing."""
    assert words.percent(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0004, "0 ms"), (1.04, "1.0 s"), (20.4, "20 s")])
def test_latencies(value, text):
    """A time has the unit that fits it."""
    assert words.latency(value) == text
