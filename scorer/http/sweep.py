"""Closes connections whose client keeps them waiting, which uvicorn would keep for ever.

Those whose client stops in the middle of a request or of an answer, or never sends
anything; and, when all connections together hold too much, those that have held what
they hold for longest.
"""

import asyncio

from uvicorn.server import ServerState

from scorer.http import protocol
from scorer.http.protocol import Connection

STALLED_AFTER = 10.0
"""Seconds in which a client must have sent a request that it began."""
UNREAD_AT_MOST = 20.0
"""Seconds in which a client must have read what it is sent."""
MOST_HELD = 32 << 20
"""Bytes that all connections together may hold of unfinished requests and unread answers."""
REQUEST_BYTES = 4096
"""Bytes that a request which stands in line takes, whatever its own length; who holds
no more than that is left alone."""
SWEEP_EVERY = 1.0
SWEPT_AT_ONCE = 200
"""Connections that are looked at before anything else gets its turn."""


def overdue(connection: Connection, now: float, idle: float) -> bool:
    """Return whether the client has kept the connection waiting for too long.

    ``idle`` is the seconds that it may keep quiet between two requests.
    """
    if unread_for(connection, now) > UNREAD_AT_MOST:
        return True
    since = now - connection.since
    if connection.held:
        return False
    if connection.mid_request:
        return since > STALLED_AFTER
    timed = connection.answering or connection.timeout_keep_alive_task is not None
    return not timed and since > idle


def unread_for(connection: Connection, now: float) -> float:
    """Return the seconds for which the oldest answer has been waiting to be read.

    An answer has been read when as many bytes have left as were written up to it. Looked
    at from time to time, so an answer counts from when it was first seen waiting.
    """
    unread = connection.transport.get_write_buffer_size()
    if not unread:
        connection.unread_since = None
        return 0.0
    since = connection.unread_since
    if since is None or connection.sent - unread >= connection.unread_mark:
        connection.unread_since = since = now
        connection.unread_mark = connection.sent
    return now - since


def held_bytes(connection: Connection) -> int:
    """Return about how many bytes a connection holds for its client."""
    taken = connection.size if connection.collecting else 0
    in_line = len(connection.pipeline) * REQUEST_BYTES
    unread: int = connection.transport.get_write_buffer_size()
    return taken + len(connection.pending) + in_line + unread


async def close_overdue(state: ServerState, idle: float) -> None:
    """Close, again and again, the connections whose client keeps them waiting.

    ``idle`` is the seconds that a connection may be quiet between two requests.
    """
    while True:
        await asyncio.sleep(SWEEP_EVERY)
        now = protocol.monotonic()
        connections = [each for each in state.connections if isinstance(each, Connection)]
        holding: list[tuple[float, int, Connection]] = []
        for place, connection in enumerate(connections, 1):
            if overdue(connection, now, idle):
                connection.cut()
            elif (held := held_bytes(connection)) > REQUEST_BYTES:
                holding.append((connection.since, held, connection))
            if place % SWEPT_AT_ONCE == 0:
                await asyncio.sleep(0)
        relieve(holding)


def cut_all(state: ServerState) -> None:
    """End every connection at once."""
    for connection in list(state.connections):
        if isinstance(connection, Connection):
            connection.cut()


def relieve(holding: list[tuple[float, int, Connection]]) -> None:
    """Abort the oldest of ``(since, bytes, connection)`` until the others hold little enough."""
    total = sum(held for _, held, _ in holding)
    if total <= MOST_HELD:
        return
    for _, held, connection in sorted(holding, key=lambda each: each[0]):
        connection.cut()
        total -= held
        if total <= MOST_HELD:
            return
