"""A stand-in for many engines: serves one recorded page on many ports of loopback.

Cheap on purpose: it shares a core with wrk, and must not be what is measured. Prints
the ports, one a line, and then serves until it is killed.
"""

import argparse
import asyncio
from pathlib import Path
from typing import cast

import uvloop

LOOPBACK = "127.0.0.1"
BACKLOG = 16


class Page(asyncio.Protocol):
    """Answers every request of a connection with the page, without looking at it."""

    def __init__(self, answer: bytes) -> None:
        """Serve ``answer``, head and body."""
        self._answer = answer
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        # Not an instance check: uvloop's transports only behave like asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer a request when its head is complete; a scrape sends it in one piece."""
        if self._transport is not None and data.endswith(b"\r\n\r\n"):
            self._transport.write(self._answer)


def answer_with(page: bytes) -> bytes:
    """Return a whole HTTP answer with ``page`` as an engine sends it."""
    head = (
        "HTTP/1.1 200 OK\r\n"
        "content-type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"content-length: {len(page)}\r\n\r\n"
    )
    return head.encode() + page


async def serve(answer: bytes, targets: int) -> None:
    """Listen on ``targets`` free ports and serve for ever."""
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda: Page(answer), LOOPBACK, 0, backlog=BACKLOG)
        for _ in range(targets)
    ]
    for server in servers:
        print(server.sockets[0].getsockname()[1])
    print(flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serve the page given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("targets", type=int)
    options = parser.parse_args()
    uvloop.run(serve(answer_with(options.page.read_bytes()), options.targets))


if __name__ == "__main__":
    main()
