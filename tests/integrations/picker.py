"""What stands where the daemon should be, and answers picks in ways that it never does."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def blackhole(port: int = 0) -> Iterator[int]:
    """Hold a port of loopback that drops what asks for a connection: its backlog is full."""
    with socket.socket() as listener, ExitStack() as stack:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


class Picker:
    """A server whose ``way`` can be changed; ``target`` is what it picks.

    ``asked`` counts picks, and ``askers`` are the connections that they came on.
    """

    def __init__(self) -> None:
        self.way, self.target, self.asked = "picks", "", 0
        self.askers: set[object] = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop."""
        self._closed = True
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if self.way == "refuses":  # as far as a listener can: a reset before any answer
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.close()
            else:
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            sock.settimeout(30)
            try:
                while self._exchange(sock):
                    pass
            except OSError:
                pass

    def _exchange(self, sock: socket.socket) -> bool:
        head = b""
        while b"\r\n\r\n" not in head:
            data = sock.recv(65536)
            if not data:
                return False
            head += data
        if self.way == "refuses":  # kept connections end, too
            return False
        if b" /pick" not in head.split(b"\r\n")[0]:
            sock.sendall(b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n")
            return True
        self.asked += 1
        self.askers.add(sock.getpeername())
        answer = self._answer()
        if answer is not None:
            sock.sendall(answer)
        return self.way not in {"half", "hangs_up"}

    def _answer(self) -> bytes | None:
        target = {"dead": "127.0.0.1:1", "name": "no-such-host:80"}.get(self.way, self.target)
        body = f'{{"target":"{target}","alternates":["a:1"],"pick_id":"x","pool":"chat"}}'.encode()
        match self.way:
            case "hangs":
                time.sleep(5)
                return None
            case "hangs_up":
                return None
            case "fails":
                return b"HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n"
            case "half":
                return b"HTTP/1.1 200 X\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body[:20])
            case "nonsense":
                return b"\xff\xfe SSH-2.0 what\r\n\r\n"
            case "slow":
                time.sleep(0.5)
            case "no_pool":
                return b"HTTP/1.1 404 X\r\ncontent-length: 2\r\n\r\n{}"
            case "refuses_this":
                said = b'{"status":"error","errorType":"unknown_model","error":"no"}'
                return b"HTTP/1.1 404 X\r\ncontent-length: %d\r\n\r\n%b" % (len(said), said)
        return b"HTTP/1.1 200 X\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
