"""Who may give feedback or orders: whoever knows the token, or without one whoever is near.

A token file may be replaced at any time; it is looked at once a second. While it cannot
be read or is empty nobody is trusted, since a token was asked for.

Orders are for operators: without a token only this machine is near, and a request that
a browser sent for a page, or that a proxy passed on, may be anybody's.
"""

import hmac
import ipaddress
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import structlog

from scorer.config.files import read_file

CHECK_EVERY = 1.0
"""Seconds between two looks at the token file."""
LONGEST_TOKEN = 1 << 12
"""Bytes."""

logger = structlog.stdlib.get_logger(__name__)

_LOOPBACK = [ipaddress.ip_network(text) for text in ("127.0.0.0/8", "::1/128")]
_NEAR = [
    *_LOOPBACK,
    *(
        ipaddress.ip_network(text)
        for text in (
            "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
            "fc00::/7", "fe80::/10",
        )
    ),
]  # fmt: skip


def _is_in(networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network], peer: str) -> bool:
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return any(address in network for network in networks)


@lru_cache(1024)
def is_loopback(peer: str) -> bool:
    """Return whether an IP address is one of this machine's own."""
    return _is_in(_LOOPBACK, peer)


@lru_cache(1024)
def is_near(peer: str) -> bool:
    """Return whether an IP address is loopback, private or link-local."""
    return _is_in(_NEAR, peer)


@dataclass(frozen=True, slots=True)
class Guarded:
    """What is guarded: the key that names its token file, and who is near.

    ``direct`` says that what was passed on by somebody else is not taken without a token.
    """

    key: str
    what: str
    near: Callable[[str], bool]
    nearby: str
    direct: bool = False


FEEDBACK = Guarded("feedback.token_file", "feedback", is_near, "loopback and private addresses")
ORDERS = Guarded("web.admin_token_file", "an order", is_loopback, "loopback addresses", direct=True)


@dataclass(frozen=True, slots=True)
class Distrust:
    """Why somebody is not trusted; ``token_helps`` says whether a token would."""

    message: str
    token_helps: bool


class Trust:
    """The rule of one configuration; any thread may ask it."""

    def __init__(
        self, token_file: str, clock: Callable[[], float], guarded: Guarded = FEEDBACK
    ) -> None:
        """Ask for the token in ``token_file``, or for nearness when that is empty."""
        self._path = Path(token_file) if token_file else None
        self._clock = clock
        self._guarded = guarded
        self._lock = threading.Lock()
        self._token = b""
        self._state: object = None
        self._next_look = float("-inf")

    @property
    def wants_token(self) -> bool:
        """Whether a token is asked for."""
        return self._path is not None

    def refusal(self, peer: str | None, token: str, headers: Iterable[str] = ()) -> Distrust | None:
        """Return None for somebody trusted; ``peer`` is an IP address, None a local socket.

        ``headers`` are the names of those that the request has.
        """
        guarded = self._guarded
        if self._path is None:
            if peer is not None and not guarded.near(peer):
                rule = f"{guarded.what} is taken from {guarded.nearby} only"
                return Distrust(f"without {guarded.key}, {rule}", token_helps=False)
            if guarded.direct and (name := _passed_on(headers)):
                rule = f"{guarded.what} with the header {name} is refused"
                return Distrust(f"without {guarded.key}, {rule}", token_helps=False)
            return None
        with self._lock:
            self._look(self._path)
        given = token.encode("utf-8", "replace")
        if self._token and hmac.compare_digest(given, self._token):
            return None
        return Distrust(f"the token of {guarded.key} is required", token_helps=True)

    def _look(self, path: Path) -> None:
        now = self._clock()
        if now < self._next_look:
            return
        self._next_look = now + CHECK_EVERY
        try:
            stat = path.stat()
            state: object = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if state == self._state:
                return
            token = read_file(path, LONGEST_TOKEN).strip()
        except OSError as error:
            state, token = str(error.strerror), b""
        if state != self._state and not token:
            reason = state if isinstance(state, str) else "it is empty"
            logger.error(
                "No token: everybody is refused",
                key=self._guarded.key, file=str(path), error=reason,
            )  # fmt: skip
        self._state, self._token = state, token


def bearer(authorization: str) -> str:
    """Return the bearer token in an ``Authorization`` header, "" without one."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _passed_on(headers: Iterable[str]) -> str | None:
    """Return a header that browsers add for pages, or proxies for their clients."""
    for name in headers:
        lower = name.lower()
        if lower in ("origin", "forwarded") or lower.startswith("x-forwarded-"):
            return name
    return None
