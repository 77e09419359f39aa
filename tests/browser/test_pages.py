"""The pages in a real browser: no complaint, no sideways scrolling, 500 targets, a keyboard.

With ``SCORER_SCREENSHOTS`` set to a folder, what was seen is left there.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from scorer.core.cooldown import CooldownReason
from scorer.core.overrides import Override
from scorer.core.snapshot import CooldownView, SignalView
from scorer.core.vocabulary import Gap, Reason, SignalName, State
from scorer.http.ports import Ports
from scorer.rates import PickRates
from scorer.trends import SLOT, SLOTS, Trends
from tests.http.builders import (
    NOW,
    SIGNALS,
    losses,
    pool,
    ports,
    snapshot,
    target,
    unreachable,
    unscored,
)

LONG = "a-rather-long-host-name-of-a-replica-in-a-stateful-set-0.inference.svc.cluster.local:8000"
NOTE = "firmware-upgrade-of-the-switch-in-row-seven-" * 4
MANY = 500


def everything():
    """Return a pool with a target of each state, and long names and notes."""
    missing = SIGNALS | {SignalName.QUEUE: SignalView(None, unavailable=Gap.FAMILY_ABSENT)}
    drain = Override(NOW - 60.0, NOW + 540.0, NOTE)
    full = CooldownReason.ENGINE_SATURATED
    cooldown = CooldownView(
        active=True, began_at=NOW - 2.0, until=NOW + 4.0, note="a slow disk",
        entered={full: 12_345}, seconds={full: 40_000.0},
    )  # fmt: skip
    lost = losses(ttft=10.5, errors=3.0, queue=12.5, warmup=50.0)
    return pool(
        target("10.0.0.1:8000"),
        target(LONG, state=State.DRAINING, state_reason=Reason.MANUAL, drain=drain, eligible=False),
        target("10.0.0.3:8000", state=State.COOLDOWN, cooldown=cooldown, weight=0.44),
        target(
            "10.0.0.4:8000",
            state=State.WARMUP,
            score=24.0,
            points_lost=lost,
            signals=missing,
            weight=0.24,
            warmup_ratio=0.32,
        ),
        target("10.0.0.5:8000", state=State.DRAINING, drain=replace(drain, until=math.inf)),
        unreachable(detail="x" * 300),
        unscored(),
        models=("llama-3.1-8b", "a-model-with-a-name-that-nobody-can-remember" * 4),
        panic=True,
    )


def busy(*pools):
    """Return rates of targets, each with ten times those of the one before."""
    now = [0.0]
    rank = {view.target: index for each in pools for index, view in enumerate(each.targets)}
    rates = PickRates(
        lambda _, name: int(now[0] * 10 ** (rank[name] % 5 - 1)), lambda: now[0]
    )  # fmt: skip
    rates.see(snapshot(*pools))
    now[0] = 50.0
    return rates


def document():
    """Return a configuration with a line that is longer than any screen."""
    targets = [f"10.0.0.{number}:8000" for number in range(40)]
    labels = {"note": NOTE, "html": "<script>alert(1)</script>"}
    pool = {"name": "chat", "static_configs": [{"targets": targets, "labels": labels}]}
    return {"global": {"scrape_interval": "1s"}, "pools": [pool]}


def many():
    """Return a pool of 500 targets with scores from 0 to 100."""
    return pool(
        *(
            target(f"10.1.{number // 250}.{number % 250}:8000", "many", score=number / 5)
            for number in range(MANY)
        ),
        name="many",
    )


def lived(*pools):
    """Return a quarter of an hour of scores that go up and down."""
    trends = Trends()
    for slot in range(SLOTS):
        at = NOW - (SLOTS - 1 - slot) * SLOT
        judged = [
            replace(
                each,
                judged_at=at,
                targets=tuple(
                    replace(view, score=50 + 50 * math.sin(slot / 9 + index))
                    for index, view in enumerate(each.targets)
                ),
            )
            for each in pools
        ]
        trends.see(snapshot(*judged))
    return trends


@pytest.fixture(scope="module")
def site(serve: Callable[[Ports], str]) -> str:
    """Return the address of the pages."""
    pools = everything(), many()
    return serve(ports(*pools, trends=lived(*pools), rates=busy(*pools), document=document))


pytestmark = [pytest.mark.system, pytest.mark.usefixtures("keep")]

PAGES = {
    "all": "/?pool=chat&refresh=0",
    "live": "/?pool=chat&search=10.0.0",
    "many": "/?pool=many&sort=score",
    "one": f"/targets/{LONG}",
    "config": "/config",
}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_nothing_to_complain_about(browser, site, path, dark):
    """No error on the console, nothing refused by the policy, and the style sheet is in force."""
    browser.open(site + path, dark=dark)
    assert browser.complaints == []
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(21, 23, 26)" if dark else "rgb(247, 247, 245)")


@pytest.mark.parametrize("width", [320, 390, 768, 1181, 1440])
@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES)
def test_body_does_not_scroll_sideways(browser, site, path, width):
    """Long names, notes and errors wrap, on a telephone too."""
    browser.open(site + path, width=width)
    page = "document.documentElement"
    assert browser.run(f"{page}.clientWidth") > width - 20
    assert browser.run(f"{page}.scrollWidth - {page}.clientWidth") == 0
    assert browser.complaints == []


@pytest.mark.parametrize("width", [1181, 1360, 1361, 1440])
def test_cells_of_the_table_keep_to_themselves(browser, site, width):
    """No text of a column runs into the next; the line gives way where there is little room."""
    browser.open(site + PAGES["all"], width=width)
    wide = "[...document.querySelectorAll('tbody th, tbody td')]"
    assert browser.run(f"{wide}.filter(cell => cell.scrollWidth > cell.clientWidth).length") == 0
    shown = browser.run("document.querySelector('td.trend').checkVisibility()")
    assert shown is (width > 1360)


def test_complaints_are_heard(browser, site):
    """What the other tests look for is noticed: a page that breaks the policy is complained of."""
    browser.open(site + "/?refresh=0")
    browser.run("document.body.append(Object.assign(document.createElement('style'),"
                " {textContent: 'p {color: red}'}))")  # fmt: skip
    assert any("Content Security Policy" in each for each in browser.complaints)


def test_500_targets(browser, site):
    """All of them in one table, the worst first, in a page that a browser draws with ease."""
    browser.open(site + PAGES["many"])
    assert browser.run("performance.getEntriesByType('navigation')[0].decodedBodySize") < 2e6
    assert browser.run("document.querySelectorAll('*').length") < 100 * MANY
    assert browser.run("performance.getEntriesByType('resource').length") <= 3
    assert browser.run("document.querySelectorAll('tbody tr').length") == MANY
    assert browser.run("document.querySelector('tbody th a').textContent") == "10.1.0.0:8000"


def test_line_is_drawn(browser, site):
    """The line of a target has an extent: steps across its box."""
    browser.open(site + PAGES["all"])
    box = "document.querySelector('svg.trend path').getBBox()"
    assert browser.run(f"{box}.width") == SLOTS
    assert browser.run(f"{box}.height") > 50


def test_search_by_keyboard(browser, site):
    """The chip leads into the field; text and Enter lead to what was looked for."""
    browser.open(site + "/?pool=many&sort=-score")
    browser.run("document.querySelector('nav[aria-label=Search] a').focus()")
    browser.press("Enter", "\r")
    assert browser.run("document.activeElement.id") == "search"
    browser.type("10.1.1.24")
    browser.press("Enter", "\r")
    assert browser.run("document.querySelectorAll('tbody tr').length") == 11
    query = "pool=many&sort=-score&refresh=0&search=10.1.1.24"
    assert browser.run("location.search") == f"?{query}"


def test_sort_by_keyboard(browser, site):
    """Every column head is a link that shows its focus and its direction."""
    browser.open(site + "/?pool=many&refresh=0")
    browser.run("document.querySelector('th.score a').focus({focusVisible: true})")
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press("Enter", "\r")
    assert browser.run("document.querySelector('th.score').ariaSort") == "ascending"
