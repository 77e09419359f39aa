"""A total deadline for HTTP: every wait of a fetch draws on one budget of seconds.

A read timeout starts anew with every byte, so a status line that drips one byte at a
time never times out. Here each address that is tried, the TLS handshake and each read
of status line, headers and body waits at most for what is left. The budget belongs to
the thread that fetches, because requests hands nothing of ours down to its sockets.
"""

import functools
import http.client
import io
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

import requests.adapters
import urllib3.connection
from urllib3.util.connection import create_connection
from urllib3.util.wait import wait_for_read

from scorer.sources.names import names

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Budget:
    """Seconds that one fetch may take, and the bytes that arrived in them."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.seconds = seconds
        self.received = 0
        self._clock = clock
        self._ends_at = clock() + seconds

    def left(self) -> float:
        """Return the seconds left; TimeoutError when there are none."""
        left = self._ends_at - self._clock()
        if left <= 0:
            raise TimeoutError("deadline")
        return left


class _Spending(threading.local):
    budget: Budget


_spending = _Spending()


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Let every connection of this thread draw on ``budget``."""
    _spending.budget = budget
    try:
        yield
    finally:
        del _spending.budget


class _TimedReader(io.RawIOBase):
    """Reads a socket, waiting only for what is left of the budget."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase) -> None:
        super().__init__()
        self._sock = sock
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        budget = _spending.budget
        self._sock.settimeout(budget.left())
        count = self._raw.readinto(buffer)
        budget.received += count or 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    """An answer whose status line, headers and body are read by a :class:`_TimedReader`."""

    def __init__(
        self,
        sock: socket.socket,
        debuglevel: int = 0,
        method: str | None = None,
        url: str | None = None,
    ) -> None:
        super().__init__(sock, debuglevel, method, url)
        self.fp = io.BufferedReader(_TimedReader(sock, self.fp.detach()))

    def begin(self) -> None:
        super().begin()
        lengths = sorted(set(self.headers.get_all("content-length", ())))
        if len(lengths) > 1:
            shown = " and ".join(repr(each[:20]) for each in lengths[:2])
            raise http.client.HTTPException(f"it has two Content-Length headers, {shown}")
        if lengths and not (lengths[0].isascii() and lengths[0].isdecimal()):
            raise http.client.HTTPException(f"its Content-Length is {lengths[0][:20]!r}")

    def _read_next_chunk_size(self) -> int:
        size: int = super()._read_next_chunk_size()  # type: ignore[misc]
        if size < 0:
            # A length that int() reads and that no chunk has; -1 would mean without end.
            raise ValueError(f"a chunk of {size} bytes")
        return size


def _connected(
    host: str, port: int, options: urllib3.util.connection._TYPE_SOCKET_OPTIONS | None
) -> socket.socket:
    """Try each address of ``host``, giving each its share of what is left."""
    found = names.addresses(host, _spending.budget.left())
    errors: list[OSError] = []
    for tried, address in enumerate(found):
        share = _spending.budget.left() / (len(found) - tried)
        try:
            sock = create_connection((address, port), share, socket_options=options)
        except OSError as error:
            errors.append(error)
        else:
            return _bound(sock)
    # A host has refused when all its addresses have; any other error says less for sure.
    raise next((e for e in errors if not isinstance(e, ConnectionRefusedError)), errors[0])


def _bound(sock: socket.socket) -> socket.socket:
    """Return the socket, whose waits are bound to what is left, or close it."""
    try:
        sock.settimeout(_spending.budget.left())
    except TimeoutError:
        sock.close()
        raise
    return sock


class _TimedHTTPConnection(urllib3.connection.HTTPConnection):
    response_class = _TimedResponse

    def _new_conn(self) -> socket.socket:
        return _connected(self._dns_host, self.port, self.socket_options)


class _TimedHTTPSConnection(urllib3.connection.HTTPSConnection):
    response_class = _TimedResponse

    def _new_conn(self) -> socket.socket:
        return _connected(self._dns_host, self.port, self.socket_options)


_TimedConnection = _TimedHTTPConnection | _TimedHTTPSConnection


@functools.cache
def _usual_trust() -> ssl.SSLContext:
    """Return the context that trusts the authorities that requests trusts, shared by all."""
    return ssl.create_default_context(cafile=requests.adapters.DEFAULT_CA_BUNDLE_PATH)


class DeadlineAdapter(requests.adapters.HTTPAdapter):
    """Transport of requests that keeps one connection and draws on the thread's budget.

    With ``context`` TLS is as it says, and the server's certificate must carry
    ``server_name`` (empty: the host that is asked). It goes to one server at a time and
    has no pools, retries, proxies or cookies, which would cost more than the request. The
    ``raw`` of an answer is that of http.client; one that is not read to its end must be
    followed by :meth:`close`.
    """

    def __init__(self, context: ssl.SSLContext | None = None, server_name: str = "") -> None:
        super().__init__(pool_connections=1, pool_maxsize=1)
        self._context = context
        self._server_name = server_name
        self._connection: _TimedConnection | None = None
        self._site: tuple[str, str] = ("", "")

    def send(
        self, request: requests.PreparedRequest, *_: object, **__: object
    ) -> requests.Response:
        """Send the request and return the answer up to its headers; OSError and HTTPException.

        Whatever else requests would say of how to send is not looked at.
        """
        parts = urlsplit(request.url or "")
        connection = self._kept(parts)
        try:
            connection.putrequest(
                request.method or "GET", request.path_url, skip_accept_encoding=True
            )
            for name, value in request.headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            # Not urllib3's own, which wraps the answer once more.
            answer = http.client.HTTPConnection.getresponse(connection)
        except BaseException:
            self.close()
            raise
        response = requests.Response()
        response.status_code, response.reason = answer.status, answer.reason
        response.headers = requests.structures.CaseInsensitiveDict(answer.headers.items())
        response.raw, response.url = answer, str(request.url)
        return response

    def _kept(self, parts: SplitResult) -> _TimedConnection:
        """Return the connection to a server, its socket bound to what is left of the budget."""
        site = (parts.scheme, parts.netloc)
        if self._connection is None or site != self._site:
            self.close()
            self._connection, self._site = self._made(parts), site
        sock = self._connection.sock
        if sock is not None and wait_for_read(sock, 0):  # the server has closed it
            self._connection.close()
        elif sock is not None:
            sock.settimeout(_spending.budget.left())
        return self._connection

    def _made(self, parts: SplitResult) -> _TimedConnection:
        host = parts.hostname or ""
        if parts.scheme == "http":
            return _TimedHTTPConnection(host, parts.port)
        return _TimedHTTPSConnection(
            host,
            parts.port,
            ssl_context=self._context or _usual_trust(),
            server_hostname=self._server_name or None,
        )

    def close(self) -> None:
        """Close the kept connection."""
        super().close()
        if self._connection is not None:
            self._connection.close()
