"""One target with its explanation: as data, and on its page."""

import re
from pathlib import Path

import pytest

from scorer.core.conditions import RULES
from scorer.core.explain import explain
from scorer.core.outcome import OutcomeClass
from scorer.core.overrides import Override
from scorer.core.remedies import Lever, Remedy
from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import Cause, Reason, ScrapeFailure, State
from scorer.http import words
from scorer.http.app import create_flask
from scorer.http.page import row
from scorer.http.pick import PickEndpoint
from scorer.http.remedies import WAYS_BACK, remedy_text
from tests.core.builders import REFUSED, page
from tests.http.builders import NOW, pool, ports, target, unreachable
from tests.http.harness import drive, http_scope
from tests.http.judged import busy, judged, scraped, tell

API = "/api/v1/targets/10.0.0.7:8000"
PAGE = "/targets/10.0.0.7:8000"


def get(path, *views, **changes):
    """Return Flask's response to a GET, for a pool of these views."""
    return create_flask(ports(pool(*views), **changes)).test_client().get(path)


def data(view, path=API):
    return get(path, view).get_json()["data"]


def html(view, path=PAGE):
    response = get(path, view)
    assert response.status_code == 200
    return response.get_data(as_text=True)


def test_account_of_a_busy_target():
    """Each signal with value, age, source, curve, weight and points; all of it sums up."""
    shown = data(judged(busy()))
    explanation = shown["explanation"]
    [ttft, errors, queue, kv_cache] = explanation["signals"]
    assert ttft == {
        "signal": "ttft", "value": 1.0, "age": 1.5, "source": "feedback",
        "curve": {
            "shape": "quadratic", "knee": 0.0, "ceiling": 2.0,
            "knots": [[0.0, 0.0], [0.5, 2.1875], [1.0, 8.75], [1.5, 19.6875], [2.0, 35.0]],
        },
        "factor": 0.25, "weight": 0.35, "points_lost": 8.75,
    }  # fmt: skip
    assert (errors["value"], errors["points_lost"]) == (0.05, 10.0)
    assert (queue["source"], queue["age"], queue["points_lost"]) == ("engine", 2.0, 10.0)
    assert (kv_cache["value"], kv_cache["points_lost"]) == (0.63, 0.0)
    lost = sum(row["points_lost"] for row in explanation["signals"])
    assert shown["score"] == pytest.approx(100.0 - lost)


def test_remedies_of_a_busy_target():
    """The largest gain first, each with its points and what has to happen."""
    told = data(judged(busy()))["explanation"]["remedies"]
    assert [(each["lever"], each["points"], each["text"]) for each in told] == [
        ("errors", 10.0, "errors from 5.0% to 0%: 30 s without a failure"),
        ("queue", 10.0, "queue from 12 to 0"),
        ("ttft", 8.75, "TTFT from 1.0 s to 0 s"),
    ]
    assert told[1] == {
        "lever": "queue", "points": 10.0, "value": 12.0, "best": 0.0, "seconds": None,
        "reason": None, "text": "queue from 12 to 0",
    }  # fmt: skip


def test_list_of_targets_is_without_explanations():
    """The list stays short; whoever wants to know why asks for one."""
    [shown] = get("/api/v1/targets", judged(busy())).get_json()["data"]
    assert not {"explanation", "transitions", "decisions", "last_errors"} & shown.keys()


def test_last_errors_come_with_source_and_reason():
    """Who told what when, the latest first."""
    health = busy()
    tell(health, OutcomeClass.ENGINE_SATURATED, NOW - 0.5)
    errors = data(judged(health))["last_errors"]
    assert len(errors) == 6
    assert errors[0] == {
        "at": "2030-03-17T17:46:39.500Z", "source": "feedback", "class": "engine_saturated",
        "reason": "http_500", "detail": None, "times": 1.0,
    }  # fmt: skip


def test_failed_scrapes_are_last_errors():
    """A target that refuses connections says so, with how often."""
    view = judged(scraped("10.0.0.7:8000", page(), page(), REFUSED, REFUSED, REFUSED))
    [error] = data(view)["last_errors"]
    assert (error["source"], error["class"], error["reason"]) == (
        "scrape", "scrape_failed", "connect",
    )  # fmt: skip
    assert (error["times"], error["detail"]) == (3.0, "connection refused")


def test_cap_is_told_with_its_limit_and_way_back():
    """A failing target: at most 20, and a probe would lift it."""
    health = scraped()
    tell(health, OutcomeClass.ENGINE_FAULT, NOW, 6)
    explanation = data(judged(health))["explanation"]
    [cap] = explanation["caps"]
    assert (cap["reason"], cap["limit"]) == ("failing", 20.0)
    [gain] = [each for each in explanation["remedies"] if each["lever"] == "cap"]
    assert gain["points"] == cap["points_lost"]
    assert cap["text"] == "most requests fail, only probes go there: at most 20"
    assert gain["text"] == "failing, until a request picked for it succeeds; probes try that"


def test_cooldown_is_told_in_seconds():
    """How long it still lasts, why, and what it costs."""
    health = scraped()
    tell(health, OutcomeClass.ENGINE_SATURATED, NOW, retry_after=8.0)
    [cooldown] = data(judged(health))["explanation"]["remedies"]
    assert (cooldown["points"], cooldown["seconds"]) == (40.0, 8.0)
    assert cooldown["text"] == (
        "cooldown ends in 8.0 s (engine says that it is full), "
        "then the points come back by half every 5 s"
    )


def test_what_is_not_known_is_null():
    """Of an unreachable target nothing is read: its gain is not known, and its goal is 0."""
    explanation = data(judged(scraped("10.0.0.7:8000", page(), page(), REFUSED, REFUSED)))[
        "explanation"
    ]
    assert explanation["goal"] == 0.0
    assert [(each["lever"], each["points"]) for each in explanation["remedies"]] == [("cap", None)]


def test_decisions_are_on_the_page():
    """The page names the picks that the target was part of."""
    given = ports(pool(judged(busy()), target("10.0.0.8:8000")))
    drive(PickEndpoint(given), http_scope("/pick", b"prompt_tokens=300"))
    text = create_flask(given).test_client().get(PAGE).get_data(as_text=True)
    assert "300 tokens" in text
    assert "None among the last 1000 picks." not in text


def test_page_shows_the_account():
    """Values, curves and points as people read them; a total that is the score."""
    text = html(judged(busy()))
    for words_on_it in ("quadratic, 0 s to 2.0 s", "−8.8", "queue from 12 to 0", "+10.0", "71.2"):
        assert words_on_it in text


def test_page_of_an_unreachable_target():
    """No number where none is known."""
    text = html(judged(scraped("10.0.0.7:8000", page(), page(), REFUSED, REFUSED)))
    assert "not known" in text
    assert "refuses connections" in text
    assert "at most 0" in text


def test_page_of_a_draining_target():
    """Draining costs picks, not points, and ends."""
    health = scraped()
    health.drain = Override(NOW - 10.0, NOW + 590.0)
    text = html(judged(health))
    assert "draining by an operator ends in 9 min; it costs no points" in text
    assert "not eligible" in text


def test_page_of_a_healthy_target():
    """Nothing to do is said, too."""
    text = html(judged(scraped()))
    assert "Nothing: no point is lost." in text
    assert "None remembered." in text


def test_page_as_json_is_the_api():
    """``format=json`` gives the same as the API."""
    view = judged(busy())
    assert data(view, f"{PAGE}?format=json") == data(view)


@pytest.mark.parametrize(
    ("query", "status"), [("pool=x", 404), ("refresh=soon", 400), ("pool=x&format=json", 404)]
)
def test_malformed_question_is_refused(query, status):
    """As on the page of all targets."""
    response = get(f"{PAGE}?{query}", target())
    assert response.status_code == status
    assert response.mimetype == ("application/json" if "json" in query else "text/plain")


def test_unknown_target_has_no_page():
    """A page of nothing is no page."""
    assert get("/targets/10.9.9.9:1", target()).status_code == 404


HOSTILE = "</small><script>alert(1)</script>\"'&\udcff"


def test_hostile_text_stays_text():
    """What a server says in an error is text, quotes and broken bytes included."""
    hostile = ScrapeFailed(ScrapeFailure.CONNECT, HOSTILE)
    text = html(judged(scraped("10.0.0.7:8000", page(), page(), hostile)))
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_page_keeps_to_its_policy():
    """No inline style, script or handler; assets are found from below /targets."""
    response = get(PAGE, judged(busy()))
    text = response.get_data(as_text=True)
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert not re.search(r"<style|<script| style=| on\w+=", text)
    assert 'href="../static/status.css' in text


def test_links_of_the_page_lead_back_to_it():
    """Stopping the reload keeps target and pool, brackets of IPv6 and all."""
    name = "[::1]:8000"
    text = html(target(name), f"/targets/{name}")
    assert 'href="./%5B%3A%3A1%5D%3A8000?pool=chat&amp;refresh=0"' in text


def test_page_of_all_targets_links_here():
    """From the table to the explanation with one click."""
    [link] = re.findall(r'href="(targets/[^"]+)"', html(target(), "/"))
    assert "10.0.0.7:8000" in html(target(), f"/{link}")


def test_unknown_words_are_shown_as_they_are():
    """A reason or cause without words for people is no fault of the page."""
    view = target(state_reason="moved_away", points_lost={"weather_report": 12.5})
    shown = row(view, ports())
    assert shown.reason == "moved away"
    assert [part.label for part in shown.losses] == ["weather report −12.5"]


def test_empty_detail_of_a_scrape_is_null():
    """Nothing to say is null, not an empty text."""
    assert data(target())["last_scrape"]["detail"] is None
    assert (
        data(unreachable("10.0.0.7:8000", detail="refused"))["last_scrape"]["detail"] == "refused"
    )


@pytest.mark.parametrize("lever", Lever)
def test_every_remedy_has_a_sentence(lever):
    """Each lever is told in words, whatever is known of it."""
    explanation = explain(judged(scraped()), NOW)
    bare = remedy_text(Remedy(lever, None), explanation)
    full = remedy_text(Remedy(lever, 3.0, 9.0, 1.0, 4.0, Reason.FAILING), explanation)
    assert "_" not in bare + full
    assert "None" not in bare + full


def test_every_capping_condition_has_a_way_back():
    """No condition caps a score without saying what ends it."""
    assert {condition.reason for condition, _ in RULES} == set(WAYS_BACK)


@pytest.mark.parametrize(
    ("points", "text"), [(None, "not known"), (0.0, "+0"), (0.04, "+0"), (12.54, "+12.5")]
)
def test_gains(points, text):
    """A gain that is not known is not 0."""
    assert words.gain(points) == text


def test_states_and_causes_are_known_to_the_page():
    """The words for causes cover the account's lines."""
    assert {words.said(words.CAUSES, cause) for cause in Cause} == set(words.CAUSES.values())
    assert words.said({}, State.HEALTHY) == "healthy"


def test_every_key_of_an_explanation_is_documented():
    """docs/http-api.md names every key, and every lever of a remedy."""
    text = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text(encoding="utf-8")
    health = busy()
    tell(health, OutcomeClass.ENGINE_FAULT, NOW - 0.5, 100)
    shown = data(judged(health))
    explanation = shown["explanation"]
    keys = {*explanation, *explanation["signals"][0], *explanation["signals"][0]["curve"], *Lever}
    for part in (explanation["caps"], explanation["remedies"], shown["last_errors"]):
        keys |= part[0].keys()
    assert [key for key in keys if f"`{key}`" not in text and f'"{key}"' not in text] == []
