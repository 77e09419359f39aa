"""Connections: picks answered where their headers end, and clients that do not go on."""

import asyncio

import pytest

from scorer.http import protocol
from scorer.http.protocol import MOST_FIELDS, MOST_HEAD_BYTES, SLICE, TURN, is_pick, make_room
from tests.http.wire import PICK, Sock, connected, feed
from tests.ordered import A, World


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        (b"/pick", True), (b"/pick?x", True), (b"/pick/v1/chat", True), (b"/pick/", True),
        (b"/picks", False), (b"/pic", False), (b"/", False), (b"", False), (b"/pick#x", False),
        (b"/pick?x#y", False), (b"http://h/pick", False), (b"/%70ick", False), (b"//pick", False),
    ],
)  # fmt: skip
def test_what_a_pick_looks_like(url, wanted):
    """Only what is surely a pick is answered directly; uvicorn takes the rest apart."""
    assert is_pick(url) is wanted


def test_pick_is_one_write_with_everything():
    """Status line, date, headers, body."""
    with connected() as (connection, wire, loop):
        connection.server_state.default_headers = [(b"date", b"today")]
        feed(connection, loop, PICK)
        [answer] = wire.written
        assert answer.startswith(b"HTTP/1.1 200 OK\r\ndate: today\r\nx-scorer-target: ")
        assert answer.endswith(b'"panic":false}')
        assert b"\r\n\r\n{" in answer
        assert not wire.closed


def test_pieces_of_a_request_make_one():
    """Whatever the network cuts a request into, the answer is the same."""
    with connected() as (connection, wire, loop):
        for byte in b"GET /pick?format=text HTTP/1.1\r\nX-Scorer-Pool: chat\r\n\r\n":
            feed(connection, loop, bytes([byte]))
        assert wire.sent.endswith((b"10.0.0.1:8000", b"10.0.0.2:8000", b"10.0.0.3:8000"))


def test_headers_reach_the_pick():
    """Those that a pick can be asked with count, in any case."""
    with connected() as (connection, wire, loop):
        feed(connection, loop, b"GET /pick HTTP/1.1\r\nX-SCORER-Format: headers\r\nA: b\r\n\r\n")
        assert wire.sent.startswith(b"HTTP/1.1 204 No Content\r\n")


def test_connection_closes_when_the_client_wants_it():
    """``Connection: close`` is said and done."""
    with connected() as (connection, wire, loop):
        feed(connection, loop, b"GET /pick HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert b"connection: close\r\n\r\n" in wire.sent
        assert wire.closed


@pytest.mark.parametrize("url", [b"http://h/pick", b"/%70ick", b"/pick#x"])
def test_unusual_url_picks_through_uvicorn(url):
    """Absolute form, escapes, fragment: the same answer on the long way."""
    with connected() as (connection, wire, loop):
        feed(connection, loop, b"GET " + url + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.sent.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"x-scorer-target" in wire.sent


def test_pick_waits_for_the_answer_before_it():
    """Pipelined behind something slower, a pick is answered after it."""
    with connected() as (connection, wire, loop):
        feed(connection, loop, b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n" + PICK)
        sent = wire.sent
        assert sent.index(b"scorer is healthy") < sent.index(b"x-scorer-target")


def test_pick_behind_a_pick_is_direct():
    """Pipelined picks are answered one by one."""
    with connected() as (connection, wire, loop):
        feed(connection, loop, PICK * 3)
        assert len(wire.written) == 3


def test_client_that_does_not_read_is_not_written_to():
    """While the transport is full a pick waits with uvicorn, and is answered in the end."""
    with connected() as (connection, wire, loop):
        connection.pause_writing()
        connection.data_received(PICK)
        assert wire.written == []
        connection.resume_writing()
        feed(connection, loop)
        assert b"x-scorer-target" in wire.sent


def test_body_of_a_pick_is_ignored():
    """It is not read, and the next request starts behind it."""
    with connected() as (connection, wire, loop):
        post = b"POST /pick/v1 HTTP/1.1\r\nContent-Length: 5\r\n\r\n"
        feed(connection, loop, post, b"hello", PICK)
        assert wire.sent.count(b"HTTP/1.1 200 OK") == 2


def test_garbage_is_400():
    """Bytes that are no HTTP get an answer and the end of the connection."""
    with connected() as (connection, wire, loop):
        feed(connection, loop, b"\x16\x03\x01\x02\x00")
        assert wire.sent.startswith(b"HTTP/1.1 400 ")
        assert wire.ended


def test_endless_head_is_431():
    """A header flood cannot grow memory: it ends a little above the bound."""
    with connected() as (connection, wire, _):
        connection.data_received(b"GET /pick HTTP/1.1\r\n")
        for number in range(MOST_HEAD_BYTES // 100 + 2):
            connection.data_received(f"x: {number:>95}\r\n".encode())
        assert wire.sent.startswith(b"HTTP/1.1 431 ")
        assert wire.ended


@pytest.mark.parametrize("path", [b"/pick?model=", b"/nothing?x="])
def test_long_query_is_answered(path):
    """Ten kilobytes are a request like any other."""
    with connected() as (connection, wire, loop):
        query = b"m" * 10_000
        connection.data_received(b"GET " + path + query + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        if path.startswith(b"/pick"):
            assert wire.sent.startswith(b"HTTP/1.1 200 OK")
        for task in list(connection.tasks):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))


def test_head_of_many_fields_is_431():
    """Small fields cost far more memory than bytes, so their number is bounded too."""
    with connected() as (connection, wire, _):
        connection.data_received(b"GET /nothing HTTP/1.1\r\n" + b"a:\r\n" * (MOST_FIELDS + 2))
        assert wire.sent.startswith(b"HTTP/1.1 431 ")
        assert wire.ended


@pytest.mark.parametrize("path", [b"/pick", b"/nothing"])
def test_endless_trailers_end_the_connection(path):
    """What follows a chunked body is not kept, and is bounded like a head."""
    with connected() as (connection, wire, loop):
        head = b"POST " + path + b" HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.data_received(head + b"1\r\nx\r\n0\r\n")
        kept = len(connection.headers)
        for number in range(MOST_HEAD_BYTES // 100 + 2):
            connection.data_received(f"x-scorer-key: {number:>90}\r\n".encode())
        assert len(connection.headers) == kept
        assert wire.closed or wire.ended
        connection.connection_lost(None)
        feed(connection, loop)


def test_refused_client_is_read_for_a_moment_and_then_cut(monkeypatch):
    """Its connection ends in order, so that it sees why, and what it sends on is dropped."""
    with connected() as (connection, wire, loop):
        monkeypatch.setattr(loop, "call_later", lambda _, run: loop.call_soon(run))
        connection.data_received(b"no http\r\n\r\n" + PICK)
        assert wire.ended
        assert not wire.closed
        connection.data_received(PICK)
        assert wire.sent.count(b"HTTP/1.1") == 1
        feed(connection, loop)
        assert wire.aborted


def test_unread_picks_stop_the_reading():
    """A client that sends picks and reads none is answered to the brim, then not read."""
    with connected() as (connection, wire, loop):
        wire.fills = lambda: len(wire.written) == 3 and connection.pause_writing()
        connection.data_received(PICK * 5000)
        slice_of_picks = SLICE // len(PICK) + 1
        assert 3 <= len(wire.written) <= slice_of_picks
        assert not wire.reading
        assert len(connection.pending) > 4900 * len(PICK)
        assert not connection.pipeline
        connection.resume_writing()
        while connection.held:
            feed(connection, loop)
        assert len(wire.written) == 5000
        assert (wire.reading, connection.pending) == (True, b"")


def test_requests_in_line_are_few():
    """Of pages that are asked for at once no more than a slice stands in line."""
    with connected() as (connection, wire, loop):
        request = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n"
        longest = 0

        async def run():
            nonlocal longest
            connection.data_received(request * 1000)
            while wire.sent.count(b"scorer is healthy") < 1000:
                longest = max(longest, len(connection.pipeline))
                await asyncio.sleep(0)

        loop.run_until_complete(asyncio.wait_for(run(), 20))
        assert 0 < longest <= 2 * (SLICE // len(request) + 1)
        assert wire.reading


def test_nothing_is_answered_after_the_last_answer():
    """Requests behind ``Connection: close`` are not looked at."""
    with connected() as (connection, wire, loop):
        last = b"GET /pick HTTP/1.1\r\nConnection: close\r\n\r\n"
        feed(connection, loop, last + PICK * 200)
        assert wire.sent.count(b"HTTP/1.1 200") == 1
        assert wire.closed


def test_upgrade_is_answered_as_if_not_asked_for():
    """Also what comes behind it in the same packet."""
    with connected() as (connection, wire, loop):
        upgrade = b"GET /pick HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        feed(connection, loop, upgrade + PICK)
        assert wire.sent.count(b"HTTP/1.1 200") == 2


def test_too_many_connections_cost_the_quietest_first():
    """Who is in the middle of something stays, and so does who came last."""
    with (
        connected() as (busy, one, _),
        connected() as (old, two, _),
        connected() as (new, three, _),
    ):
        busy.mid_request, busy.since = True, busy.since - 100.0
        old.since -= 50.0
        make_room([busy, old, new])
        assert [one.aborted, two.aborted, three.aborted] == [False, True, False]


def test_client_that_is_gone_is_no_failure(caplog):
    """A pick whose answer cannot be sent any more says nothing and harms nobody."""
    with connected() as (connection, wire, loop):

        def broken(_):
            raise RuntimeError("the handler is closed")

        connection.data_received(b"GET /%70ick HTTP/1.1\r\nHost: x\r\n\r\n")
        wire.write = broken
        feed(connection, loop)
        assert "Exception" not in caplog.text
        assert "Traceback" not in caplog.text


def test_flood_takes_turns():
    """Of thousands of picks that come at once a few are answered before others get their turn."""
    with connected() as (connection, wire, _):
        connection.data_received(PICK * 5000)
        assert TURN <= len(wire.written) < TURN + SLICE // len(PICK)


def test_time_held_is_not_the_clients(monkeypatch):
    """A request whose bytes wait here is not late for it."""
    with connected() as (connection, _, loop):
        connection.data_received(b"GET /pick HTTP/1.1\r\n")
        connection.pause_writing()
        since, held_at = connection.since, connection.held_at
        monkeypatch.setattr(protocol, "monotonic", lambda: held_at + 100.0)
        connection.resume_writing()
        feed(connection, loop)
        assert connection.since - since == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "status"),
    [
        (("10.0.0.9", 9808), ("127.0.0.1", 5000), b"200"),
        (("10.0.0.9", 9808), ("10.0.0.1", 5000), b"403"),
        (("10.0.0.9", 9808), None, b"403"),
        (("fd00::9", 9808, 0, 0), None, b"403"),
        ("/run/scorer/scorer.sock", "", b"200"),
        ("/run/scorer/scorer.sock", None, b"200"),
    ],
    ids=["loopback", "elsewhere", "gone", "gone-ipv6", "unix", "gone-unix"],
)
def test_whose_orders_are_taken_without_a_token(ours, theirs, status):
    """Those of this machine; a client that sent one and is gone might have been anybody."""
    world = World()
    changes = {
        "snapshot": lambda: world.registry.snapshot, "clocks": world.clocks,
        "operators": world.operators,
    }  # fmt: skip
    order = (
        b"POST /api/v1/targets/%b/drain HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 2\r\n\r\n{}" % A.encode()
    )
    with connected(Sock(ours, theirs), **changes) as (connection, wire, loop):
        feed(connection, loop, order)
        assert wire.sent.startswith(b"HTTP/1.1 " + status), wire.sent
