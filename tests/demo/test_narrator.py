import asyncio
import json

import pytest

from scorer.demo.client import Window
from scorer.demo.narrator import Narrator, changes, clock, read_rows, table
from scorer.demo.wire import KeepAlive

NAMES = {"h:1": "engine 1", "h:2": "engine 2"}


def target(address: str, **changed) -> dict:
    """Return one element of ``/api/v1/targets``, as http-api documents its shape."""
    return {
        "target": address,
        "score": 87.5,
        "state": "healthy",
        "state_reason": "none",
        "running": 4,
        "points_lost": {"ttft": 0.4, "errors": 0, "queue": 0, "kv_cache": 12.5, "warmup": 3},
        "signals": {
            "ttft": {"value": 0.25, "age": 0.4, "source": "engine"},
            "errors": {"value": 0.0, "age": 0.4, "source": "engine"},
            "queue": {"value": 3, "age": 0.4, "source": "engine"},
            "kv_cache": {"value": 0.9, "age": 0.4, "source": "engine"},
        },
        **changed,
    }


def rows(*targets: dict):
    """Return the rows read from an API answer with these targets."""
    return read_rows(json.dumps({"status": "success", "data": targets}).encode(), NAMES)


def report(*targets: dict, window: Window | None = None) -> list[str]:
    """Return the table of these targets at second 75."""
    return table(75.0, rows(*targets), window or Window(), seconds=2.0)


def test_rows_come_in_the_order_of_the_engines():
    """Whatever order the API answers in; targets that are not engines are left out."""
    found = rows(target("h:2"), target("other:3"), target("h:1"))
    assert [row.name for row in found] == ["engine 1", "engine 2"]


def test_a_line_tells_score_state_load_and_ttft():
    """In words and units."""
    assert report(target("h:1"))[1].split() == [
        *("engine", "1", "87.5", "█████████·", "healthy"),
        *("run", "4", "wait", "3", "kv", "90%", "ttft", "0.25", "s", "picks", "-"),
        *("-12", "kv_cache", "-3", "warmup"),
    ]


def test_an_unreachable_target_shows_no_load():
    """What it said before it went away is not what it is doing."""
    line = report(target("h:1", state="unreachable", score=0.0, points_lost={"cap": 100}))[1]
    assert line.split()[2:] == [
        *("0.0", "··········", "unreachable"),
        *("run", "-", "wait", "-", "kv", "-", "ttft", "-", "picks", "-", "-100", "cap"),
    ]


def test_an_unavailable_signal_is_a_dash():
    """Missing is not zero."""
    signals = {name: {"unavailable": "not_scraped"} for name in ("ttft", "queue", "kv_cache")}
    line = report(target("h:1", signals=signals, score=None, running=None, points_lost={}))[1]
    assert line.split()[2:] == [
        *("-", "··········", "healthy"),
        *("run", "-", "wait", "-", "kv", "-", "ttft", "-", "picks", "-"),
    ]


def test_lines_are_aligned():
    """Whether values are there or not, columns start at the same place."""
    lines = report(target("h:1"), target("h:2", score=None, running=None))[1:]
    assert [line.index("picks") for line in lines] == [lines[0].index("picks")] * 2


def test_the_share_of_picks_is_shown():
    """Three of four went to the second engine."""
    window = Window()
    window.picks.update({"h:1": 1, "h:2": 3})
    lines = report(target("h:1"), target("h:2"), window=window)[1:]
    assert ["picks  25%" in lines[0], "picks  75%" in lines[1]] == [True, True]


def test_the_head_tells_what_the_client_saw():
    """Rate, TTFT and troubles, the latter only when there are any."""
    window = Window(ttfts=[0.1, 0.2, 0.9], retried=2, broken=1)
    window.picks.update({"h:1": 20})
    [head] = report(window=window)
    assert head == (
        "1:15  client: 10.0 requests/s, TTFT p50 0.20 s p95 0.90 s,"
        " 2 retried on the alternate, 1 broken off"
    )


@pytest.mark.parametrize(("seconds", "text"), [(0.9, "0:00"), (75.0, "1:15"), (3600.0, "60:00")])
def test_clock(seconds, text):
    """Minutes and seconds since the start."""
    assert clock(seconds) == text


def test_a_change_of_state_is_told_with_its_reason():
    """Only for the target that changed."""
    before = rows(target("h:1"), target("h:2"))
    changed = target("h:2", state="degraded", state_reason="low_score")
    assert changes(before, rows(target("h:1"), changed)) == [
        "engine 2 (h:2): healthy -> degraded (low_score)"
    ]


def test_the_first_report_is_no_change():
    """There is no state to have changed from."""
    assert changes([], rows(target("h:1"))) == []


def test_a_report_is_read_from_the_daemon(stubbed):
    """It asks for the targets and prints the client's line and one per engine."""
    lines: list[str] = []
    document = json.dumps({"data": [target("h:1"), target("h:2")]}).encode()

    async def scenario():
        async with stubbed(lambda _: (200, document)) as stub, KeepAlive(stub.address) as daemon:
            await Narrator(daemon, NAMES, Window, lines.append).report()
            return stub.paths

    assert (asyncio.run(scenario()), len(lines)) == (["/api/v1/targets"], 3)


def test_a_silent_daemon_is_told(dead_address):
    """The demo goes on: whoever watches the process decides."""
    lines: list[str] = []

    async def scenario():
        await Narrator(KeepAlive(dead_address), NAMES, Window, lines.append).report()

    asyncio.run(scenario())
    assert "the daemon does not answer" in lines[0]
