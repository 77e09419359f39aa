"""Host names to addresses, without waiting longer than a fetch may take.

The system's resolver keeps its own time: with a name server that is gone, one look-up
takes many seconds and cannot be interrupted. So look-ups run in threads of their own,
one at a time per name, and whoever needs an address waits only for what is left of its
deadline. What a name resolved to last is good for a while when the resolver does not
answer, because engines outlive outages of name servers. A resolver that says that there
is no such name is believed at once.
"""

import ipaddress
import socket
import threading
import time
from collections.abc import Callable

FRESH = 10.0
"""Seconds for which an answer is taken as it is."""
STALE = 600.0
"""Seconds for which an answer is good when no newer one is to be had."""
AT_ONCE = 64
"""Look-ups under way at the same time."""
KEPT = 4096
"""Names that are remembered."""
GONE = tuple(
    getattr(socket, name) for name in ("EAI_NONAME", "EAI_NODATA") if hasattr(socket, name)
)
"""Errors with which the resolver says that there is no such name."""

Lookup = Callable[[str], list[str]]


def look_up(host: str) -> list[str]:
    """Return the numeric addresses of ``host``, from the system's resolver; gaierror."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise socket.gaierror(socket.EAI_NONAME, "not a host name") from error
    return [str(address[0]) for *_, address in found]


class _Name:
    """What is known of one name."""

    __slots__ = ("addresses", "at", "done", "error")

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.at = float("-inf")
        self.error: OSError | None = None
        self.done: threading.Event | None = None
        """Set by the look-up under way when it ends; None when there is none."""


class Names:
    """Resolves names; for any number of threads."""

    def __init__(
        self, lookup: Lookup = look_up, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Resolve with ``lookup``, which may take its time."""
        self._lookup = lookup
        self._clock = clock
        self._lock = threading.Lock()
        self._names: dict[str, _Name] = {}
        self._free = AT_ONCE

    def addresses(self, host: str, seconds: float) -> list[str]:
        """Return the numeric addresses of ``host``, waiting for ``seconds`` at most.

        gaierror when the name cannot be resolved, or not by then.
        """
        host = host.strip("[]")
        if _is_address(host):
            return [host]
        name = self._name(host)
        if self._clock() - name.at < FRESH:
            return name.addresses
        done = self._started(host, name)
        known = self._clock() - name.at < STALE
        # Half of the time is left for the connection when there is something to fall back on.
        if done is not None and done.wait(seconds / 2.0 if known else seconds):
            if self._clock() - name.at < FRESH:
                return name.addresses
            if name.error is not None and (not known or _is_gone(name.error)):
                raise name.error
        if known:
            return name.addresses
        raise socket.gaierror(socket.EAI_AGAIN, "the resolver does not answer in time")

    def _name(self, host: str) -> _Name:
        name = self._names.get(host)
        if name is None:
            with self._lock:
                while len(self._names) >= KEPT:
                    del self._names[next(iter(self._names))]
                name = self._names.setdefault(host, _Name())
        return name

    def _started(self, host: str, name: _Name) -> threading.Event | None:
        """Return the end of the look-up under way, started if need be; None without room."""
        with self._lock:
            if name.done is not None:
                return name.done
            if self._free == 0:
                return None
            self._free -= 1
            done = name.done = threading.Event()
        threading.Thread(
            target=self._run, args=(host, name, done), name=f"resolve {host}", daemon=True
        ).start()
        return done

    def _run(self, host: str, name: _Name, done: threading.Event) -> None:
        try:
            name.addresses, name.error = self._lookup(host), None
            name.at = self._clock()
        except OSError as error:
            name.error = error
            if _is_gone(error):
                name.at = float("-inf")
        finally:
            with self._lock:
                self._free += 1
                name.done = None
            done.set()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_gone(error: OSError) -> bool:
    return error.errno in GONE


names = Names()
"""The names that all fetches of this process share."""
