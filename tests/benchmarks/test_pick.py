"""The pick benchmark: what it computes from its rounds, and that its page is generated."""

import json
import os
from pathlib import Path

import pytest

from benchmarks.pick.inside import Inside, get
from benchmarks.pick.measure import Probe, cpu_used, paced
from benchmarks.pick.measure import get as fetch
from benchmarks.pick.paced import PacedError, percentile, whole
from benchmarks.pick.pages import answer_with, cut
from benchmarks.pick.profile import profiled, table
from benchmarks.pick.report import goals, markdown
from benchmarks.pick.run import PAGE, ROUTES, daemon, medians
from benchmarks.pick.shares import share, warm_pool, warming, worse
from tests.system.conftest import free_port

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def probe(requests: int, cpu: float, p99: float = 1.0) -> Probe:
    return Probe(requests=requests, seconds=2.0, p50=0.5, p99=p99, cpu=cpu)


def test_rate_is_the_median_of_the_rounds():
    """One noisy round moves the lower extreme only."""
    told = medians([probe(200, 1.0), probe(10, 1.0), probe(220, 1.0)], 0.0)
    assert (told["per_second_low"], told["per_second"], told["per_second_high"]) == (5, 100, 110)


def test_net_cpu_leaves_out_what_scraping_costs():
    """Half a core of scraping over two seconds is one of the two CPU seconds used."""
    told = medians([probe(1000, 2.0)], 0.5)
    assert (told["cpu"], told["cpu_net"]) == pytest.approx((2000.0, 1000.0))


def test_cpu_of_a_process_is_user_and_kernel_time():
    """What ``/proc`` says of this process agrees with what the process knows, to two ticks."""
    times = os.times()
    assert cpu_used(os.getpid()) == pytest.approx(times.user + times.system, abs=0.02)


def test_stand_in_sends_the_page_whole():
    """The head tells the length of the page, and the page follows it unchanged."""
    head, _, body = answer_with(b"a 1\n").partition(b"\r\n\r\n")
    assert (b"content-length: 4" in head, body) == (True, b"a 1\n")


def test_each_page_of_a_stand_in_has_more_tokens():
    """The count is where the page has it, and the announced length is right."""
    before, tokens, after = cut(PAGE.read_bytes())
    whole_page = before + b"%014d" % (tokens + 1) + after
    head, _, body = whole_page.partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(body) in head
    read = {
        line.partition(b" ")[2]
        for line in body.splitlines()
        if line.startswith(b"vllm:generation_tokens_total{")
    }
    assert {int(value) for value in read} == {tokens + 1}


def test_page_without_tokens_is_served_as_it_is():
    """Other engines' pages have nothing to count up."""
    assert cut(b"a 1\n") == (answer_with(b"a 1\n"), 0, b"")


def test_answer_is_whole_when_its_body_is():
    """A head alone is not, nor half a body; what is no success is an error."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    assert [whole(head[:-1]), whole(head), whole(head + b"ab")] == [False, False, True]
    assert whole(b"HTTP/1.1 204 No Content\r\nx: y\r\n\r\n")
    with pytest.raises(PacedError, match="503"):
        whole(b"HTTP/1.1 503 Service Unavailable\r\n")


def test_percentiles_are_microseconds():
    """Of 1 to 100 ms the median is 51 ms, the 99th percentile 100 ms; of nothing 0."""
    times = [number / 1000 for number in range(100, 0, -1)]
    assert (percentile(times, 0.5), percentile(times, 0.99)) == pytest.approx((51e3, 100e3))
    assert percentile([], 0.5) == 0.0


def test_aims_are_judged_by_the_numbers():
    """What is missed is said to be missed, and what was not measured is not claimed."""
    fast = {"pool": 8, "route": "/pick", "connections": 32, "per_second": 31e3, "cpu_net": 20.0}
    slow = {"pool": 1000, "route": "/pick", "connections": 32, "per_second": 1e3, "cpu_net": 40.0}
    pace = {"pool": 100, "route": "/pick", "asked": 5000.0, "p99": 2100.0}
    told = {"lines": [fast, slow], "paced": [pace]}
    assert [(goal.measured, goal.reached) for goal in goals(told)] == [
        ("31,000/s", True), ("0.50", False), ("2.10 ms", False),
    ]  # fmt: skip
    assert list(goals({"lines": [], "paced": []})) == []


def test_profile_adds_up_to_the_pick():
    """Every function is named with its time, and the last line is the whole."""
    inside = Inside(3)
    lines = profiled(inside, lambda: [get("/pick")] * 50)
    names = " ".join(line.name for line in lines)
    assert "scorer/core/pick.py" in names
    text = table(lines)
    assert f"{sum(line.own for line in lines):5.2f} | 100%" in text


def test_share_of_a_target_follows_its_score():
    """In warm-up and worth less alike: nothing at the bottom, a quarter at the top."""
    pool = warm_pool()
    assert share(pool, warming, 0.0, 1) == share(pool, worse, 80.0, 1) == 0.0
    assert share(pool, warming, 100.0, 1) == pytest.approx(0.25, abs=0.03)
    assert share(pool, worse, 100.0, 1) == pytest.approx(0.25, abs=0.03)


@pytest.mark.system
def test_every_route_answers():
    """The routes to compare still fit the daemon, and the Flask one answers a whole pick."""
    with daemon(2, free_port(), PAGE, 100.0) as target:
        told = {route: fetch(target, path) for route, path in ROUTES.items()}
        pairs = paced(target, ROUTES["/pick"], 200.0, 1.0, feedback=True)
    assert {route: status for route, (status, _) in told.items()} == dict.fromkeys(ROUTES, 200)
    keys = {route: set(json.loads(body)) for route, (_, body) in told.items()}
    assert keys["pick through Flask"] == keys["/pick"]
    assert (pairs.requests, pairs.unanswered) == (200, 0)
    assert pairs.report_p50 > 0.0


def test_committed_page_shows_the_committed_numbers():
    """The page is generated from the numbers beside it, not edited."""
    told = json.loads((RESULTS / "pick.json").read_text())
    assert (RESULTS / "pick.md").read_text() == markdown(told)
