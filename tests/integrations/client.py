"""A client of a proxy: one POST over a connection that may be used again."""

import asyncio
import json
import time
from dataclasses import dataclass, field


@dataclass
class Reply:
    """What came: ``took`` seconds in all, ``first`` until the head; status 0 for nothing."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    first: float = 0.0
    took: float = 0.0

    @property
    def engine(self) -> str:
        """Who answered."""
        return self.headers.get("x-engine", "")

    @property
    def complete(self) -> bool:
        """Whether it is a stream to its end."""
        return self.status == 200 and self.body.endswith(b"data: [DONE]\n\n")


class Connection:
    """A connection to a proxy on loopback."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(
        self, size: int = 100, path: str = "/v1/chat/completions", **headers: str
    ) -> None:
        """Send a request with a body of about ``size`` bytes."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
        prompt = {"model": "m", "stream": True, "messages": [{"role": "user", "content": ""}]}
        prompt["messages"] = [
            {"role": "user", "content": "x" * max(0, size - len(json.dumps(prompt)))}
        ]
        body = json.dumps(prompt).encode()
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\n{lines}content-length: {len(body)}\r\n\r\n"
        self._streams[1].write(head.encode() + body)
        await self._streams[1].drain()

    async def receive(self) -> Reply:
        """Return the answer, as far as it comes."""
        assert self._streams is not None
        reader, began, reply = self._streams[0], time.monotonic(), Reply()
        try:
            lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            reply.first = time.monotonic() - began
            reply.status = int(lines[0].split(" ")[1])
            pairs = (line.partition(":") for line in lines[1:] if line)
            reply.headers = {name.lower(): value.strip() for name, _, value in pairs}
            if reply.headers.get("transfer-encoding") == "chunked":
                while size := int(await reader.readline(), 16):
                    reply.body += (await reader.readexactly(size + 2))[:-2]
                await reader.readline()
            else:
                size = int(reply.headers.get("content-length", 0))
                reply.body = await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            self.close()
        reply.took = time.monotonic() - began
        if reply.headers.get("connection") == "close":
            self.close()
        return reply

    async def head(self, end: bytes = b"\r\n\r\n") -> None:
        """Read no further than the first bytes of the answer, up to ``end``."""
        assert self._streams is not None
        await self._streams[0].readuntil(end)

    async def ask(self, size: int = 100, **headers: str) -> Reply:
        """Return the answer to one request."""
        await self.send(size, **headers)
        return await self.receive()

    def close(self) -> None:
        """Leave."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


def ask(port: int, size: int = 100, **headers: str) -> Reply:
    """Return the answer to one request on a connection of its own."""
    return asyncio.run(_once(port, size, headers))


async def _once(port: int, size: int, headers: dict[str, str]) -> Reply:
    connection = Connection(port)
    try:
        return await asyncio.wait_for(connection.ask(size, **headers), 30)
    finally:
        connection.close()


def ask_many(port: int, count: int, at_once: int = 8, size: int = 100) -> list[Reply]:
    """Return the answers to ``count`` requests, ``at_once`` at a time on kept connections."""

    async def worker(left: list[int]) -> list[Reply]:
        connection, replies = Connection(port), []
        while left:
            left.pop()
            replies.append(await asyncio.wait_for(connection.ask(size), 30))
        connection.close()
        return replies

    async def run() -> list[Reply]:
        left = [0] * count
        done = await asyncio.gather(*(worker(left) for _ in range(at_once)))
        return [reply for replies in done for reply in replies]

    return asyncio.run(run())
