"""A server that does nothing but answer: how long that takes, on this machine, now.

``python -m tests.system.neighbour`` serves on a free port of loopback and prints it. What a
busy machine adds to the answers of a daemon it adds to these, too.
"""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of a connection."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            _, _, length = head.partition(b"content-length:")
            await reader.readexactly(int(length.split()[0]) if length else 0)
            writer.write(ANSWER)
            await writer.drain()
    writer.close()


async def serve() -> None:
    """Serve until the process is killed."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@contextlib.contextmanager
def neighbour() -> Iterator[int]:
    """Run the server beside; yield its port."""
    command = [sys.executable, "-m", "tests.system.neighbour"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(serve())
