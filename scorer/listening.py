"""The sockets that the daemon listens on, bound before anything else is started."""

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from scorer.feedback.udp import bind_udp

BACKLOG = 2048
SEND_BUFFER = 1 << 18
"""Bytes that the kernel keeps for a client which does not read: left to itself it keeps
megabytes, and a client is found out only when they are full. Of a Unix socket it keeps
200 KiB by itself."""


class ListenError(Exception):
    """The listen address cannot be used."""


def listen(address: str) -> socket.socket:
    """Return a socket bound to ``host:port``; ListenError says why that is not possible.

    An empty host means every IPv4 address.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        sock.bind((host, int(port)))
    except (OSError, UnicodeError) as error:  # the latter for a host that cannot be one
        sock.close()
        raise _refused(address, error) from None
    sock.set_inheritable(True)
    return sock


def listen_agent(address: str) -> socket.socket | None:
    """Return a socket for HAProxy's agent-checks, None for ""; ListenError as :func:`listen`."""
    return listen(address) if address else None


def listen_udp(address: str) -> socket.socket | None:
    """Return a UDP socket bound to ``host:port``, None for ""; ListenError as :func:`listen`."""
    if not address:
        return None
    try:
        return bind_udp(address)
    except (OSError, UnicodeError) as error:
        raise _refused(f"UDP {address}", error) from None


class UnixListener:
    """A Unix domain socket that listens, and its file at ``path``, which only we take away."""

    def __init__(self, path: str, mode: int) -> None:
        """Listen at ``path``; OSError says why that is not possible.

        Whoever may write to a file of ``mode`` may connect, and nobody else did before:
        the file comes into being with that mode.
        """
        self.path = path
        _make_way(path)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _only(mode):
                self.sock.bind(path)
            self._identity: tuple[int, int] | None = _identity(path)
            self.sock.listen(BACKLOG)
        except OSError:
            self.sock.close()
            raise

    def remove(self) -> None:
        """Take the file away, unless another daemon has put its own there.

        To be done before the socket is closed: until then the system gives the number by
        which the file is known to no other file.
        """
        ours, self._identity = self._identity, None
        with contextlib.suppress(OSError):
            if ours and _identity(self.path) == ours:
                Path(self.path).unlink()


def listen_unix(path: str, mode: int) -> UnixListener | None:
    """Return a listener at a path, None for ""; ListenError as :func:`listen`.

    What a daemon that was killed left there makes way.
    """
    if not path:
        return None
    try:
        return UnixListener(path, mode)
    except OSError as error:
        raise _refused(f"unix:{path}", error) from None


def _make_way(path: str) -> None:
    """Remove a socket on which nobody listens; OSError for anything else that is in the way."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        folder = Path(path).parent
        if not folder.is_dir():
            raise OSError(errno.ENOENT, f"There is no folder {folder}") from None
        return  # what else is wrong with its folder, binding says
    if not stat.S_ISSOCK(found.st_mode):
        raise OSError(errno.EEXIST, "There is something that is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
            return
        except BlockingIOError:
            pass  # somebody listens, and is behind
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


@contextlib.contextmanager
def _only(mode: int) -> Iterator[None]:
    """Let sockets come into being with ``mode``; it is the process's, so not beside others."""
    before = os.umask(0o777 & ~mode)
    try:
        yield
    finally:
        os.umask(before)


def _identity(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_dev, found.st_ino


def _refused(where: str, error: Exception) -> ListenError:
    why = getattr(error, "strerror", None) or str(error)
    return ListenError(f"cannot listen on {where}: {why}")
