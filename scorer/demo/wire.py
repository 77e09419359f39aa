"""A minimal asyncio HTTP/1.1 client for the demo: keep-alive and streamed answers.

httptools parses; every way a connection can fail is an OSError to the caller.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import httptools

READ_SIZE = 65_536


class _Answer:
    """One answer as far as it has come; the parser calls the ``on_`` methods."""

    def __init__(self) -> None:
        self.headed = False
        self.complete = False
        self.keep_alive = False
        self.body: list[bytes] = []
        self.parser = httptools.HttpResponseParser(self)

    def on_headers_complete(self) -> None:
        self.headed = True
        # The parser forgets what the headers said when the message is complete.
        self.keep_alive = self.parser.should_keep_alive()

    def on_body(self, part: bytes) -> None:
        self.body.append(part)

    def on_message_complete(self) -> None:
        self.complete = True


class Connection:
    """One connection to ``address`` (``host:port``), one request at a time."""

    def __init__(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._address = address
        self._reader = reader
        self._writer = writer
        self._answer = _Answer()
        self._reusable = True

    @classmethod
    async def open(cls, address: str) -> Self:
        """Connect; raises OSError when that fails."""
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        return cls(address, reader, writer)

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent on this connection."""
        return self._reusable and not self._reader.at_eof()

    async def request(self, method: str, path: str, body: bytes = b"") -> int:
        """Send a request and return the status of its answer. Raises OSError."""
        self._answer = _Answer()
        self._reusable = False
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._address}\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self._writer.write(f"{head}\r\n".encode() + body)
        await self._writer.drain()
        while not self._answer.headed:
            await self._feed()
        return self._answer.parser.get_status_code()

    async def body(self) -> AsyncGenerator[bytes]:
        """Yield the parts of the answer's body as they come. Raises OSError."""
        while True:
            parts, self._answer.body = self._answer.body, []
            for part in parts:
                yield part
            if self._answer.complete:
                self._reusable = self._answer.keep_alive
                return
            await self._feed()

    async def close(self) -> None:
        """Close the connection, whatever state it is in."""
        self._writer.close()

    async def _feed(self) -> None:
        data = await self._reader.read(READ_SIZE)
        if not data:
            raise ConnectionResetError(f"{self._address} closed the connection mid-answer")
        try:
            self._answer.parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise ConnectionAbortedError(f"{self._address} sent no HTTP: {error}") from None


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Connection]:
    """Open a connection for the length of a ``with`` block."""
    connection = await Connection.open(address)
    try:
        yield connection
    finally:
        await connection.close()


class KeepAlive:
    """Short GET requests to one address over connections kept open within a ``with`` block."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._idle: list[Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def get(self, path: str) -> tuple[int, bytes]:
        """Return status and body. Raises OSError."""
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                try:
                    return await self._exchange(connection, path)
                except OSError:
                    # The server may close an idle connection at any moment.
                    continue
        return await self._exchange(await Connection.open(self._address), path)

    async def _exchange(self, connection: Connection, path: str) -> tuple[int, bytes]:
        try:
            status = await connection.request("GET", path)
            body = b"".join([part async for part in connection.body()])
        finally:
            if connection.reusable:
                self._idle.append(connection)
            else:
                await connection.close()
        return status, body
