"""A web server whose answers a test decides on, with or without TLS; engines and daemons."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.discovery.nameserver import serving
from tests.system.conftest import daemon, engine

__all__ = ["daemon", "engine"]

TLS = Path(__file__).parent.parent / "data" / "tls"
COMPANY_CA = TLS / "company-ca.pem"


def company_server() -> ssl.SSLContext:
    """Return the context of a server at 127.0.0.1 whose chain has no key identifiers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "company-server.pem")
    return context


class Server:
    """Answers every GET with ``body``; ``requests`` are the headers that came, by path."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.status = 200
        self.body: Any = b""
        self.headers: dict[str, str] = {"Content-Type": "application/json"}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = self._send
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.requests.append((self.path, dict(self.headers)))
                try:
                    server.answer(self)
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._http.daemon_threads = True
        if context is not None:
            # The handshake belongs to the connection's own thread: one that fails harms no other.
            self._http.socket = context.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._http.server_port
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.port}/targets"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def lists(self, *targets: str) -> None:
        """Answer with one target group from here on."""
        self.status, self.body = 200, [{"targets": list(targets)}]

    def _send(self, handler: BaseHTTPRequestHandler) -> None:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        handler.send_response(self.status)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Return a function that starts servers; all are stopped at the end."""
    servers: list[Server] = []

    def start(context: ssl.SSLContext | None = None) -> Server:
        servers.append(Server(context))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


class Authority:
    """A certificate authority that writes what it issues into files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._ca = trustme.CA()
        self._folder = folder
        self.file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def server(self, *names: str, clients: bool = False) -> ssl.SSLContext:
        """Return the context of a server with these names; ``clients`` must show a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(*names).configure_cert(context)
        if clients:
            self._ca.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self, name: str = "scorer") -> tuple[Path, Path]:
        """Return the files of a client's certificate and key."""
        return self.issued(f"{name}@example.org")

    def issued(self, name: str) -> tuple[Path, Path]:
        """Return the files of a certificate for ``name``, without its authority's, and key."""
        issued = self._ca.issue_cert(name)
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(str(certificate))
        issued.private_key_pem.write_to_path(str(key))
        return certificate, key


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a DNS server (see :mod:`tests.discovery.nameserver`)."""
    with serving(tmp_path_factory.mktemp("dns")) as address:
        yield address


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return a certificate authority of the test's own."""
    return Authority(tmp_path / "authority")
