"""The sweep: connections whose client keeps them waiting, and what all may hold together."""

import asyncio

from uvicorn.server import ServerState

from scorer.http import sweep
from scorer.http.sweep import (
    MOST_HELD,
    REQUEST_BYTES,
    STALLED_AFTER,
    UNREAD_AT_MOST,
    close_overdue,
    held_bytes,
    overdue,
    relieve,
)
from tests.http.wire import PICK, connected, feed

IDLE = 75.0


def at(seconds, **fields):
    """Return whether a connection in a state of ``fields`` is overdue after some seconds."""
    with connected() as (connection, wire, _):
        wire.buffered = fields.pop("buffered", 0)
        for name, value in fields.items():
            setattr(connection, name, value)
        return overdue(connection, connection.since + seconds, IDLE)


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
        assert not overdue(connection, start, IDLE)
        assert overdue(connection, start + UNREAD_AT_MOST + 1.0, IDLE)


def test_client_that_reads_starts_anew():
    """An answer read in time ends its count."""
    with connected() as (connection, wire, _):
        start = connection.since
        wire.buffered = 1000
        overdue(connection, start, IDLE)
        wire.buffered = 0
        overdue(connection, start + UNREAD_AT_MOST - 1.0, IDLE)
        wire.buffered = 1000
        assert not overdue(connection, start + UNREAD_AT_MOST + 5.0, IDLE)


def test_answer_under_way_is_waited_for():
    """A long poll is no idle connection."""

    class Answering:
        response_complete = False
        disconnected = False
        message_event = asyncio.Event()

    assert not at(10 * IDLE, cycle=Answering())


def test_overdue_connections_are_closed(monkeypatch):
    """The sweep closes them and leaves the others."""
    monkeypatch.setattr(sweep, "SWEEP_EVERY", 0.001)
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


def test_connection_that_is_held_back_is_not_to_blame():
    """While nothing is read from a client, it cannot finish its request."""
    assert not at(STALLED_AFTER + 1.0, mid_request=True, held=True)


def test_reader_that_keeps_up_is_never_overdue():
    """A client whose buffer is never seen empty has still read what was written before."""
    with connected() as (connection, wire, _):
        start, wire.buffered = connection.since, 1000
        for second in range(60):
            connection.sent += 1000
            assert not overdue(connection, start + second, IDLE)


def test_trickling_reader_is_overdue():
    """A byte a second does not make an answer read."""
    with connected() as (connection, wire, _):
        start, wire.buffered = connection.since, 100_000
        connection.sent = 100_000
        late = []
        for second in range(int(UNREAD_AT_MOST) + 2):
            wire.buffered -= 1
            late.append(overdue(connection, start + second, IDLE))
        assert late[-1]
        assert not any(late[:-2])


def test_what_a_connection_holds():
    """Half a request, what stands in line, what came ahead, what was not read."""
    with connected() as (connection, wire, loop):
        assert held_bytes(connection) == 0
        connection.data_received(b"GET /pick HTTP/1.1\r\nx: ")
        assert held_bytes(connection) == 23
        wire.buffered = 1000
        connection.pending = b"x" * 100
        assert held_bytes(connection) == 1123
        connection.pending = b""
        feed(connection, loop, b"y\r\n\r\n")
        assert held_bytes(connection) == 1000
        connection.pipeline.extend([None, None])
        assert held_bytes(connection) == 1000 + 2 * REQUEST_BYTES
        connection.pipeline.clear()


def test_oldest_are_cut_when_all_hold_too_much():
    """Until the rest is within the bound, and nobody is when it is."""
    with (
        connected() as (old, one, _),
        connected() as (older, two, _),
        connected() as (new, three, _),
    ):
        half = MOST_HELD // 2
        relieve([(9.0, half, new), (2.0, half, older)])
        assert not two.aborted
        relieve([(9.0, half, new), (5.0, half, old), (2.0, half, older)])
        assert [one.aborted, two.aborted, three.aborted] == [False, True, False]


def test_body_of_a_pick_is_not_held():
    """It is thrown away as it comes."""
    with connected() as (connection, _, loop):
        feed(connection, loop, b"POST /pick HTTP/1.1\r\nContent-Length: 99999\r\n\r\n" + PICK * 100)
        assert connection.mid_request
        assert held_bytes(connection) == 0
