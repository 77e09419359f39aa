"""requests over a Unix socket, which it has no means for itself."""

import functools
import socket
from collections.abc import Callable
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

SCHEME = "unix:"


class UnixAdapter(HTTPAdapter):
    """Sends every request to the Unix socket at a path, whatever host its URL names."""

    def __init__(self, path: str) -> None:
        """Connect when there is something to send."""
        super().__init__()
        self._pool = HTTPConnectionPool("localhost")
        connecting: Callable[..., Any] = functools.partial(_Connection, path)
        self._pool.ConnectionCls = connecting  # type: ignore[assignment]

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> HTTPConnectionPool:  # noqa: ANN401 - as requests has them
        """Return the connections, for any request."""
        return self._pool

    def close(self) -> None:
        """Close what is open."""
        self._pool.close()
        super().close()


class _Connection(HTTPConnection):
    """urllib3's connection, but for how it is made."""

    def __init__(self, path: str, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - urllib3's own
        super().__init__(*args, **kwargs)
        self._path = path

    def connect(self) -> None:
        """Connect; OSError when nobody listens."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
