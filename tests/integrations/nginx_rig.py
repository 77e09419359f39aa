"""The real nginx with an example configuration, and fake engines that stream and misbehave."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.system.conftest import NAP, DaemonProcess, free_port, page

ROOT = Path(__file__).parent.parent.parent
PATH = "/v1/chat/completions"
NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or "nginx"
"""Not on the PATH of an ordinary user."""
TEMP = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")

Headers = dict[str, str]


@dataclass(frozen=True)
class Manner:
    """How an engine answers; seconds. ``breaks_after`` is the tokens after which it resets.

    ``raw`` is sent in place of an answer, before the end of the connection.
    """

    status: int = 200
    body: bytes = b""
    headers: Headers = field(default_factory=dict)
    first: float = 0.0
    between: float = 0.0
    tokens: int = 3
    role_first: bool = True
    role_at: float = 0.0
    breaks_after: int | None = None
    raw: bytes = b""


@dataclass
class Seen:
    """One request as an engine saw it.

    ``left`` is whether the other side hung up early, ``done`` whether all of a stream was sent.
    """

    path: str
    length: int
    connection: int
    headers: Headers
    left: bool = False
    done: bool = False


def frame(**delta: Any) -> bytes:
    """Return the server-sent event of a chat completion's chunk."""
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return b"data: " + json.dumps({"id": "x", "choices": [choice]}).encode() + b"\n\n"


class Engine:
    """A streaming HTTP server; ``manner`` and ``figures`` (of /metrics) may change at any time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str = "127.0.0.1") -> None:
        self.manner = Manner()
        self.figures: dict[str, object] = {}
        self.seen: list[Seen] = []
        self.connections = 0
        self._loop = loop
        self._host = host
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = free_port()  # one that is nobody else's while this engine is dead
        self.start()
        self.target = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def start(self) -> None:
        """Listen, on the same port as before."""

        async def listen() -> asyncio.Server:
            return await asyncio.start_server(self._serve, self._host, self.port, limit=1 << 22)

        self._server = self._run(listen())
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Die: refuse connections and reset those that are open."""

        async def die() -> None:
            server, self._server = self._server, None
            if server:
                server.close()
            for writer in list(self._writers):
                writer.transport.abort()

        self._run(die())

    def behave(self, **changes: Any) -> None:
        """Answer as usual but for ``changes``, and forget what was seen."""
        self.manner, self.seen = replace(Manner(), **changes), []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            number = 0
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.strip().split("\r\n")
                headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
                length = int(headers.get("content-length", 0))
                body = await reader.readexactly(length)
                method, path, _ = first.split(" ")
                if path == "/metrics":
                    self._whole(writer, 200, page(**self.figures).encode(), {})
                    continue
                if not number:
                    self.connections += 1
                    number = self.connections
                seen = Seen(path, length, number, headers)
                self.seen.append(seen)
                asked = json.loads(body) if method == "POST" else {}
                if not await self._answer(seen, asked, reader, writer):
                    break
        self._writers.discard(writer)
        writer.close()

    async def _answer(
        self, seen: Seen, asked: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; return whether the connection stays open."""
        manner = self.manner
        if manner.raw:
            writer.write(manner.raw)
            await writer.drain()
            return False
        if manner.status != 200:
            self._whole(writer, manner.status, manner.body, manner.headers)
            return True
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            if not asked.get("stream"):
                if await _left_within(manner.first, leaving):
                    seen.left = True
                    return False
                self._whole(
                    writer, 200, b'{"choices":[{"message":{"content":"hi"}}]}', manner.headers
                )
                return True
            return await self._stream(seen, manner, leaving, writer)
        finally:
            if not leaving.done():
                leaving.cancel()
                with suppress(asyncio.CancelledError):
                    await leaving

    async def _stream(
        self, seen: Seen, manner: Manner, leaving: Any, writer: asyncio.StreamWriter
    ) -> bool:
        head = {"Content-Type": "text/event-stream; charset=utf-8", **manner.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        if await _left_within(manner.role_at, leaving):
            seen.left = True
            return False
        writer.write(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{lines}\r\n".encode())
        if manner.role_first:
            writer.write(_chunk(frame(role="assistant", content="")))
        await writer.drain()
        for number in range(manner.tokens):
            pause = manner.between if number else manner.first - manner.role_at
            if await _left_within(pause, leaving):
                seen.left = True
                return False
            if number == manner.breaks_after:
                writer.transport.abort()
                return False
            writer.write(_chunk(frame(content=f"tok{number} ")))
            await writer.drain()
        writer.write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        await writer.drain()
        seen.done = True
        return True

    def _whole(
        self, writer: asyncio.StreamWriter, status: int, body: bytes, headers: Headers
    ) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
        writer.write(head.encode() + body)


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _left_within(seconds: float, leaving: Any) -> bool:
    """Wait; return early and True when the other side hangs up meanwhile."""
    if seconds > 0 or leaving.done():
        await asyncio.wait([leaving], timeout=max(seconds, 0))
    return leaving.done()


@contextmanager
def event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Run an event loop in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        asyncio.run_coroutine_threadsafe(_end_tasks(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()


async def _end_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Nginx:
    """nginx with an example of the project, in which addresses and paths were replaced."""

    def __init__(self, folder: Path, example: str, replaced: dict[str, str]) -> None:
        self.port, self.http2_port, self.metrics_port = free_port(), free_port(), free_port()
        text = (ROOT / "examples" / "nginx" / example).read_text(encoding="utf-8")
        temp = "".join(f"\n  {name}_temp_path {folder}/{name};" for name in TEMP)
        changes = {
            "user www-data;": "user root;" if os.geteuid() == 0 else "",
            "worker_processes auto;": "worker_processes 2;",
            "pid /run/nginx.pid;": f"pid {folder}/nginx.pid;",
            "/var/log/nginx/error.log warn": f"{folder}/error.log info",
            "\nhttp {": "\nhttp {" + temp,
            "listen 8080;": f"listen 127.0.0.1:{self.port};"
            f" listen 127.0.0.1:{self.http2_port} http2;",
            **replaced,
        }
        for old, new in changes.items():
            assert old in text, f"{example} has no {old!r}"
            text = text.replace(old, new)
        (folder / "nginx.conf").write_text(text)
        self._error_log = folder / "error.log"
        command = [NGINX, "-c", str(folder / "nginx.conf"), "-e", str(self._error_log)]
        self.process = subprocess.Popen([*command, "-g", "daemon off;"])
        try:
            until(self._listens, what=lambda: self.log)
        except AssertionError:
            self.close()
            raise

    def _listens(self) -> bool:
        assert self.process.poll() is None, self.log
        return listens(self.port)

    @property
    def log(self) -> str:
        """The error log so far."""
        return self._error_log.read_text()

    @property
    def alarms(self) -> list[str]:
        """Lines of the error log that tell of faults in our own code."""
        signs = ("lua entry thread aborted", "[alert]", "[emerg]", "failed to run", "scorer:")
        return [line for line in self.log.splitlines() if any(sign in line for sign in signs)]

    def reload(self) -> None:
        """Let new workers take new requests; those that run end the ones they have."""
        lines = self.log.count("start worker process ")
        self.process.send_signal(signal.SIGHUP)
        until(lambda: self.log.count("start worker process ") >= lines + 2, what=lambda: self.log)

    def close(self) -> None:
        """Stop at once."""
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)

    def connect(self) -> HTTPConnection:
        """Return a client connection."""
        return HTTPConnection("127.0.0.1", self.port, timeout=20)

    def post(self, *, stream: bool = True, size: int = 100, **more: Any) -> tuple[int, bytes]:
        """Send a chat request with a prompt of ``size`` bytes; return status and body."""
        with closing(self.connect()) as connection:
            answer = send(connection, stream=stream, size=size, **more)
            return answer.status, answer.read()

    def post_for_bytes(self) -> bytes:
        """Send a chat request; return all that comes, whether or not it is HTTP."""
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.port), 20) as sock:
            sock.sendall(head.encode() + b"{}")
            return b"".join(iter(lambda: sock.recv(65536), b""))

    def curl(self, *arguments: str, body: bytes) -> subprocess.CompletedProcess[bytes]:
        """Send a chat request by HTTP/2."""
        command = self._curl(*arguments)
        return subprocess.run(command, input=body, capture_output=True, timeout=20, check=False)

    def curl_leaves(self, when: Callable[[], Any], body: str) -> Any:
        """Send a chat request by HTTP/2, and leave ``when`` is true; return what that was."""
        command = self._curl("--data-binary", body)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as client:
            try:
                return until(when)
            finally:
                client.kill()

    def _curl(self, *arguments: str) -> list[str]:
        url = f"http://127.0.0.1:{self.http2_port}{PATH}"
        return ["curl", "-sS", "--http2-prior-knowledge", "-X", "POST", *arguments, url]

    def metrics(self) -> dict[tuple[str, ...], float]:
        """Return the samples of the metrics page by name and sorted label values."""
        connection = HTTPConnection("127.0.0.1", self.metrics_port, timeout=5)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def total(self, name: str) -> float:
        """Return the sum of a metric's samples."""
        return sum(value for key, value in self.metrics().items() if key[0] == name)

    def settled(self) -> None:
        """Wait until all is counted that ended: workers add to the page every 50 ms."""
        counts: list[dict[tuple[str, ...], float]] = []

        def stands_still() -> bool:
            names = ("gateway_requests_total", "gateway_ttft_seconds_count")
            page = self.metrics().items()
            counts.append({key: value for key, value in page if key[0] in names})
            return len(counts) > 10 and all(each == counts[-1] for each in counts[-10:])

        until(stands_still)


def send(
    connection: HTTPConnection,
    *,
    stream: bool = True,
    size: int = 100,
    headers: Headers | None = None,
    **more: Any,
) -> HTTPResponse:
    """Send a chat request and return its answer's head."""
    messages = [{"role": "user", "content": "x" * size}]
    body = json.dumps({"model": "m", "messages": messages, "stream": stream, **more})
    given = {"Content-Type": "application/json", **(headers or {})}
    connection.request("POST", PATH, body, given)
    return connection.getresponse()


def listens(port: int) -> bool:
    """Return whether somebody accepts connections on a port of loopback."""
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def until(
    condition: Callable[[], Any], seconds: float = 60.0, what: Callable[[], object] = str
) -> Any:
    """Return the first true value of ``condition``; fail with ``what`` after ``seconds``."""
    for _ in range(int(seconds / NAP)):
        if value := condition():
            return value
        time.sleep(NAP)
    raise AssertionError(f"did not happen within {seconds} s: {what()}")


def restart(daemon: DaemonProcess) -> None:
    """Start a daemon that is dead again, on its address."""
    command = daemon.process.args
    with daemon.log_path.open("ab") as log:
        daemon.process = subprocess.Popen(command, stderr=log, stdout=log)


@dataclass
class Load:
    """Clients that send one request after the other until told to stop."""

    nginx: Nginx
    clients: int = 8
    failures: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """When each request was sent."""

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Run within a ``with`` block."""
        stop = threading.Event()
        threads = [threading.Thread(target=self._client, args=(stop,)) for _ in range(self.clients)]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            stop.set()
            for thread in threads:
                thread.join(20)

    def _client(self, stop: threading.Event) -> None:
        connection = self.nginx.connect()
        while not stop.is_set():
            started = time.monotonic()
            try:
                answer = send(connection)
                body = answer.read()
            except OSError as error:
                self.failures.append(repr(error))
                connection = self.nginx.connect()
                continue
            if answer.status != 200 or not body.endswith(b"data: [DONE]\n\n"):
                self.failures.append(f"{answer.status} {body[-200:]!r}")
            self.times.append(started)
        connection.close()
