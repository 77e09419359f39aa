"""Who may give feedback: whoever knows the token, or without one whoever is near.

A token file may be replaced at any time; it is looked at once a second. While it cannot
be read or is empty nobody is trusted, since a token was asked for.
"""

import hmac
import ipaddress
from collections.abc import Callable
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


@dataclass(frozen=True, slots=True)
class Distrust:
    """Why somebody is not trusted; ``known`` says whether a token would help."""

    message: str
    token_helps: bool


NO_TOKEN = Distrust("the token of feedback.token_file is required", token_helps=True)
STRANGER = Distrust(
    "without feedback.token_file, feedback is taken from loopback and private addresses only",
    token_helps=False,
)


class Trust:
    """The rule of one configuration; used on the event loop only."""

    def __init__(self, token_file: str, clock: Callable[[], float]) -> None:
        """Ask for the token in ``token_file``, or for nearness when that is empty."""
        self._path = Path(token_file) if token_file else None
        self._clock = clock
        self._token = b""
        self._state: object = None
        self._next_look = float("-inf")

    @property
    def wants_token(self) -> bool:
        """Whether a token is asked for."""
        return self._path is not None

    def refusal(self, peer: str | None, token: str) -> Distrust | None:
        """Return None for somebody trusted; ``peer`` is an IP address, None a local socket."""
        if self._path is None:
            return None if peer is None or is_near(peer) else STRANGER
        self._look(self._path)
        given = token.encode("utf-8", "replace")
        if self._token and hmac.compare_digest(given, self._token):
            return None
        return NO_TOKEN

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
            logger.error("No feedback token: all feedback is refused", file=str(path), error=reason)
        self._state, self._token = state, token


_NEAR = [
    ipaddress.ip_network(text)
    for text in (
        "127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16",
        "::1/128", "fc00::/7", "fe80::/10",
    )
]  # fmt: skip


@lru_cache(1024)
def is_near(peer: str) -> bool:
    """Return whether an IP address is loopback, private or link-local."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return any(address in network for network in _NEAR)
