"""Order, search and export of the status page, and what holds targets back."""

import csv
import io
import json
import math
import re
import shlex

import pytest

from scorer.cli import main
from scorer.core.cooldown import CooldownReason
from scorer.core.overrides import Override
from scorer.core.snapshot import CooldownView, ScrapeView, SignalView
from scorer.core.vocabulary import Gap, Reason, SignalName, State, Verb
from scorer.http import words
from scorer.http.app import create_flask
from scorer.http.page import share
from scorer.http.sorting import KEYS, next_sort
from scorer.http.table import COLUMNS
from scorer.inflight import InFlight
from scorer.rates import PickRates
from tests.http.builders import NOW, SIGNALS, pool, ports, target, unreachable, unscored

FULL = CooldownReason.ENGINE_SATURATED
UNKNOWN = SIGNALS | {SignalName.QUEUE: SignalView(None, unavailable=Gap.FAMILY_ABSENT)}
CHAT = pool(
    target("b:1", score=90.0),
    target("a:1", score=12.5, signals=UNKNOWN, model_names=("Mixtral",)),
    unscored("d:1"),
    target("c:1", score=55.0, engine="sglang", signals=SIGNALS | {
        SignalName.QUEUE: SignalView(0.0, NOW, "engine")}),
)  # fmt: skip


def get(path, *pools):
    return create_flask(ports(*(pools or (CHAT,)))).test_client().get(path)


def html(path, *pools):
    response = get(path, *pools)
    assert response.status_code == 200
    return response.get_data(as_text=True)


def order(query):
    """Return the first letters of the names of the targets, in the order of the page."""
    return "".join(re.findall(r'<a href="targets/(\w)', html(f"/?{query}")))


def lines(path, *pools):
    """Return the lines of the CSV, by column."""
    return list(csv.DictReader(io.StringIO(html(path, *pools))))


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "badc"),
        ("sort=target", "abcd"),
        ("sort=-target", "dcba"),
        ("sort=score", "acbd"),
        ("sort=-score", "bcad"),
        ("sort=waiting", "cbad"),
        ("sort=-waiting", "bcad"),
        ("sort=-state", "dbac"),
    ],
)
def test_order(query, names):
    """Up or down; a value that is missing comes last both ways, and equals keep their order."""
    assert order(query) == names


def test_order_by_picks():
    """The one that got most comes first."""
    inflight = InFlight()
    for _ in range(2):
        inflight.opened("chat", "c:1")
    inflight.opened("chat", "d:1")
    text = create_flask(ports(CHAT, inflight=inflight)).test_client().get("/?sort=-picks").text
    assert re.findall(r'<a href="targets/(\w)', text) == ["c", "d", "b", "a"]


def test_order_by_cooldowns():
    """The one that spent most time in them comes first, however many there were."""
    views = [
        target(name, cooldown=CooldownView(entered={FULL: count}, seconds={FULL: seconds}))
        for name, count, seconds in (("a:1", 9, 5.0), ("b:1", 1, 3600.0), ("c:1", 0, 0.0))
    ]
    text = html("/?sort=-cooldowns", pool(*views))
    assert "".join(re.findall(r'<a href="targets/(\w)', text)) == "bac"
    cells = re.findall(r'data-label="Cooldowns">(.*?)</td>', text)
    assert [re.sub(r"<[^>]*>", " ", each).split() for each in cells] == [
        ["1", "1", "h", "0", "min"], ["9", "5", "s"], ["0"],
    ]  # fmt: skip


def test_picks_have_a_rate():
    """The total, and the rate of the last minute; a dash while that is not known."""
    picks, now = [0], [0.0]
    rates = PickRates(lambda *_: picks[0], lambda: now[0])
    client = create_flask(ports(pool(target("a:1")), rates=rates)).test_client()
    assert "<small>–</small>" in client.get("/").text
    assert client.get("/api/v1/targets").json["data"][0]["picks_per_second"] is None
    rates.see(ports(pool(target("a:1"))).snapshot())
    picks[0], now[0] = 25, 10.0
    assert "<small>2.5/s</small>" in client.get("/").text
    assert client.get("/api/v1/targets").json["data"][0]["picks_per_second"] == 2.5


@pytest.mark.parametrize(
    ("rate", "said"),
    [(None, "–"), (0.0, "0.0/s"), (0.016, "0.016/s"), (0.949, "0.95/s"), (0.96, "1.0/s"),
     (9.96, "10.0/s"), (12.4, "12/s"), (1234.0, "1\u202f234/s")],
)  # fmt: skip
def test_rates_in_words(rate, said):
    """Two digits that tell something."""
    assert words.rate(rate) == said


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (target("a:1"), ""),
        (target("a:1", weight=0.44), "weight 0.44"),
        (target("a:1", score=24.0, weight=0.24, warmup_ratio=0.24), "warm-up 24%"),
        (target("a:1", weight=0.0, warmup_ratio=0.05), "weight 0.00, warm-up 5.0%"),
        (unscored("a:1"), ""),
    ],
)
def test_weight_is_shown_where_it_is_not_the_score(view, said):
    """And how far the ramp has come while it is on."""
    assert share(view) == said
    assert (f"<small>{said}</small>" in html("/", pool(view))) is bool(said)


def test_everything_that_is_not_healthy():
    """One filter for the five states, with a link that counts them."""
    shown = pool(target("a:1"), unreachable("b:1"), unscored("c:1"), target("d:1"))
    text = html("/?state=unhealthy", shown)
    assert re.findall(r'<a href="targets/(\w)', text) == ["b", "c"]
    assert re.search(r'state=unhealthy" class="chip on"[^>]*>unhealthy <b>2</b>', text)
    assert [each["target"] for each in lines("/?state=unhealthy&format=csv", shown)] == [
        "b:1", "c:1",
    ]  # fmt: skip
    assert "unhealthy" not in html("/", pool(target("a:1")))


def test_order_by_age():
    """The oldest scrape comes first or last; a target without any is always last."""
    old, fresh = (ScrapeView(ok=True, at=NOW - age, duration=0.1) for age in (9.0, 0.1))
    shown = pool(unscored("d:1"), target("a:1", last_scrape=fresh), target("b:1", last_scrape=old))
    for sort, names in (("-scrape", "bad"), ("scrape", "abd")):
        assert "".join(re.findall(r'<a href="targets/(\w)', html(f"/?sort={sort}", shown))) == names


@pytest.mark.parametrize("name", KEYS)
def test_every_column_sorts_both_ways(name):
    """Each has a name for people, and is a permutation of all targets."""
    assert words.COLUMNS[name] in html("/")
    assert sorted(order(f"sort={name}")) == sorted(order(f"sort=-{name}")) == list("abcd")


@pytest.mark.parametrize("sort", ["age", "-", "--score", "score-"])
def test_unknown_order_is_400(sort):
    """It is named, with what there is."""
    response = get(f"/?sort={sort}")
    assert response.status_code == 400
    assert response.get_data(as_text=True).startswith("sort: must be one of target, state, score")


def test_click_turns_the_order_round():
    """The worst first, then the other way round."""
    assert [next_sort("score", sort) for sort in ("", "score", "-score")] == [
        "score", "-score", "score",
    ]  # fmt: skip
    assert [next_sort("errors", sort) for sort in ("", "-errors")] == ["-errors", "errors"]


def test_head_says_the_order():
    """To those who cannot see the arrow, too."""
    text = html("/?sort=-score")
    assert text.count("aria-sort") == 1
    assert 'class="score" aria-sort="descending"><a href="./?sort=score">' in text


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("search=a:", "a"),
        ("search=SGLang", "c"),
        ("search=mixtral", "a"),
        ("search=+b:1+", "b"),
        ("search=vllm+0.11", "ba"),
        ("search=nothing", ""),
        ("search=1%0Avllm", "ba"),
    ],
)
def test_search(query, names):
    """Name, engine with version, models; in any case."""
    assert order(query) == names


def test_all_that_was_asked_for_is_kept():
    """In filters, heads, exports and the form."""
    asked = "/?pool=chat&state=healthy&search=1&sort=-score&refresh=0"
    text = html(asked, CHAT, pool(name="embed")).replace("&amp;", "&")
    for link in (
        "./?pool=embed&state=healthy&search=1&sort=-score&refresh=0",
        "./?pool=chat&search=1&sort=-score&refresh=0",
        "./?pool=chat&state=healthy&search=1&sort=-errors&refresh=0",
        "./?pool=chat&state=healthy&search=1&sort=-score",
        "./?pool=chat&state=healthy&search=1&sort=-score&format=csv",
        "./?pool=chat&state=healthy&search=1&sort=-score&format=json",
    ):
        assert f'href="{link}"' in text
    fields = dict(re.findall(r'<input type="\w+" name="(\w+)"[^>]* value="([^"]*)"', text))
    assert fields == {
        "pool": "chat", "state": "healthy", "search": "1", "sort": "-score", "refresh": "0",
    }  # fmt: skip


def test_page_that_reloads_has_no_field():
    """What is typed would be lost; the search in force can be taken back."""
    text = html("/?search=a:&sort=score")
    assert "<input" not in text
    assert 'href="./?sort=score" class="chip on"' in text


def test_hostile_search_is_escaped():
    """What was looked for is text."""
    for refresh in ("0", "5"):
        assert "<script" not in html(f'/?refresh={refresh}&search="><script>alert(1)</script>')


def test_json_is_searched_and_ordered():
    """As the page."""
    [shown] = get("/?format=json&search=vllm&sort=score").get_json()["data"]
    assert [each["target"] for each in shown["targets"]] == ["a:1", "b:1"]


def test_csv_columns_are_stable():
    """A change of these breaks somebody's script."""
    assert html("/?format=csv").partition("\n")[0] == (
        "pool,target,url,engine,engine_version,state,state_since,state_reason,eligible,weight,"
        "warmup_ratio,score,raw_score,points_lost.ttft,points_lost.errors,points_lost.queue,"
        "points_lost.kv_cache,points_lost.saturation,points_lost.cap,points_lost.warmup,"
        "signals.ttft.value,signals.errors.value,signals.queue.value,signals.kv_cache.value,"
        "signals.ttft.unavailable,signals.errors.unavailable,signals.queue.unavailable,"
        "signals.kv_cache.unavailable,running,in_flight,picks,picks_per_second,restarts,cooldowns,"
        "cooldown_seconds,cooldown_until,"
        "drain.since,drain.until,drain.note,last_scrape.ok,last_scrape.age,"
        "last_scrape.duration,last_scrape.reason"
    )


def test_csv_has_what_the_json_has():
    """Every column is there in the JSON, and has its value."""
    scraped = unreachable("a:1", detail="refused")
    view = get("/?format=json", pool(scraped)).get_json()["data"][0]["targets"][0]
    view["drain"] = {"since": "", "until": "", "note": ""}
    for name in SignalName:
        view["signals"][name].setdefault("unavailable", "")
    [line] = lines("/?format=csv", pool(scraped))
    for column in COLUMNS:
        value = view
        for key in column.split("."):
            value = value[key]
        shown = value if isinstance(value, str) else json.dumps(value)
        assert line[column] == ("" if value is None else shown)


def test_csv_leaves_empty_what_is_missing():
    """Missing is not 0, and the reason is there."""
    [line] = lines("/?format=csv&search=d:1")
    assert (line["score"], line["running"], line["signals.queue.value"]) == ("", "", "")
    assert line["signals.queue.unavailable"] == "not_scraped"


def test_csv_is_a_file_of_the_selection():
    """In the order asked for."""
    response = get("/?format=csv&sort=score&search=vllm")
    assert response.mimetype == "text/csv"
    assert "scorer-targets.csv" in response.headers["Content-Disposition"]
    assert [line["target"] for line in lines("/?format=csv&sort=score&search=vllm")] == [
        "a:1", "b:1",
    ]  # fmt: skip


@pytest.mark.parametrize("note", ['=HYPERLINK("http://evil")', "+1", "-1", "@x", "\tx"])
def test_csv_has_no_formula(note):
    """What an operator or an engine wrote does not run in a spreadsheet."""
    drain = Override(NOW, math.inf, note)
    [line] = lines("/?format=csv", pool(target(drain=drain)))
    assert line["drain.note"] == f"'{note}"


def test_csv_quotes():
    """Commas, quotes, line feeds and broken bytes stay in their field."""
    note = 'a, "b"\nc'
    shown = pool(target(drain=Override(NOW, math.inf, note), engine_version="\udcff"))
    [line] = lines("/?format=csv", shown)
    assert (line["drain.note"], line["engine_version"]) == (note, "?")


def test_unknown_format_is_400():
    """It is not taken for the page."""
    response = get("/?format=xml")
    assert response.status_code == 400
    assert response.get_data(as_text=True) == 'format: must be json or csv, got "xml"\n'


DRAINED = target(
    "a:1", state=State.DRAINING, state_reason=Reason.MANUAL,
    drain=Override(NOW - 10.0, NOW + 590.0, "<b>upgrade"),
)  # fmt: skip
FOREVER = target("a:1", state=State.DRAINING, drain=Override(NOW - 10.0, math.inf))
COOLING = target(
    "a:1", state=State.COOLDOWN, cooldown=CooldownView(True, NOW, NOW + 5.0, note="slow disk")
)
PAGES = pytest.mark.parametrize("path", ["/", "/targets/a:1"])


@PAGES
@pytest.mark.parametrize(
    ("view", "text"),
    [
        (DRAINED, "ends in 9 min, at 17:56:30 UTC</time>: &lt;b&gt;upgrade"),
        (FOREVER, "until it is taken back<"),
        (COOLING, "ends in 5.0 s, at 17:46:45 UTC</time>: slow disk"),
    ],
)
def test_end_and_reason_of_a_hold(path, view, text):
    """On both pages; a hold without an end says so."""
    assert text in html(path, pool(view))


@PAGES
@pytest.mark.parametrize(
    "view",
    [
        target("a:1"),
        target("a:1", drain=Override(NOW - 10.0, NOW)),
        target("a:1", cooldown=CooldownView(False, NOW - 9.0, NOW - 4.0)),
    ],
)
def test_nothing_holds_what_is_free(path, view):
    """What is over is not shown."""
    assert 'class="hold"' not in html(path, pool(view))


def commands(view):
    """Return the commands on the page of a target, as a shell splits them."""
    text = html(f"/targets/{view.target}", pool(view, name=view.pool))
    found = re.findall(r"<code>(.*?)</code>", text)
    return [shlex.split(each.replace("&#39;", "'")) for each in found]


@pytest.mark.parametrize(
    ("view", "verbs"),
    [
        (target("a:1"), [Verb.DRAIN, Verb.COOLDOWN]),
        (FOREVER, [Verb.DRAIN, Verb.UNDRAIN, Verb.COOLDOWN]),
        (COOLING, [Verb.DRAIN, Verb.COOLDOWN, Verb.END_COOLDOWN]),
        (target("[::1]:8000/eu~1", pool="my pool"), [Verb.DRAIN, Verb.COOLDOWN]),
    ],
)
def test_commands_that_give_orders(view, verbs):
    """Those that change something; the command line takes them as they stand."""
    shown = commands(view)
    assert [each[:2] for each in shown] == [["scorer", verb] for verb in verbs]
    for _, verb, *arguments in shown:
        context = main.commands[verb].make_context(verb, arguments)
        assert (context.params["target"], context.params["pool"]) == (view.target, view.pool)
