"""A picker that decides nothing: each pick gets the same answer, and reports go unread.

What a way costs with it is the price of asking at all, which no daemon can undercut.
Prints its port, as a line, and then an empty line, and serves until killed. It is told the
target to name.
"""

import asyncio
import socket
import sys

import uvloop

from benchmarks.proxy.backend import Engine

PICK_ID = b"1hKx0vY2aB3kQ9_zA1f4"
HEADERS = (
    b"x-scorer-target: %(target)b\r\nx-scorer-panic: 0\r\nx-scorer-score: 100.0\r\n"
    b"x-scorer-pick-id: " + PICK_ID + b"\r\nx-scorer-endpoints: %(target)b\r\n"
)
BODY = (
    b'{"target":"%(target)b","url":"http://%(target)b","alternates":[],'
    b'"pick_id":"' + PICK_ID + b'","score":100.0,"pool":"chat","panic":false}'
)
TAKEN = b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
AWAY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"


class Picker(Engine):
    """One connection of somebody who asks."""

    def __init__(self, target: str) -> None:
        """Answer every pick with ``target``."""
        super().__init__()
        named = {b"target": target.encode()}
        headers, body = HEADERS % named, BODY % named
        self._headers = b"HTTP/1.1 204 No Content\r\n" + headers + b"\r\n"
        kind = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self._json = b"HTTP/1.1 200 OK\r\n" + headers + kind + body

    def _answer(self, head: bytes) -> bytes:
        if head.startswith(b"get /pick?format=headers"):
            return self._headers
        if head.startswith(b"get /pick"):
            return self._json
        return TAKEN if head.startswith(b"post /feedback") else AWAY


async def serve(target: str) -> None:
    """Listen by TCP and UDP on one port, say which, and serve."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Picker(target), "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unread:
        unread.bind(("127.0.0.1", port))
        print(f"{port}\n", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
