"""Tells systemd how the daemon is (``Type=notify``); does nothing elsewhere."""

import contextlib
import os
import socket
import time

READY, STOPPING = "READY=1", "STOPPING=1"


def reloading() -> str:
    """Return the message that a reload begins."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"


def notify(message: str) -> None:
    """Send a message to whoever ``NOTIFY_SOCKET`` names; nobody waits, and nothing fails."""
    name = os.environ.get("NOTIFY_SOCKET", "")
    if not name:
        return
    address = "\0" + name[1:] if name.startswith("@") else name
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)  # noqa: FBT003 - socket's own
        sock.sendto(message.encode(), address)
