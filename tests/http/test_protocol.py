"""Connections: picks answered where their headers end, and clients that do not go on."""

import asyncio
import contextlib

import pytest
import uvicorn
from uvicorn.server import ServerState

from scorer.http import protocol
from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.pick import PickEndpoint
from scorer.http.protocol import (
    MOST_HEAD_BYTES,
    STALLED_AFTER,
    UNREAD_AT_MOST,
    close_overdue,
    connections_for,
    is_pick,
)
from tests.http.builders import chat, ports

IDLE = 75.0
PICK = b"GET /pick HTTP/1.1\r\nHost: x\r\n\r\n"


class Wire:
    """A transport that remembers what was written."""

    def __init__(self):
        self.written, self.closed, self.aborted, self.buffered = [], False, False, 0

    def get_extra_info(self, _name, default=None):
        return default

    def write(self, data):
        self.written.append(data)

    def close(self):
        self.closed = True

    def abort(self):
        self.aborted = True

    def is_closing(self):
        return self.closed or self.aborted

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass

    def get_write_buffer_size(self):
        return self.buffered

    @property
    def sent(self):
        return b"".join(self.written)


@contextlib.contextmanager
def connected(**changes):
    """Yield a connection of the interface, its wire, and what the event loop has to do."""
    loop = asyncio.new_event_loop()
    given = ports(chat(3), **changes)
    endpoint = PickEndpoint(given)
    config = uvicorn.Config(
        build_asgi(given, create_flask(given), endpoint), http=connections_for(endpoint),
        lifespan="off", log_config=None, access_log=False,
    )  # fmt: skip
    config.load()
    state = ServerState()
    connection = config.http_protocol_class(
        config=config, server_state=state, app_state={}, _loop=loop
    )
    wire = Wire()

    async def connect():
        connection.connection_made(wire)

    loop.run_until_complete(connect())
    try:
        yield connection, wire, loop
    finally:
        connection._unset_keepalive_if_required()
        loop.close()


def feed(connection, loop, *pieces):
    """Give the connection some bytes, and let the loop work."""

    async def run():
        for piece in pieces:
            connection.data_received(piece)
            await asyncio.sleep(0)
        while connection.tasks:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0)

    loop.run_until_complete(run())


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
        assert wire.closed


def test_endless_head_is_431():
    """A header flood cannot grow memory: it ends a little above the bound."""
    with connected() as (connection, wire, _):
        connection.data_received(b"GET /pick HTTP/1.1\r\n")
        for number in range(MOST_HEAD_BYTES // 100 + 2):
            if not wire.closed:
                connection.data_received(f"x-{number}: {'y' * 100}\r\n".encode())
        assert wire.sent.startswith(b"HTTP/1.1 431 ")
        assert wire.closed


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


def at(seconds, **fields):
    """Return whether a connection in a state of ``fields`` is overdue after some seconds."""
    with connected() as (connection, wire, _):
        wire.buffered = fields.pop("buffered", 0)
        for name, value in fields.items():
            setattr(connection, name, value)
        return connection.overdue(connection.since + seconds, IDLE)


def test_half_a_request_is_overdue_after_its_time():
    """A client that stalls in the middle is not waited for."""
    assert at(STALLED_AFTER + 1.0, mid_request=True)
    assert not at(STALLED_AFTER - 1.0, mid_request=True)


def test_quiet_connection_is_overdue_after_the_keep_alive_time():
    """Also one that never asked for anything."""
    assert at(IDLE + 1.0)
    assert not at(IDLE - 1.0)


def test_unread_answer_is_overdue_after_its_time():
    """From when it was first seen unread."""
    with connected() as (connection, wire, _):
        wire.buffered = 1000
        start = connection.since
        assert not connection.overdue(start, IDLE)
        assert connection.overdue(start + UNREAD_AT_MOST + 1.0, IDLE)


def test_client_that_reads_starts_anew():
    """An answer read in time ends its count."""
    with connected() as (connection, wire, _):
        start = connection.since
        wire.buffered = 1000
        connection.overdue(start, IDLE)
        wire.buffered = 0
        connection.overdue(start + 59.0, IDLE)
        wire.buffered = 1000
        assert not connection.overdue(start + 70.0, IDLE)


def test_answer_under_way_is_waited_for():
    """A long poll is no idle connection."""

    class Answering:
        response_complete = False
        disconnected = False
        message_event = asyncio.Event()

    assert not at(10 * IDLE, cycle=Answering())


def test_overdue_connections_are_closed(monkeypatch):
    """The sweep closes them and leaves the others."""
    monkeypatch.setattr(protocol, "SWEEP_EVERY", 0.001)
    with connected() as (stalled, wire, loop), connected() as (fine, other, _):
        state = ServerState()
        state.connections = {stalled, fine, object()}
        stalled.mid_request, stalled.since = True, stalled.since - 100.0

        async def run():
            sweeping = asyncio.ensure_future(close_overdue(state, IDLE))
            while not wire.aborted:  # noqa: ASYNC110 - the wire has no event
                await asyncio.sleep(0.001)
            sweeping.cancel()

        loop.run_until_complete(asyncio.wait_for(run(), 10))
        assert not other.aborted
