"""A total deadline for HTTP: every wait of a fetch draws on one budget of seconds.

A read timeout starts anew with every byte, so a status line that drips one byte at a
time never times out. Here each address that is tried, the TLS handshake and each read
of status line, headers and body waits at most for what is left. The budget belongs to
the thread that fetches, because requests hands nothing of ours down to its sockets.
"""

import http.client
import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import requests.adapters
import urllib3
from urllib3.util.connection import create_connection

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


def _resolved(host: str, port: int) -> list[str]:
    """Return the numeric addresses of ``host``; the system's resolver keeps its own time."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from error
    return [str(address[0]) for *_, address in found]


def _connected(
    host: str, port: int, options: urllib3.util.connection._TYPE_SOCKET_OPTIONS | None
) -> socket.socket:
    """Try each address of ``host``, giving each its share of what is left."""
    found = _resolved(host, port)
    errors: list[OSError] = []
    for tried, address in enumerate(found):
        share = _spending.budget.left() / (len(found) - tried)
        try:
            sock = create_connection((address, port), share, socket_options=options)
        except OSError as error:
            errors.append(error)
        else:
            sock.settimeout(_spending.budget.left())
            return sock
    # A host has refused when all its addresses have; any other error says less for sure.
    raise next((e for e in errors if not isinstance(e, ConnectionRefusedError)), errors[0])


class _TimedHTTPConnection(urllib3.connection.HTTPConnection):
    response_class = _TimedResponse

    def _new_conn(self) -> socket.socket:
        return _connected(self._dns_host, self.port, self.socket_options)


class _TimedHTTPSConnection(urllib3.connection.HTTPSConnection):
    response_class = _TimedResponse

    def _new_conn(self) -> socket.socket:
        return _connected(self._dns_host, self.port, self.socket_options)


class _TimedHTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _TimedHTTPConnection


class _TimedHTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TimedHTTPSConnection


class DeadlineAdapter(requests.adapters.HTTPAdapter):
    """Transport of requests that keeps one connection and draws on the thread's budget."""

    def __init__(self) -> None:
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(
        self,
        connections: int,
        maxsize: int,
        block: bool = False,  # noqa: FBT001, FBT002 (as requests has it)
        **pool_kwargs: object,
    ) -> None:
        """Build the pools from connections that know the budget."""
        super().init_poolmanager(connections, maxsize, block, **pool_kwargs)
        self.poolmanager.pool_classes_by_scheme = {
            "http": _TimedHTTPPool,
            "https": _TimedHTTPSPool,
        }
