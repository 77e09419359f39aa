"""HTTP over Unix sockets, for tests."""

import socket
from http.client import HTTPConnection
from pathlib import Path


def connect(path: Path) -> socket.socket:
    """Return a connection to whoever listens at a path."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20)
    try:
        sock.connect(str(path))
    except OSError:
        sock.close()
        raise
    return sock


class UnixConnection(HTTPConnection):
    """``http.client``'s connection, to a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("scorer", timeout=20)
        self._path = path

    def connect(self) -> None:
        """Connect; OSError when nobody listens."""
        self.sock = connect(self._path)

    def ask(
        self, path: str, body: str | None = None, method: str | None = None, **headers: str
    ) -> tuple[int, bytes]:
        """Return status and body of an answer; ``headers`` have underscores for dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.request(method or ("GET" if body is None else "POST"), path, body, named)
        answer = self.getresponse()
        return answer.status, answer.read()
