"""HAProxy goes on when the daemon is killed, stopped or out of its mind (cases B49 and B48)."""

import json
import signal
import statistics
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import requests

from tests.integrations.client import Reply, ask, ask_many
from tests.integrations.engine import Engine
from tests.integrations.haproxy import Haproxy, until
from tests.integrations.picker import Picker, blackhole
from tests.system.conftest import DaemonProcess, free_port

pytestmark = pytest.mark.system

INF = float("inf")
ATTEMPT = "    bind abns@scorer_first name first\n"
ATTEMPTS = (ATTEMPT, f"{ATTEMPT}    bind 127.0.0.1:9811 name test\n")
"""A port by which a test asks for an attempt as HAProxy itself does."""
BUDGET = 0.1
"""Seconds that a request may take longer while the daemon does not answer."""
SHARED = 200
"""Requests of which three dice would never leave one engine less than a tenth."""


def counts(haproxy: Haproxy, family: str) -> dict[str, float]:
    """Return the values of a family of HAProxy's metrics by their labels."""
    page = requests.get(f"http://127.0.0.1:{haproxy.ports[9813]}/metrics", timeout=5).text
    rows = (line.rpartition(" ") for line in page.splitlines() if line.startswith(family + "{"))
    return {name[len(family) :]: float(value) for name, _, value in rows}


class Load:
    """Requests without a pause until it is told to stop."""

    def __init__(self, port: int) -> None:
        self.replies: list[tuple[float, Reply]] = []
        self._port, self._stop = port, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            at = time.monotonic()
            self.replies += [(at, reply) for reply in ask_many(self._port, 12, 4)]

    def stop(self) -> None:
        """End it."""
        self._stop.set()
        self._thread.join(30)

    def pass_by(self, seconds: float, since: float) -> None:
        """Wait for some seconds, and for so many requests that their shares tell something."""
        time.sleep(seconds)
        until(lambda: len(self.between(since, INF)) >= SHARED)

    def between(self, start: float, end: float) -> list[Reply]:
        """Return the replies to requests sent in that time."""
        return [reply for at, reply in self.replies if start <= at < end]


@pytest.fixture(scope="module")
def engines():
    """Start three engines."""
    started = [Engine(), Engine(), Engine()]
    yield started
    for each in started:
        each.close()


@pytest.fixture(scope="module")
def picker():
    """Start what answers instead of the daemon, as it is told to."""
    started = Picker()
    yield started
    started.close()


@pytest.fixture(scope="module")
def lost(engines, picker, tmp_path_factory):
    """Start a HAProxy that never had a snapshot; it is alive at the end."""
    servers = "".join(f"    server {each.target} {each.target}\n" for each in engines)
    folder = tmp_path_factory.mktemp("lost")
    haproxy = Haproxy(folder, "lua.cfg", {9808: picker.port}, servers, (ATTEMPTS,))
    yield haproxy
    haproxy.stop()


def test_daemon_killed_stopped_and_back_under_load(engines, tmp_path: Path):
    """No request fails; picks go by the snapshot, over all targets, and by the daemon again."""
    udp, port = free_port(), free_port()
    found = tmp_path / "targets.json"
    found.write_text(json.dumps([{"targets": [each.target for each in engines]}]))
    config = {
        "global": {"scrape_interval": "200ms", "scrape_timeout": "150ms"},
        "pools": [{"name": "chat", "file_sd_configs": [{"files": [str(found)]}]}],
        "feedback": {"udp": {"listen": f"127.0.0.1:{udp}"}},
    }
    address = ("--web.listen-address", f"127.0.0.1:{port}")
    daemons = [DaemonProcess(tmp_path, config, *address)]
    until(lambda: answers(port))
    haproxy = Haproxy(tmp_path, "lua.cfg", {9808: port, 9809: udp})
    time.sleep(2.5)  # a snapshot in every thread, and scores
    load, marks = Load(haproxy.port), [time.monotonic()]
    try:
        time.sleep(1.5)
        daemons[0].signal(signal.SIGSTOP)
        marks.append(time.monotonic())
        load.pass_by(2.0, marks[-1])
        daemons[0].signal(signal.SIGCONT)
        marks.append(time.monotonic())
        time.sleep(2)
        daemons[0].process.kill()
        marks.append(time.monotonic())
        load.pass_by(2.0, marks[-1])
        # The new one knows no target at first, which is no reason to refuse anybody.
        away = found.rename(tmp_path / "away.json")
        daemons.append(DaemonProcess(tmp_path, config, *address))
        until(lambda: has_no_target(port))
        time.sleep(1.2)  # long enough to look at its snapshot
        away.rename(found)
        until(lambda: answers(port))
        marks.append(time.monotonic())
        before = counts(haproxy, "gateway_picks_total")['{by="daemon"}']
        until(lambda: counts(haproxy, "gateway_picks_total")['{by="daemon"}'] > before + 20, 5)
        load.stop()
        assert [reply for _, reply in load.replies if not reply.complete] == []
        check(engines, load, marks)
        check_picks(haproxy)
        haproxy.stop()
    finally:
        load.stop()
        haproxy.kill()
        for each in daemons:
            each.process.kill()
            each.process.wait(5)


def check(engines: list[Engine], load: Load, marks: list[float]) -> None:
    """Assert that requests were as fast and as spread while the daemon stood still or was dead."""
    usual = [*load.between(*marks[0:2]), *load.between(*marks[2:4]), *load.between(marks[4], INF)]
    normal = statistics.median(reply.first for reply in usual)
    for start, end in ((marks[1], marks[2]), (marks[3], marks[4])):
        during = load.between(start, end)
        assert statistics.median(reply.first for reply in during) < normal + BUDGET
        spread = Counter(reply.engine for reply in during)
        assert len(spread) == len(engines)
        assert min(spread.values()) > len(during) / 10


def check_picks(haproxy: Haproxy) -> None:
    """Assert that picks went by the snapshot, and nearly all were spared a wait."""
    picks = counts(haproxy, "gateway_picks_total")
    assert picks['{by="snapshot"}'] > 50
    assert '{by="nobody"}' not in picks
    misses = counts(haproxy, "gateway_pick_misses_total")
    assert misses['{reason="skipped"}'] > 3 * misses.get('{reason="timeout"}', 0)


def answers(port: int) -> bool:
    """Whether a daemon on that port is ready."""
    try:
        return requests.get(f"http://127.0.0.1:{port}/-/ready", timeout=1).status_code == 200
    except requests.RequestException:
        return False


def has_no_target(port: int) -> bool:
    """Whether a daemon on that port answers picks, and names nobody."""
    try:
        return requests.get(f"http://127.0.0.1:{port}/pick", timeout=1).status_code == 503
    except requests.RequestException:
        return False


@pytest.mark.parametrize(
    "way", ["refuses", "hangs", "hangs_up", "fails", "half", "nonsense", "slow", "no_pool", "name"]
)
def test_daemon_out_of_its_mind_fails_open(lost: Haproxy, picker: Picker, engines, way: str):
    """Without a snapshot requests go to the servers in the file, after a short wait at most."""
    # On a busy machine one request may take long by itself: of several rounds one must be quick.
    assert any(is_quick(lost, picker, engines, way) for _ in range(3))


def is_quick(lost: Haproxy, picker: Picker, engines: list[Engine], way: str) -> bool:
    """Return whether a picker that goes wrong costs little time; be sure that all are answered."""
    picker.way, picker.target = "picks", engines[0].target
    until(lambda: {ask(lost.port).engine for _ in range(6)} == {picker.target})
    usual = [ask(lost.port).first for _ in range(25)]
    picker.way = way
    replies = [ask(lost.port) for _ in range(25)]
    assert [reply for reply in replies if not reply.complete] == []
    assert len({reply.engine for reply in replies}) > 1
    # Each fails by itself until the third; every thread has its own count.
    first = [reply.first for reply in replies]
    median = statistics.median(first) < statistics.median(usual) + BUDGET
    return median and max(first) < max(usual) + 1.0


def test_daemon_whose_connections_are_dropped_costs_no_request(engines, tmp_path: Path):
    """Connecting is part of what a pick may take."""
    servers = "".join(f"    server {each.target} {each.target}\n" for each in engines)
    with blackhole() as port:
        haproxy = Haproxy(tmp_path, "lua.cfg", {9808: port}, servers)
        try:
            replies = [ask(haproxy.port) for _ in range(25)]
            misses = counts(haproxy, "gateway_pick_misses_total")
        finally:
            haproxy.stop()
    assert [reply for reply in replies if not reply.complete] == []
    assert statistics.median(reply.first for reply in replies) < BUDGET
    assert misses['{reason="timeout"}'] >= 3


def test_attempt_without_a_pick_goes_to_the_servers_in_the_file(lost: Haproxy):
    """As when a client leaves before there is one; HAProxy must not ask itself."""
    for headers in ({}, {"x_scorer_pick": ""}, {"x_scorer_pick": "- - - 0 nobody - - - -"}):
        assert ask(lost.ports[9811], **headers).complete


def test_requests_that_the_daemon_refuses_do_not_keep_others_from_asking(
    lost: Haproxy, picker: Picker, engines
):
    """A client may ask for any model; that the daemon knows none of them is no outage."""
    picker.target = engines[0].target

    def all_ask() -> bool:
        picker.way = "picks"
        until(lambda: {ask(lost.port).engine for _ in range(6)} == {picker.target})
        picker.way = "refuses_this"
        before = picker.asked
        for _ in range(25):
            ask(lost.port)
        return picker.asked == before + 25

    # On a busy machine three answers in a row may be late, which is an outage.
    assert any(all_ask() for _ in range(4))


def test_connections_for_picks_are_kept(lost: Haproxy, picker: Picker, engines):
    """Though they are idle for longer than a pick may take."""
    picker.target, picker.way = engines[0].target, "picks"
    until(lambda: {ask(lost.port).engine for _ in range(6)} == {picker.target})
    asked, askers = picker.asked, len(picker.askers)
    while picker.asked < asked + 30:
        time.sleep(0.03)
        ask(lost.port)
    # A busy machine may be late for a pick, which costs its connection.
    assert len(picker.askers) < askers + 15


def test_target_that_does_not_exist_is_passed_by(lost: Haproxy, picker: Picker, engines):
    """A daemon that names a dead address costs a refused connection, not a request."""
    time.sleep(1.1)  # the breaker's second
    picker.way = "dead"
    before = picker.asked
    replies = [ask(lost.port) for _ in range(25)]
    assert picker.asked > before
    assert [reply for reply in replies if not reply.complete] == []


def test_picker_that_is_back_is_asked_again(lost: Haproxy, picker: Picker, engines):
    """Within a second or two: not as many naps as four seconds have."""
    picker.way = "refuses"
    for _ in range(10):
        ask(lost.port)
    picker.target = engines[1].target
    picker.way = "picks"

    def back() -> bool:
        return {ask(lost.port).engine for _ in range(6)} == {picker.target}

    for _ in range(80):
        if back():
            return
        time.sleep(0.05)
    pytest.fail("the picker is not asked")
