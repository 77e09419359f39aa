"""Requests are counted by route, whichever way they are answered."""

import asyncio

import pytest

from scorer.daemon_stats import DaemonStats
from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.pick import PickEndpoint
from scorer.http_stats import HttpStats
from scorer.output_stats import Output
from scorer.serving import watch_lag
from tests.http.builders import chat, ports
from tests.http.harness import _exchange, http_scope, reply
from tests.http.wire import PICK, connected, feed


def served(*requests):
    """Return what was counted of ``(method, path)`` requests to the ASGI application."""
    given = ports(chat(3), listed=lambda name: [] if name == "chat" else None)
    app = build_asgi(given, create_flask(given), PickEndpoint(given))

    async def run():
        for method, path in requests:
            reply(await _exchange(app, http_scope(path, b"", method)))

    asyncio.run(run())
    return given


def some(reading):
    """Return the counts of a reading that are not 0."""
    return {key: count for key, count in reading.requests.items() if count}


@pytest.mark.parametrize(
    ("method", "path", "counted"),
    [
        ("GET", "/", ("/", "GET", 200)),
        ("GET", "/metrics", ("/metrics", "GET", 200)),
        ("GET", "/api/v1/targets/10.0.0.1:8000", ("/api/v1/targets/<target>", "GET", 200)),
        ("GET", "/api/v1/targets/nobody", ("/api/v1/targets/<target>", "GET", 404)),
        ("GET", "/targets/a/b", ("/targets/<target>", "GET", 404)),
        ("GET", "/api/v1/sd/other", ("/api/v1/sd/<pool>", "GET", 404)),
        ("GET", "/static/nothing", ("/static/<filename>", "GET", 404)),
        ("GET", "/made/up", ("other", "GET", 404)),
        ("DELETE", "/metrics", ("other", "DELETE", 405)),
        ("BREW", "/metrics", ("other", "other", 405)),
        ("GET", "/-/healthy", ("/-/healthy", "GET", 200)),
        ("HEAD", "/-/ready", ("/-/ready", "HEAD", 200)),
        ("GET", "/api/v1/snapshot", ("/api/v1/snapshot", "GET", 200)),
        ("GET", "/feedback", ("/feedback", "GET", 405)),
        ("GET", "/pick", ("/pick", "GET", 200)),
        ("GET", "/pick/x", ("/pick", "GET", 200)),
        ("GET", "/picks", ("other", "GET", 404)),
    ],
)
def test_request_counts_under_its_route(method, path, counted):
    """Paths, methods and parameters that a client makes up make no series."""
    reading = served((method, path)).served.read()
    assert some(reading) == {counted: 1}


def test_usual_requests_are_there_from_the_start():
    """So that the first report of a stranger adds no series."""
    reading = HttpStats().read()
    assert reading.requests["/feedback", "POST", 404] == 0
    assert reading.durations["/feedback"].count == 0


def test_requests_add_up():
    """The same route, method and code is one count; durations are by route."""
    reading = served(*[("GET", "/metrics")] * 3, ("HEAD", "/metrics")).served.read()
    assert some(reading) == {("/metrics", "GET", 200): 3, ("/metrics", "HEAD", 200): 1}
    assert reading.durations["/metrics"].count == 4


def test_durations_of_picks_are_not_kept_twice():
    """They are in the histogram of picks, by pool."""
    assert "/pick" not in served(("GET", "/pick")).served.read().durations


def test_short_way_is_counted():
    """Picks that never see the application count as those that do."""
    served = HttpStats()
    with connected(served=served) as (connection, _, loop):
        feed(connection, loop, PICK * 2, PICK.replace(b"/pick", b"/pick?pool=none"))
    assert some(served.read()) == {("/pick", "GET", 200): 2, ("/pick", "GET", 404): 1}


def test_outputs_count_what_they_answered():
    """A pool that does not exist is no answer; every output is there from the start."""
    given = served(("GET", "/api/v1/sd/chat"), ("GET", "/api/v1/sd/none"))
    assert given.outputs.read() == {**dict.fromkeys(Output, 0), Output.HTTP_SD: 1}
    snapshots = served(("GET", "/api/v1/snapshot"), ("POST", "/api/v1/snapshot"))
    assert snapshots.outputs.read()[Output.SNAPSHOT] == 1


def test_lag_of_the_event_loop_is_by_how_much_a_timer_was_late():
    """A timer that comes half a second later than asked for is half a second late."""
    stats, times = DaemonStats(), iter([10.0, 11.0])

    async def run():
        await watch_lag(stats, lambda: next(times))

    with pytest.raises(RuntimeError):  # the clock has run out
        asyncio.run(run())
    assert stats.read().loop_lag == 0.5
