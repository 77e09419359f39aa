"""A raw HTTP server whose every byte a test decides on."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from scorer.cli import main
from scorer.core.samples import Page, ScrapeFailed
from scorer.mappings.shipped import engine_mappings
from scorer.sources.mapping import PageReader

DATA = Path(__file__).parent.parent / "data"
SECRET = "s3cret-token"


def http(
    body: bytes = b"", status: str = "200 OK", *, version: str = "1.1", **headers: str
) -> bytes:
    """Return an HTTP answer; ``content_length=""`` leaves that header out."""
    headers = {"content_length": str(len(body)), "content_type": "text/plain"} | headers
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items() if value]
    return "\r\n".join([f"HTTP/{version} {status}", *lines, "", ""]).encode() + body


class Conversation:
    """One connection of a client, as an answering function sees it."""

    def __init__(self, sock: socket.socket, closing: threading.Event):
        self.sock = sock
        self.closing = closing
        self.request = b""

    def listen(self) -> bool:
        """Read one request; False when the client has gone."""
        self.request = b""
        while b"\r\n\r\n" not in self.request:
            chunk = self.sock.recv(65_536)
            if not chunk:
                return False
            self.request += chunk
        return True

    def drip(self, data: bytes, every: float) -> None:
        """Send one byte every ``every`` seconds until the test ends."""
        for byte in data:
            self.sock.sendall(bytes([byte]))
            if self.closing.wait(every):
                return

    def hang(self) -> None:
        """Say nothing more until the test ends."""
        self.closing.wait(30)


Answer = bytes | Callable[[Conversation], None]
"""Bytes to send, keeping the connection if they frame their body, or what to do before closing."""


class RawServer:
    """Answers the n-th request with the n-th answer, and the last one from then on."""

    def __init__(self, answers: tuple[Answer, ...], context: ssl.SSLContext | None):
        self.answers = answers
        self.connections = 0
        self.requests: list[bytes] = []
        self._context = context
        self._closing = threading.Event()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)

    @property
    def site(self) -> str:
        """Scheme, host and port."""
        return f"http{'s' if self._context else ''}://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"{self.site}/metrics"

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(sock)
            self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        try:
            with self._context.wrap_socket(sock, server_side=True) if self._context else sock as s:
                self._converse(Conversation(s, self._closing))
        except OSError:
            return

    def _converse(self, conversation: Conversation) -> None:
        while conversation.listen():
            answer = self.answers[min(len(self.requests), len(self.answers) - 1)]
            self.requests.append(conversation.request)
            if callable(answer):
                return answer(conversation)
            conversation.sock.sendall(answer)
            head = answer.partition(b"\r\n\r\n")[0].lower()
            if b"content-length" not in head and b"transfer-encoding" not in head:
                return None
        return None

    def close(self) -> None:
        """End every conversation."""
        self._closing.set()
        for sock in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._threads:
            thread.join(5)


@pytest.fixture
def serve() -> Iterator[Callable[..., RawServer]]:
    """Return a function that starts a server with the given answers."""
    servers: list[RawServer] = []

    def start(*answers: Answer, tls: bool = False) -> RawServer:
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(DATA / "tls" / "server.pem")
        servers.append(RawServer(answers, context))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Return a port of this machine that refuses connections."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


@pytest.fixture
def answer() -> Callable[..., bytes]:
    """Return the function that writes an HTTP answer."""
    return http


@pytest.fixture
def read() -> Callable[..., Page | ScrapeFailed]:
    """Return a function that reads a page with the shipped mappings."""

    def read(body: bytes | str, models: tuple[str, ...] = (), **given: object):
        body = body.encode() if isinstance(body, str) else body
        options = {"content_type": "text/plain", "complete": True} | given
        return PageReader(engine_mappings(), models).read(body, **options)

    return read


@pytest.fixture
def oddity() -> Callable[[str], bytes]:
    """Return a function that loads a page of the folder of oddities."""
    return lambda name: (DATA / "expositions" / "oddities" / f"{name}.prom").read_bytes()


@pytest.fixture
def doctor(tmp_path):
    """Return a function that writes a configuration and runs the doctor with it."""
    (tmp_path / "token").write_text(f"{SECRET}\n")

    def run(document: dict, *flags: str) -> Result:
        path = tmp_path / "scorer.yml"
        path.write_text(yaml.safe_dump(document))
        return CliRunner().invoke(main, ["doctor", "--config.file", str(path), *flags])

    return run
