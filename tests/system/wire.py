"""Many requests at once over one connection, for tests that need thousands of answers."""

import socket

PICK = b"GET /pick?%b HTTP/1.1\r\nHost: x\r\n\r\n"


class Wire:
    """A keep-alive connection that may have many requests under way at once."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def ask(self, *requests: bytes) -> list[tuple[int, bytes]]:
        """Send requests in one piece; return status and body of each answer."""
        self._socket.sendall(b"".join(requests))
        return [self._answer() for _ in requests]

    def _answer(self) -> tuple[int, bytes]:
        status = int(self._file.readline().split()[1])
        length = 0
        while (line := self._file.readline()) != b"\r\n":
            assert line, "the connection ended"
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, self._file.read(length)

    def close(self) -> None:
        self._file.close()
        self._socket.close()
