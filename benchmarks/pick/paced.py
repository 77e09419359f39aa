"""Requests at a fixed rate, whatever the answers take: a load that does not wait.

    python -m benchmarks.pick.paced PORT PATH RATE SECONDS [--feedback]

Sends each request when it is due, on any connection that is free, opens another one when
none is, and prints one line of JSON: what was answered, and percentiles in microseconds.
A request's time runs from the moment it was sent, as a client that wakes up late is none
of the server's doing; only when the server has left all of many connections waiting, it
runs from the moment it was due. With ``--feedback`` every answer is followed by a report
of the pick's end on the same connection, whose times are listed apart.
"""

import argparse
import json
import re
import select
import socket
import time
from collections import deque
from collections.abc import Sequence

LOOPBACK = "127.0.0.1"
MOST_CONNECTIONS = 512
HOST = b"Host: 127.0.0.1\r\n"
ID = b"x-scorer-pick-id: "
LENGTH = re.compile(rb"(?i)\r\ncontent-length: (\d+)")
PATIENCE = 2.0
"""Seconds that the last answers get."""


class PacedError(Exception):
    """An answer was not a success, or there were none."""


class Load:
    """Connections to one server, and the times of what was asked over them."""

    def __init__(self, port: int, request: bytes, *, feedback: bool) -> None:
        """Send ``request`` to a port of loopback."""
        self._port, self._request, self._feedback = port, request, feedback
        self._free: list[socket.socket] = []
        self._asked: dict[int, tuple[socket.socket, float, bool, bytes]] = {}
        self._late: deque[float] = deque()
        self._epoll = select.epoll()
        self.unanswered = 0
        self.picks: list[float] = []
        self.reports: list[float] = []

    def run(self, rate: float, seconds: float) -> None:
        """Send ``rate`` requests a second for ``seconds``, then wait for the answers."""
        clock = time.perf_counter
        began, wanted = clock(), round(rate * seconds)
        end, sent = began + seconds, 0
        while sent < wanted:
            now = clock()
            # Not a sum of steps, whose rounding would let one more in.
            while sent < wanted and (due := began + sent / rate) <= now:
                self._ask(due)
                sent += 1
            self._answers(max(0.0, began + sent / rate - clock()))
        while (self._asked or self._late) and clock() < end + PATIENCE:
            self._answers(0.01)
        self.unanswered = len(self._asked) + len(self._late)

    def _ask(self, due: float) -> None:
        """Send the request that is due, or have it wait for a connection."""
        if self._free:
            connection = self._free.pop()
        elif len(self._asked) < MOST_CONNECTIONS:
            connection = socket.create_connection((LOOPBACK, self._port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._epoll.register(connection.fileno(), select.EPOLLIN)
        else:
            self._late.append(due)
            return
        self._send(connection, self._request, time.perf_counter(), report=False)

    def _send(
        self, connection: socket.socket, request: bytes, since: float, *, report: bool
    ) -> None:
        connection.sendall(request)
        self._asked[connection.fileno()] = connection, since, report, b""

    def _answers(self, seconds: float) -> None:
        """Take the answers that come within some seconds, and return when any came."""
        # epoll rounds up to milliseconds: select wakes up when the next request is due.
        if seconds > 0.0:
            select.select([self._epoll], [], [], seconds)
        for number, _ in self._epoll.poll(0):
            connection, sent, report, begun = self._asked[number]
            answer = begun + connection.recv(65_536)
            if not whole(answer):
                self._asked[number] = connection, sent, report, answer
                continue
            took = time.perf_counter() - sent
            del self._asked[number]
            (self.reports if report else self.picks).append(took)
            if self._feedback and not report:
                self._send(connection, _report(answer), time.perf_counter(), report=True)
            elif self._late:
                self._send(connection, self._request, self._late.popleft(), report=False)
            else:
                self._free.append(connection)


def whole(answer: bytes) -> bool:
    """Return whether an answer has come to its end; PacedError when it is no success."""
    if not answer.startswith(b"HTTP/1.1 20"):
        raise PacedError(f"must be a success, got {answer[:200]!r}")
    head, end, body = answer.partition(b"\r\n\r\n")
    length = LENGTH.search(head)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)


def _report(head: bytes) -> bytes:
    """Return a report that the request of an answer's pick ended well."""
    pick_id = head.partition(ID)[2].partition(b"\r\n")[0]
    body = b'{"pick_id":"%b","status":200,"ttft_seconds":0.3}' % pick_id
    return b"POST /feedback HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (HOST, len(body), body)


def percentile(times: Sequence[float], share: float) -> float:
    """Return a percentile of times in seconds, in microseconds; 0 without any."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e6 if ordered else 0.0


def main() -> None:
    """Load the server given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("path")
    parser.add_argument("rate", type=float)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--feedback", action="store_true")
    options = parser.parse_args()
    request = b"GET %b HTTP/1.1\r\n%b\r\n" % (options.path.encode(), HOST)
    load = Load(options.port, request, feedback=options.feedback)
    load.run(options.rate, options.seconds)
    names = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    told: dict[str, float] = {
        "requests": len(load.picks),
        "unanswered": load.unanswered,
        "per_second": len(load.picks) / options.seconds,
    }
    told |= {name: percentile(load.picks, share) for name, share in names.items()}
    told |= {f"report_{name}": percentile(load.reports, share) for name, share in names.items()}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
