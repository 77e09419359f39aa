"""An engine that streams as vLLM does and misbehaves on demand, for tests behind real proxies."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Awaitable, Callable

from tests.system.conftest import page

ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
SATURATED = b'{"error":{"message":"KV cache exhausted, try again later","type":"overloaded"}}'
KEY_LIMIT = (
    b'{"error":{"message":"Rate limit reached for your api key","code":"rate_limit_exceeded"}}'
)


class Exchange:
    """One request as the engine has it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.path, self.body = "", b""
        self.headers: dict[str, str] = {}
        self.came_at = 0.0

    async def read(self) -> bool:
        """Read a whole request; return whether there is one."""
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except asyncio.IncompleteReadError:
            return False
        self.path = head[0].split(" ")[1]
        pairs = (line.partition(":") for line in head[1:] if line)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readline(), 16):
                self.body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readline()
        else:
            self.body = await self.reader.readexactly(int(self.headers.get("content-length", 0)))
        self.came_at = time.monotonic()
        return True

    async def whole(self, status: int, body: bytes, **headers: str) -> None:
        """Answer at once."""
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {status} X\r\n{lines}content-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        await self.writer.drain()

    async def start(self, name: str) -> None:
        """Begin a stream of events."""
        self.writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-engine: {name}\r\n"
            "transfer-encoding: chunked\r\n\r\n".encode()
        )
        await self.writer.drain()

    async def event(self, data: object) -> None:
        """Send an event."""
        text = data if isinstance(data, str) else json.dumps(data)
        chunk = f"data: {text}\n\n".encode()
        self.writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        await self.writer.drain()

    async def end(self) -> None:
        """End the stream."""
        await self.event("[DONE]")
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()


Way = Callable[["Engine", Exchange], Awaitable[None]]


async def serves(engine: "Engine", exchange: Exchange) -> None:
    """Stream a role-only frame, after a while the first token, and some more."""
    await exchange.start(engine.target)
    await exchange.event(ROLE)
    await asyncio.sleep(engine.first_after)
    await exchange.event({"choices": [{"delta": {"content": "one"}}]})
    engine.ttfts.append(time.monotonic() - exchange.came_at)
    for _ in range(engine.more_tokens):
        await asyncio.sleep(engine.token_every)
        await exchange.event({"choices": [{"delta": {"content": " more"}}]})
    await exchange.end()


def refuses(status: int, body: bytes, *, body_late: bool = False, **headers: str) -> Way:
    """Answer every request with an error, its body perhaps a moment after its head."""

    async def way(_: "Engine", exchange: Exchange) -> None:
        if not body_late:
            await exchange.whole(status, body, content_type="application/json", **headers)
            return
        exchange.writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (status, len(body)))
        await exchange.writer.drain()
        await asyncio.sleep(0.1)
        exchange.writer.write(body)

    return way


async def hangs_up(_: "Engine", exchange: Exchange) -> None:
    """Close the connection without an answer."""
    exchange.writer.close()


async def stops_midway(engine: "Engine", exchange: Exchange) -> None:
    """Break a stream off after its first token."""
    await exchange.start(engine.target)
    await exchange.event({"choices": [{"delta": {"content": "one"}}]})
    await asyncio.sleep(0.02)
    exchange.writer.transport.abort()


async def says_nothing(engine: "Engine", exchange: Exchange) -> None:
    """Stream no token, and end."""
    await exchange.start(engine.target)
    await exchange.event(ROLE)
    await exchange.end()


async def fails_in_stream(engine: "Engine", exchange: Exchange) -> None:
    """Put an error into a stream that began with 200."""
    await exchange.start(engine.target)
    await exchange.event({"error": {"message": "CUDA error: out of memory", "code": 500}})
    await exchange.end()


WATCHED = {"/metrics", "/health"}
"""Paths that are no requests of clients; their connections are not counted."""


class Engine:
    """One engine on a loopback address; ``way`` answers what is not ``/metrics`` or ``/health``.

    ``ttfts`` are its own measurements, ``asked`` the sizes of the prompts it got, ``left``
    how many clients left before they had their answer.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, port))
        self.port: int = self._socket.getsockname()[1]
        self.target = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self.way: Way = serves
        self.first_after, self.token_every, self.more_tokens = 0.03, 0.005, 2
        self.page: dict[str, object] = {}
        self.ttfts: list[float] = []
        self.asked: list[int] = []
        self.headers: list[dict[str, str]] = []
        self.connections = self.left = 0
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait(5)

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._serve, sock=self._socket))
        self._loop.call_soon(started.set)
        self._loop.run_forever()
        self._loop.close()

    def close(self) -> None:
        """Refuse connections and break what is under way."""

        async def stop() -> None:
            self._socket.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._loop.call_soon(self._loop.stop)

        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(stop(), self._loop)
            self._thread.join(5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counted = False
        try:
            while True:
                exchange = Exchange(reader, writer)
                if not await exchange.read():
                    return
                if exchange.path not in WATCHED and not counted:
                    self.connections += 1
                    counted = True
                await self._answer(exchange)
                if writer.is_closing():
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async def _answer(self, exchange: Exchange) -> None:
        if exchange.path == "/metrics":
            sums = {"count": len(self.ttfts), "sum": sum(self.ttfts), "tokens": len(self.asked)}
            text = page(**{**sums, **self.page})
            await exchange.whole(200, text.encode(), content_type="text/plain; version=0.0.4")
            return
        if exchange.path == "/health":
            await exchange.whole(200, b"")
            return
        self.asked.append(len(exchange.body))
        self.headers.append(exchange.headers)
        answer = asyncio.ensure_future(self.way(self, exchange))
        # What comes while an answer is under way is the end: nobody pipelines here.
        gone = asyncio.ensure_future(exchange.reader.read(1))
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            gone.cancel()
            await asyncio.wait({gone})
            answer.result()
        else:
            self.left += 1
            answer.cancel()
            raise ConnectionResetError
