"""A connection of the interface on a wire that remembers what was written."""

import asyncio
import contextlib
import errno
import os

import uvicorn
from uvicorn.server import ServerState

from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.pick import PickEndpoint
from scorer.http.protocol import connections_for
from tests.http.builders import chat, ports

PICK = b"GET /pick HTTP/1.1\r\nHost: x\r\n\r\n"


class Sock:
    """A socket with an address of its own and one of the client; None when that is gone."""

    def __init__(self, ours, theirs):
        self.getsockname = lambda: ours
        self._theirs = theirs

    def getpeername(self):
        if self._theirs is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._theirs


class Wire:
    """A transport that remembers what was written."""

    def __init__(self, sock=None):
        self.sock = sock
        self.written, self.closed, self.aborted, self.buffered = [], False, False, 0
        self.ended, self.reading, self.fills = False, True, None

    def get_extra_info(self, name, default=None):
        return self.sock if name == "socket" else default

    def write(self, data):
        assert not self.ended
        self.written.append(data)
        if self.fills is not None:
            self.fills()

    def can_write_eof(self):
        return True

    def write_eof(self):
        self.ended = True

    def close(self):
        self.closed = True

    def abort(self):
        self.aborted = True

    def is_closing(self):
        return self.closed or self.aborted

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def get_write_buffer_size(self):
        return self.buffered

    @property
    def sent(self):
        return b"".join(self.written)


@contextlib.contextmanager
def connected(sock=None, **changes):
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
    wire = Wire(sock)

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
