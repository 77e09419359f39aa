"""Engines for tests of proxies: they stream, refuse and break off on demand, and keep count."""

import asyncio
import contextlib
import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from tests.system.conftest import page

ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":" tok"}}]}\n\n'
DONE = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
SATURATED = (429, b'{"error":{"message":"KV cache exhausted, retry later","type":"overloaded"}}')
BUSY = (503, b'{"error":{"message":"The engine is currently busy: queue is full"}}')
CLIENT_KEY = (
    429,
    b'{"error":{"message":"Rate limit reached for your API key","code":"rate_limit_exceeded"}}',
)


@dataclass
class Behaviour:
    """How an engine answers: ``refusal`` is status and body, times are seconds."""

    refusal: tuple[int, bytes] | None = None
    broken: bool = False
    head_after: float = 0.0
    first_after: float = 0.0
    tokens: int = 3
    gap: float = 0.0


@dataclass
class Seen:
    """A request as the engine saw it; ``ttft`` is its own time to first token."""

    headers: dict[str, str]
    size: int
    ttft: float | None = None
    aborted: bool = False
    finished: bool = False


@dataclass
class StreamingEngine:
    """An engine on loopback (``host`` may be IPv6), on an event loop of its own."""

    host: str = "127.0.0.1"
    does: Behaviour = field(default_factory=Behaviour)
    seen: "deque[Seen]" = field(default_factory=lambda: deque(maxlen=20_000))

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), daemon=True).start()
        assert started.wait(10)

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, self.host, 0, limit=1 << 22)
        )
        self.port = self._server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()

    @property
    def target(self) -> str:
        """Its name as a target."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def close(self) -> None:
        """Refuse connections from here on; requests under way are cut."""

        async def end() -> None:
            self._server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._exchange(reader, writer):
                pass
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head.split("\r\n")
        pairs = (each.partition(":") for each in rest if each)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        size = await _body(reader, headers)
        if line.startswith("GET /metrics"):
            _whole(writer, 200, page().encode(), "text/plain; version=0.0.4")
            await writer.drain()
            return True
        seen = Seen(headers, size)
        self.seen.append(seen)
        if self.does.broken:
            return False
        if self.does.refusal:
            _whole(writer, *self.does.refusal, "application/json")
            await writer.drain()
            return True
        try:
            await self._stream(seen, reader, writer)
        except (OSError, asyncio.CancelledError):
            seen.aborted = True
            raise
        return True

    async def _stream(
        self, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        does, began = self.does, time.monotonic()
        await self._pause(does.head_after, reader)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + _chunk(ROLE)
        )
        await writer.drain()
        await self._pause(does.first_after, reader)
        for number in range(does.tokens):
            if number:
                await self._pause(does.gap, reader)
            writer.write(_chunk(TOKEN))
            await writer.drain()
            seen.ttft = seen.ttft or time.monotonic() - began
        writer.write(_chunk(DONE) + b"0\r\n\r\n")
        await writer.drain()
        seen.finished = True

    @staticmethod
    async def _pause(seconds: float, reader: asyncio.StreamReader) -> None:
        """Wait, and notice a proxy that hangs up."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            await asyncio.sleep(min(0.01, left))
            if reader.at_eof():
                raise ConnectionResetError


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> int:
    """Read the body and return its length."""
    if "content-length" in headers:
        return len(await reader.readexactly(int(headers["content-length"])))
    size = 0
    while headers.get("transfer-encoding") == "chunked":
        length = int(await reader.readuntil(b"\r\n"), 16)
        await reader.readexactly(length + 2)
        size += length
        if not length:
            break
    return size


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _whole(writer: asyncio.StreamWriter, status: int, body: bytes, kind: str) -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


def chat(tokens: int = 3, *, size: int = 0) -> bytes:
    """Return a request body for a stream, with a prompt of ``size`` bytes."""
    messages = [{"role": "user", "content": "x" * size}]
    return json.dumps({"stream": True, "max_tokens": tokens, "messages": messages}).encode()
