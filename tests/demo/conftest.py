import asyncio
import json
import socket
from contextlib import asynccontextmanager

import pytest


def _answer(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


class Stub:
    """A canned HTTP server: answers each path with what ``respond`` returns, keeps count.

    ``respond`` returns status and body, or raw bytes, or None to close the connection.
    """

    def __init__(self, respond) -> None:
        self._respond = respond
        self.address = ""
        self.connections = 0
        self.paths: list[str] = []
        self._handlers = set()
        self._writers = []

    async def handle(self, reader, writer) -> None:
        """Answer requests on one connection until it is closed."""
        self.connections += 1
        self._handlers.add(asyncio.current_task())
        self._writers.append(writer)
        try:
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
                self.paths.append(path)
                match self._respond(path):
                    case None:
                        return
                    case bytes() as raw:
                        writer.write(raw)
                    case (status, body):
                        writer.write(_answer(status, body))
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def close(self) -> None:
        """Close every connection and wait until its handler has seen it."""
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._handlers)


@asynccontextmanager
async def _stubbed(respond):
    stub = Stub(respond)
    server = await asyncio.start_server(stub.handle, "127.0.0.1", 0)
    stub.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield stub
    finally:
        server.close()
        await stub.close()


@pytest.fixture
def stubbed():
    """Return an async context manager that serves a ``respond`` function on loopback."""
    return _stubbed


@pytest.fixture
def picking():
    """Return a ``respond`` function that picks the given targets, the first one first."""

    def respond_with(target: str, *alternates: str):
        answer = {"target": target, "alternates": alternates}
        return lambda _path: (200, json.dumps(answer).encode())

    return respond_with


@pytest.fixture
def dead_address():
    """Return an address that refuses connections: bound by this test, but not listening."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{reserved.getsockname()[1]}"
