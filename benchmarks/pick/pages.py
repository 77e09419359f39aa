"""A stand-in for many engines: serves one recorded page on many ports of loopback.

Cheap on purpose: it shares a core with the load, and must not be what is measured. The
count of generated tokens goes up from page to page, as that of an engine at work does:
one that stands still is taken for stuck, and picks would go another way. Prints the
ports, one a line, and then serves until it is killed. On SIGUSR1 it prints, as a line of
JSON, how many seconds lay between two requests to the same port since the last signal: the
``longest`` such gap, how many gaps were ``late``, and how many there were (``gaps``).
"""

import argparse
import asyncio
import json
import re
import signal
import time
from itertools import count
from pathlib import Path
from typing import cast

import uvloop

LOOPBACK = "127.0.0.1"
BACKLOG = 16
TOKENS = re.compile(rb"^(vllm:generation_tokens_total\{[^}]*\}) (\d+)(?:\.\d+)?$", re.MULTILINE)
DIGITS = 14


class Watch:
    """The gaps between two requests to the same port; those above ``late`` seconds are late."""

    def __init__(self, late: float = 1.5) -> None:
        """Start with no request."""
        self._late = late
        self._last: dict[int, float] = {}
        self._gaps: list[float] = []

    def asked(self, port: int, now: float) -> None:
        """Note a request at ``now``."""
        if (last := self._last.get(port)) is not None:
            self._gaps.append(now - last)
        self._last[port] = now

    def told(self, now: float) -> str:
        """Return the gaps since the last call, those that are still open at ``now`` included."""
        open_ones = [gap for last in self._last.values() if (gap := now - last) > self._late]
        gaps, self._gaps = [*self._gaps, *open_ones], []
        late = sum(gap > self._late for gap in gaps)
        return json.dumps({"longest": max(gaps, default=0.0), "late": late, "gaps": len(gaps)})


class Page(asyncio.Protocol):
    """Answers every request of a connection with the page, without looking at it."""

    def __init__(self, before: bytes, tokens: int, after: bytes, watch: Watch) -> None:
        """Serve ``before`` and ``after``, and between them ``tokens`` and more with each page.

        ``watch`` is told of each request.
        """
        self._before, self._after = before, after
        self._tokens = count(tokens)
        self._watch = watch
        self._port = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write, and which engine this stands for."""
        # Not an instance check: uvloop's transports only behave like asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._port = transport.get_extra_info("sockname")[1]

    def data_received(self, data: bytes) -> None:
        """Answer a request when its head is complete; a scrape sends it in one piece."""
        if self._transport is not None and data.endswith(b"\r\n\r\n"):
            number = b"%0*d" % (DIGITS, next(self._tokens)) if self._after else b""
            self._transport.write(self._before + number + self._after)
            self._watch.asked(self._port, time.monotonic())


def answer_with(page: bytes) -> bytes:
    """Return a whole HTTP answer with ``page`` as an engine sends it."""
    head = (
        "HTTP/1.1 200 OK\r\n"
        "content-type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"content-length: {len(page)}\r\n\r\n"
    )
    return head.encode() + page


def cut(page: bytes) -> tuple[bytes, int, bytes]:
    """Return the answer before its count of tokens, the count, and the rest.

    A page without such a count is served as it is: all of it before, and nothing after.
    """
    found = TOKENS.search(page)
    if found is None:
        return answer_with(page), 0, b""
    start, end = found.end(1) + 1, found.end()
    whole = answer_with(page[:start] + b"0" * DIGITS + page[end:])
    after = whole[len(whole) - (len(page) - end) :]
    return whole[: len(whole) - len(after) - DIGITS], int(found[2]), after


async def serve(page: bytes, targets: int) -> None:
    """Listen on ``targets`` free ports and serve ``page`` for ever."""
    parts = cut(page)
    loop, watch = asyncio.get_running_loop(), Watch()
    loop.add_signal_handler(signal.SIGUSR1, lambda: print(watch.told(time.monotonic()), flush=True))
    servers = [
        await loop.create_server(lambda: Page(*parts, watch), LOOPBACK, 0, backlog=BACKLOG)
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
    uvloop.run(serve(options.page.read_bytes(), options.targets))


if __name__ == "__main__":
    main()
