"""A steady load through a proxy, and what became of each request."""

import http.client
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from tests.integrations.engines import chat


@dataclass(frozen=True)
class Result:
    """One request: when it was sent (monotonic seconds), its status (0: none), whether all came.

    ``first`` is how many seconds its first token took to come.
    """

    at: float
    status: int
    whole: bool
    first: float = 0.0


def request(
    address: str,
    body: bytes | Iterable[bytes],
    headers: dict[str, str] | None = None,
    path: str = "/v1/chat/completions",
) -> tuple[int, bytes]:
    """Send one request on a connection of its own and return status and body."""
    connection = http.client.HTTPConnection(address, timeout=20)
    try:
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request("POST", path, body, sent)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class Load:
    """Threads that send one request after the other, from ``with`` to its end."""

    def __init__(self, address: str, threads: int = 4, pause: float = 0.01) -> None:
        self._address, self._pause = address, pause
        self._stop = threading.Event()
        self.results: list[Result] = []
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=10)
        while not self._stop.wait(self._pause):
            at = time.monotonic()
            try:
                kind = {"Content-Type": "application/json"}
                connection.request("POST", "/v1/chat/completions", chat(), kind)
                answer = connection.getresponse()
                while (line := answer.readline()) and b"tok" not in line:
                    pass
                first = time.monotonic() - at
                text = answer.read()
                done = Result(at, answer.status, b"[DONE]" in text, first)
            except (OSError, http.client.HTTPException):
                connection.close()
                done = Result(at, 0, whole=False)
            self.results.append(done)
        connection.close()

    def failed(self) -> list[Result]:
        """Return the requests that were not answered in full."""
        return [each for each in self.results if each.status != 200 or not each.whole]

    def sent(self, since: float, until: float) -> int:
        """Return how many requests were sent in a span."""
        return sum(since <= each.at < until for each in self.results)
