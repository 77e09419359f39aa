"""An operator gives orders from the page, in a real browser: asked, confirmed, refused, done."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scorer.core.vocabulary import State
from scorer.http.ports import Ports
from tests.http.builders import ports
from tests.ordered import A, B, World

TOKEN = "a token with = and & and ü"
FIELDS = ("duration", "reason", "token")
PAGE = "document.documentElement"

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("keep")]


class Site(World):
    """A fleet with pages that take orders."""

    def __init__(self, serve: Callable[[Ports], str], token: Path) -> None:
        super().__init__()
        token.write_text(TOKEN)
        self.operators.use(str(token))
        self.url = serve(ports(
            snapshot=lambda: self.registry.snapshot, inflight=self.inflight, clocks=self.clocks,
            operators=self.operators,
        ))  # fmt: skip


@pytest.fixture
def site(serve: Callable[[Ports], str], tmp_path: Path) -> Site:
    """Return a healthy fleet."""
    return Site(serve, tmp_path / "token")


def follow(browser, selector):
    """Go by keyboard to where the first link or button of a selector leads."""
    browser.run(f"document.querySelector({selector!r}).focus()")
    browser.press("Enter", "\r")


def fill(browser, **values):
    """Type into fields, in place of what is there."""
    for name, value in values.items():
        browser.run(f"document.getElementById({name!r}).select()")
        browser.type(value)


def text(browser, selector):
    """Return the text of the first element, empty without one."""
    return browser.run(f"document.querySelector({selector!r})?.textContent.trim() ?? ''")


def test_drain_and_undrain(browser, site):
    """From the page of a target to its order, with the token, and back; then the same to undo."""
    browser.open(f"{site.url}/targets/{A}?pool=chat")
    follow(browser, ".orders a")
    assert text(browser, "h2") == f"Drain {A}"
    assert site.view().state is State.HEALTHY
    fill(browser, duration="10m", reason="driver <b>upgrade</b>", token=TOKEN)
    browser.press("Enter", "\r")
    assert site.view().drain.until == site.now + 600.0
    assert (
        browser.run("decodeURIComponent(location.pathname + location.search)")
        == f"/targets/{A}?pool=chat"
    )
    assert text(browser, ".badge") == "draining"
    assert text(browser, ".hold").endswith("UTC: driver <b>upgrade</b>")
    follow(browser, ".orders li:nth-child(2) a")
    fill(browser, token=TOKEN)
    follow(browser, ".ask button")
    assert site.view().state is State.HEALTHY
    assert browser.complaints == []


def test_wrong_token_changes_nothing(browser, site):
    """The page says so, keeps what was typed but for the token, and its field has the focus."""
    browser.open(f"{site.url}/targets/{A}?pool=chat&order=cooldown")
    fill(browser, duration="1m", reason="slow disk", token="guessed")
    follow(browser, ".ask button")
    assert "the token of web.admin_token_file is required" in text(browser, "[role=alert]")
    assert browser.run("document.activeElement.id") == "token"
    kept = [browser.run(f"document.getElementById({name!r}).value") for name in FIELDS]
    assert kept == ["1m", "slow disk", ""]
    assert not site.view().cooldown.active


def test_bad_duration_is_told(browser, site):
    """With field, rule and value."""
    browser.open(f"{site.url}/targets/{A}?pool=chat&order=cooldown")
    fill(browser, duration="2h", token=TOKEN)
    follow(browser, ".ask button")
    rule = "duration: must be at least 1s and at most 1h, got 2h"
    assert rule in text(browser, "[role=alert]")
    assert browser.run("document.activeElement.id") == "duration"
    assert browser.run("document.activeElement.getAttribute('aria-describedby')") == "problem"


def test_all_pools_that_have_it(browser, site):
    """One is asked for by the address; the other is in reach."""
    browser.open(f"{site.url}/targets/{B}?pool=code&order=drain")
    assert browser.run("document.getElementById('pool').value") == "code"
    browser.run("document.getElementById('pool').value = ''")
    fill(browser, token=TOKEN)
    follow(browser, ".ask button")
    states = [site.view(B, pool).state for pool in ("chat", "code")]
    assert states == [State.DRAINING, State.DRAINING]


@pytest.mark.parametrize("width", [320, 1440])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", [
    f"/targets/{B}?pool=chat&order=drain", f"/targets/{B}?pool=chat",
    "/targets/10.9.9.9:1?order=drain",
], ids=["order", "target", "nobody"])  # fmt: skip
def test_page_is_clean(browser, site, path, dark, width):
    """Nothing on the console but that a target is unknown, nothing sideways, the style in force."""
    browser.open(site.url + path, width=width, dark=dark)
    assert [each for each in browser.complaints if "10.9.9.9" not in each] == []
    assert browser.run(f"{PAGE}.scrollWidth - {PAGE}.clientWidth") == 0
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(21, 23, 26)" if dark else "rgb(247, 247, 245)")
