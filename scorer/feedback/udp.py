"""The UDP listener: feedback from proxies that can only write logs.

Nothing is answered and nothing raises: a datagram that cannot be used is counted.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import structlog

from scorer.feedback import Feedback
from scorer.feedback.lines import records
from scorer.feedback.stats import Rejection

LOG_INTERVAL = 10.0
"""Seconds between two log lines about faults of our own."""
RECEIVE_BUFFER = 1 << 20
"""Bytes that the kernel may hold while the event loop is busy."""

logger = structlog.stdlib.get_logger(__name__)


class FeedbackProtocol(asyncio.DatagramProtocol):
    """Takes log records; runs on the event loop."""

    def __init__(self, feedback: Feedback, clock: Callable[[], float]) -> None:
        """Hand records to ``feedback``."""
        self._feedback = feedback
        self._clock = clock
        self._logged_at = float("-inf")

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        """Apply every record of a datagram."""
        for record in records(data):
            try:
                self._take(record, str(addr[0]))
            except Exception as fault:  # noqa: BLE001 - the next record is good again
                self._broken(fault)

    def error_received(self, exc: Exception) -> None:
        """Note what the network says of an earlier datagram; nothing depends on it."""
        logger.debug("UDP listener", error=str(exc))

    def _take(self, record: dict[str, Any] | None, peer: str) -> None:
        if record is None:
            self._feedback.stats.reject(Rejection.MALFORMED)
            return
        token = record.pop("token", "")
        if self._feedback.trust.refusal(peer, token if isinstance(token, str) else ""):
            self._feedback.stats.reject(Rejection.UNAUTHORIZED)
            return
        self._feedback.take(record, logged=True)

    def _broken(self, fault: Exception) -> None:
        now = self._clock()
        if now - self._logged_at >= LOG_INTERVAL:
            self._logged_at = now
            logger.error("Feedback failed", exc_info=fault)


def bind_udp(address: str) -> socket.socket:
    """Return a UDP socket bound to ``host:port``; OSError when that is not possible.

    Without a host it is bound to loopback.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        sock.setblocking(False)  # noqa: FBT003 - the socket's own signature
        sock.bind((host, int(port)))
    except OSError:
        sock.close()
        raise
    return sock
