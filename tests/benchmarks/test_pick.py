"""The pick benchmark: what it computes from its rounds, and that its page is generated."""

import json
import os
import socket
from pathlib import Path

import pytest

from benchmarks.pick.measure import Probe, cpu_used, get
from benchmarks.pick.pages import answer_with
from benchmarks.pick.report import markdown
from benchmarks.pick.run import PAGE, ROUTES, daemon, medians

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def probe(requests: int, cpu: float, p99: float = 1.0) -> Probe:
    return Probe(requests=requests, seconds=2.0, p50=0.5, p99=p99, cpu=cpu)


def test_rate_is_the_median_of_the_rounds():
    """One noisy round moves the lower extreme only."""
    told = medians([probe(200, 1.0), probe(10, 1.0), probe(220, 1.0)], [probe(1, 1.0)], 0.0)
    assert (told["per_second_low"], told["per_second"], told["per_second_high"]) == (5, 100, 110)


def test_net_cpu_leaves_out_what_scraping_costs():
    """Half a core of scraping over two seconds is one of the two CPU seconds used."""
    told = medians([probe(1000, 2.0)], [probe(1, 1.0)], 0.5)
    assert (told["cpu"], told["cpu_net"]) == pytest.approx((2000.0, 1000.0))


def test_cpu_of_a_process_is_user_and_kernel_time():
    """What ``/proc`` says of this process agrees with what the process knows, to two ticks."""
    times = os.times()
    assert cpu_used(os.getpid()) == pytest.approx(times.user + times.system, abs=0.02)


def test_stand_in_sends_the_page_whole():
    """The head tells the length of the page, and the page follows it unchanged."""
    head, _, body = answer_with(b"a 1\n").partition(b"\r\n\r\n")
    assert (b"content-length: 4" in head, body) == (True, b"a 1\n")


@pytest.mark.system
def test_every_route_answers():
    """The routes to compare still fit the daemon, and the Flask one answers a whole pick."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with daemon(2, port, PAGE, 100.0) as target:
        told = {route: get(target, path) for route, path in ROUTES.items()}
    assert {route: status for route, (status, _) in told.items()} == dict.fromkeys(ROUTES, 200)
    keys = {route: set(json.loads(body)) for route, (_, body) in told.items()}
    assert keys["pick through Flask"] == keys["/pick"]


def test_committed_page_shows_the_committed_numbers():
    """The page is generated from the numbers beside it, not edited."""
    told = json.loads((RESULTS / "pick.json").read_text())
    assert (RESULTS / "pick.md").read_text() == markdown(told["environment"], told["lines"])
