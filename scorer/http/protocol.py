"""The connections of the one listener: uvicorn's, with a short way for ``/pick``.

An ASGI server spends on each request a task, three awaits and a check of every header:
several times what a pick costs. So a request for ``/pick`` is answered where its headers
end, in one write, and everything else goes on to uvicorn's own protocol: keep-alive,
pipelining and flow control included. A pick goes there too while an earlier request of
its connection is still being answered, or while the client does not read.

:func:`close_overdue` closes connections that uvicorn would keep for ever: those whose
client stops in the middle of a request or of an answer, or never sends anything.
"""

import asyncio
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from scorer.http.answers import Answer
from scorer.http.parameters import HEADERS
from scorer.http.pick import PickEndpoint

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
PICK = b"/pick"
PICK_AND_MORE = (b"/pick?", b"/pick/")
MOST_HEAD_BYTES = 65_536
"""Bytes of a request's head; beyond, the answer is 431 and the end of the connection."""
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)
STALLED_AFTER = 30.0
"""Seconds in which a client must have sent a request that it began."""
UNREAD_AT_MOST = 60.0
"""Seconds in which a client must have read an answer."""
SWEEP_EVERY = 5.0
SWEPT_AT_ONCE = 500
"""Connections that are looked at before anything else gets its turn."""

monotonic: Callable[[], float] = time.monotonic


class Connection(HttpToolsProtocol):
    """One connection; :func:`connections_for` makes the class that answers picks.

    ``since`` is when the last request began, or the connection, in monotonic seconds;
    ``mid_request`` whether that request has not come to its end. ``direct`` says that it
    is a pick and answered here, ``head`` counts the bytes of a head that is not complete,
    ``keeps`` is whether the client's version of HTTP keeps connections.
    """

    picks: PickEndpoint
    dated: tuple[object, bytes] = (None, b"")

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Take what uvicorn hands to a protocol."""
        super().__init__(*args, **kwargs)
        self.since = monotonic()
        self.mid_request = self.direct = False
        self.keeps: bool | None = None
        self.head: int | None = None
        self.unread_since: float | None = None

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and bound what one head may hold."""
        if self.head is not None:
            self.head += len(data)
            if self.head > MOST_HEAD_BYTES:
                self.transport.write(TOO_LARGE)
                self.transport.close()
                return
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # It is answered as if it had not asked for an upgrade.
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")

    def on_message_begin(self) -> None:
        """Start a request; its URL will tell whether it is a pick."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = self.direct = False
        self.head = 0
        self.mid_request = True
        self.since = monotonic()

    def on_url(self, url: bytes) -> None:
        """Take the URL, or one more piece of it."""
        if self.url:
            url = self.url + url
        self.url = url
        self.direct = is_pick(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header, as uvicorn does; of a pick only those that it can be asked with."""
        name = name.lower()
        if not self.direct:
            self.headers.append((name, value))
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
        elif name in HEADERS:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Answer a pick at once; leave what else there is to uvicorn."""
        self.head = None
        if not self.direct or self.flow.write_paused or self.answering:
            self.direct = False
            self._hand_over()
            return
        path, _, query = self.url.partition(b"?")
        answer = self.picks.answer(query, self.headers, bare=len(path) == len(PICK))
        self._send(answer)

    def on_body(self, body: bytes) -> None:
        """Leave the body of a pick unread."""
        if not self.direct:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request has come to its end."""
        self.mid_request = False
        if not self.direct:
            super().on_message_complete()

    @property
    def answering(self) -> bool:
        """Whether uvicorn still answers a request of this connection."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _send(self, answer: Answer) -> None:
        parser = self.parser
        if self.keeps is None:
            self.keeps = parser.get_http_version() != "1.0"
        keep = self.keeps and parser.should_keep_alive()
        headers = self.server_state.default_headers
        if self.dated[0] is not headers:
            lines = b"".join(b"%b: %b\r\n" % header for header in headers)
            type(self).dated = headers, lines
        body = b"" if parser.get_method() == b"HEAD" else answer.body
        end = b"\r\n" if keep else b"connection: close\r\n\r\n"
        status = STATUS_LINES[answer.status]
        self.transport.write(b"".join((status, self.dated[1], answer.head, end, body)))
        if not keep:
            self.transport.close()

    def _hand_over(self) -> None:
        """Bring uvicorn to where it would be had it seen the request from its start."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()

    def overdue(self, now: float, idle: float) -> bool:
        """Return whether the client has kept the connection waiting for too long.

        ``idle`` is the seconds that it may keep quiet between two requests.
        """
        if not self.transport.get_write_buffer_size():
            self.unread_since = None
        elif self.unread_since is None:
            self.unread_since = now
        if self.unread_since is not None and now - self.unread_since > UNREAD_AT_MOST:
            return True
        if self.mid_request:
            return now - self.since > STALLED_AFTER
        timed = self.answering or self.timeout_keep_alive_task is not None
        return not timed and now - self.since > idle


def is_pick(url: bytes) -> bool:
    """Return whether a request's URL, as it was sent, is that of a pick."""
    return url == PICK or (url[: len(PICK) + 1] in PICK_AND_MORE and b"#" not in url)


def connections_for(endpoint: PickEndpoint) -> type[Connection]:
    """Return the protocol class whose connections are answered by ``endpoint``."""
    return type("PickConnection", (Connection,), {"picks": endpoint})


async def close_overdue(state: ServerState, idle: float) -> None:
    """Close, again and again, the connections whose client keeps them waiting.

    ``idle`` is the seconds that a connection may be quiet between two requests.
    """
    while True:
        await asyncio.sleep(SWEEP_EVERY)
        now = monotonic()
        connections = [each for each in state.connections if isinstance(each, Connection)]
        for place, connection in enumerate(connections, 1):
            if connection.overdue(now, idle):
                connection.transport.abort()
            if place % SWEPT_AT_ONCE == 0:
                await asyncio.sleep(0)
