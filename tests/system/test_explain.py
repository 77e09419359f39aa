"""``scorer explain`` as an operator runs it: a target in each of the six states."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urljoin

import pytest
import requests

from tests.invoked import invoked
from tests.system.conftest import DaemonProcess, FakeEngine, free_port, page, send

pytestmark = [pytest.mark.system, pytest.mark.slow]

STATES = ("warmup", "cooldown", "degraded", "healthy", "draining", "unreachable")
SLOW_RAMP = 5.0
"""Points a second: a warm-up that takes longer than the tests look at it."""


def explain(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``scorer explain`` against the daemon at ``url``."""
    return invoked("explain", *arguments, SCORER_URL=url, http_proxy="http://127.0.0.1:1")


@dataclass(frozen=True)
class Fleet:
    """The daemon's URL, and by state a target's name and what was printed of it."""

    url: str
    names: dict[str, str]
    texts: dict[str, subprocess.CompletedProcess[str]]
    data: dict[str, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Return a fleet with a target in each state, explained as soon as it was in it."""
    engines = {state: FakeEngine() for state in STATES if state != "unreachable"}
    names = {state: each.target for state, each in engines.items()}
    names["unreachable"] = f"127.0.0.1:{free_port()}"
    for each in engines.values():
        each.serves()
    daemon = DaemonProcess(tmp_path_factory.mktemp("explain"), _config(names))
    texts, data = {}, {}
    try:
        daemon.ready()
        _worsen(daemon, engines)
        for state, name in names.items():
            daemon.until(lambda name=name, state=state: daemon.target(name)["state"] == state)
            texts[state] = explain(daemon.url, name)
            data[state] = explain(daemon.url, name, "--pool", "chat", "-o", "json")
        yield Fleet(daemon.url, names, texts, data)
    finally:
        daemon.process.kill()
        daemon.process.wait(5)
        for each in engines.values():
            each.close()


def _config(names: dict[str, str]) -> dict[str, object]:
    others = [name for state, name in names.items() if state != "draining"]
    leaving = {"targets": [names["draining"]], "labels": {"__draining__": "true"}}
    static = [{"targets": others}, leaving]
    warmup = {"rise_limit": SLOW_RAMP}
    return {"pools": [{"name": "chat", "warmup": warmup, "static_configs": static}]}


def _worsen(daemon: DaemonProcess, engines: dict[str, FakeEngine]) -> None:
    """Bring the targets into their states; all were well before."""
    engines["degraded"].answer = lambda handler: send(handler, _slow_page().encode())
    engines["warmup"].serves(start_time=5000)
    reports = [
        {"target": engines["cooldown"].target, "status": 503, "error_body": "KV cache exhausted",
         "headers": {"retry-after": "30"}},
        {"target": engines["degraded"].target, "status": 500, "error_body": "internal error"},
    ]  # fmt: skip
    for report in reports:
        answer = daemon.http.post(f"{daemon.url}/feedback", json={"pool": "chat", **report})
        assert answer.json()["accepted"] == 1


def _slow_page() -> str:
    """Return a page with a queue and slow first tokens; tokens come, so nothing is frozen."""
    tokens = int(100 * time.monotonic())
    return page(waiting=12, running=8, tokens=tokens, count=30, sum=1.0 + 20 * 1.43426)


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ("healthy", "", ["score = 100 - 0.0", "what would raise the score\n  none"]),
        (
            "degraded",
            " (low score)",
            [
                "+18.0  TTFT from 1.4 s to 0 s",
                "+10.0  errors from 5.0% to 0%: 30 s without a failure",
                "+10.0  queue from 12 to 0",
                "engine fault  feedback",
            ],
        ),
        (
            "cooldown",
            " (engine says that it is full)",
            ["saturation  said lately that it is full", "+40.0  cooldown ends in"],
        ),
        (
            "warmup",
            " (engine restarted, ramping up)",
            ["rising to    ", "warm-up: 5 points a second, full in"],
        ),
        (
            "draining",
            " (discovery says that it is going away)",
            ["+0  draining ends: discovery no longer says", "not eligible"],
        ),
        (
            "unreachable",
            " (refuses connections)",
            [
                "not known  connection refused, until ",
                "scrape failed x ",
                "last scrape  no connection",
            ],
        ),
    ],
)
def test_target_in_each_state(fleet: Fleet, state: str, reason: str, said: list[str]):
    """The first line has the state, the rest what keeps the target there and what ends it."""
    done = fleet.texts[state]
    assert (done.returncode, done.stderr) == (0, "")
    first = done.stdout.splitlines()[0]
    assert first.startswith(f"{fleet.names[state]} of pool chat: score ")
    assert first.endswith(f", {state}{reason}")
    assert [text for text in said if text not in done.stdout] == []


@pytest.mark.parametrize("state", STATES)
def test_points_add_up(fleet: Fleet, state: str):
    """As scripts read it, in every state: signals, saturation, caps and ramp are 100 - score."""
    data = json.loads(fleet.data[state].stdout)
    account = data["explanation"]
    lost = sum(row["points_lost"] for row in (*account["signals"], *account["caps"]))
    lost += account["saturation"] + account["held_back"]
    assert data["score"] + lost == pytest.approx(100.0, abs=0.001)


def test_page_of_a_target(fleet: Fleet):
    """The page that the table links to is there, and so is the style sheet that it links to."""
    with requests.Session() as http:
        http.trust_env = False
        name = fleet.names["degraded"].replace(":", "%3A")
        [link] = re.findall(rf'href="(targets/{name}[^"]*)"', http.get(fleet.url).text)
        shown = http.get(f"{fleet.url}/{link}")
        [style] = re.findall(r'href="([^"]*status.css[^"]*)"', shown.text)
        assert "TTFT from 1.4 s to 0 s" in shown.text
        assert http.get(urljoin(shown.url, style)).status_code == 200


def test_unknown_target(fleet: Fleet):
    """One line, exit code 1."""
    done = explain(fleet.url, "10.9.9.9:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'scorer: target: no such target, got "10.9.9.9:1"\n'


def test_no_daemon():
    """Nobody listens: one line, exit code 1."""
    address = f"127.0.0.1:{free_port()}"
    done = explain(f"http://{address}", "a:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"scorer: connection refused by {address}: nothing listens there\n"
