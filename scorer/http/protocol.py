"""The connections of the one listener: uvicorn's, with a short way for ``/pick``.

An ASGI server spends on each request a task, three awaits and a check of every header:
several times what a pick costs. So a request for ``/pick`` is answered where its headers
end, in one write, and everything else goes on to uvicorn's own protocol: keep-alive,
pipelining and flow control included. A pick goes there too while an earlier request of
its connection is still being answered.

What a client sends is taken in slices. Between two of them a connection may have reason
to wait: the client does not read, or requests stand in line. Then what is left stays as
it came, nothing more is read from the client, and both go on when the reason is gone.
So what a client can make us hold is bounded, however much it sends ahead.
"""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from scorer.http.answers import Answer
from scorer.http.guard import AUTHORIZATION, Guard
from scorer.http.parameters import HEADERS
from scorer.http.pick import PickEndpoint
from scorer.http_stats import PICK as PICK_HANDLER

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
PICK = b"/pick"
PICK_AND_MORE = (b"/pick?", b"/pick/")
MOST_HEAD_BYTES = 65_536
"""Bytes of a request's head; beyond, the answer is 431 and the end of the connection."""
MOST_FIELDS = 256
"""Header fields of a request: an empty one costs forty times the memory of its bytes."""
SLICE = 2048
"""Bytes that are parsed before a connection may find that it has to wait."""
TURN = 16
"""Requests that a client may send at once before others get their turn."""
TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)
NO_HTTP = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"connection: close\r\ncontent-length: 31\r\n\r\nInvalid HTTP request received.\n"
)
LINGER = 2.0
"""Seconds in which what a refused client still sends is thrown away: a connection closed
before that is reset, and the client might never see why it was refused."""
RESET = struct.pack("ii", 1, 0)
"""Socket option with which closing resets a connection."""
GONE = ("", 0)
"""Address of a client that reset its connection before it was taken, which is no address:
None is that of a Unix socket, and means that its file let the client in."""
MOST_CONNECTIONS = 16_384
"""Connections; beyond, those that have been quiet for longest make room."""

monotonic: Callable[[], float] = time.monotonic


class Refused(Exception):  # noqa: N818 - an event
    """Nothing more is wanted of a client that was just refused."""


class Flow(FlowControl):
    """uvicorn's flow control of one connection, which is told of every change."""

    def __init__(self, transport: asyncio.Transport, connection: "Connection") -> None:
        """Control the flow of ``connection``."""
        super().__init__(transport)
        self._connection = connection

    def pause_reading(self) -> None:
        """Read no more."""
        self.read_paused = True
        self._connection.hold()

    def resume_reading(self) -> None:
        """Read again, unless something else is in the way."""
        self.read_paused = False
        self._connection.go_on_soon()

    def pause_writing(self) -> None:
        """Note that the client does not read: nothing is read from it either."""
        super().pause_writing()
        self._connection.hold()

    def resume_writing(self) -> None:
        """Note that the client has read."""
        super().resume_writing()
        self._connection.go_on_soon()


class Connection(HttpToolsProtocol):
    """One connection; :func:`connections_for` makes the class that answers picks.

    ``since`` is when the last request began, or the connection, in monotonic seconds;
    ``mid_request`` whether that request has not come to its end, and ``size`` its bytes.
    ``direct`` says that it is a pick and answered here, ``quiet`` counts the bytes since
    the request, its head or a piece of its body was last complete: heads, trailers and
    chunk extensions are bounded by it. ``held`` says that nothing is read from the client,
    ``pending`` is what it sent before, ``begun`` counts the requests of its turn, ``sent``
    the bytes of direct answers.
    """

    picks: PickEndpoint
    guard = Guard()
    most = MOST_CONNECTIONS
    dated: tuple[object, bytes] = (None, b"")

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Take what uvicorn hands to a protocol."""
        super().__init__(*args, **kwargs)
        self.since = monotonic()
        self.mid_request = self.direct = self.in_head = self.held = self.refused = False
        self.keeps: bool | None = None
        self.quiet = self.size = self.sent = self.begun = 0
        self.held_at = 0.0
        self.running: RequestResponseCycle | None = None
        self.pending = b""
        self.unread_since: float | None = None
        self.unread_mark = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection; when there are too many, the quietest ones go."""
        super().connection_made(transport)
        if self.client is None and self.server is not None and self.server[1] is not None:
            self.client = GONE
        self.flow = Flow(transport, self)
        if len(self.connections) > self.most:
            make_room([each for each in self.connections if isinstance(each, Connection)])

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever answers, and forget what stood in line behind that."""
        super().connection_lost(exc)
        self.pipeline.clear()
        if self.running is not None and not self.running.response_complete:
            self.running.disconnected = True
            self.running.message_event.set()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ANN401 - uvicorn's own
        """Note which of the requests in line is being answered."""
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        """Take what the client sent, or keep it while the connection has to wait."""
        if self.refused:
            return
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        if self.held:
            self.pending += data
        elif len(data) <= SLICE:
            self._parse(data)
        else:
            self._parse_all(data)

    def _parse_all(self, data: bytes) -> None:
        """Feed the parser slice by slice until there is a reason to wait."""
        self.begun = 0
        for start in range(0, len(data), SLICE):
            if self.refused or self.transport.is_closing():
                return
            if start and (self.held or self.begun >= TURN):
                self.pending = data[start:]
                self.hold()
                self.go_on_soon()
                return
            self._parse(data[start : start + SLICE])

    def _parse(self, data: bytes) -> None:
        """Feed the parser, and bound what comes without getting anywhere."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stop:
            # It is answered as if it had not asked for an upgrade.
            if rest := data[stop.args[0] :]:
                self._parse(rest)
        except httptools.HttpParserError:
            self._refuse(NO_HTTP)
        else:
            self.quiet += len(data)
            self.size += len(data)
            if self.mid_request and self.quiet > MOST_HEAD_BYTES:
                self._refuse(TOO_LARGE)

    @property
    def waits(self) -> bool:
        """Whether there is a reason to take nothing more from the client."""
        return self.flow.read_paused or self.flow.write_paused or bool(self.pipeline)

    def cut(self) -> None:
        """End the connection at once; the kernel keeps nothing of what was not read either."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None and self.transport.get_write_buffer_size():
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.abort()

    def hold(self) -> None:
        """Read nothing more for now."""
        if not self.held:
            self.held, self.held_at = True, monotonic()
            self.transport.pause_reading()

    def go_on_soon(self) -> None:
        """See in a moment whether the reasons to wait are gone."""
        if self.held:
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if not self.held or self.waits or self.transport.is_closing():
            return
        self.held = False
        self.since += monotonic() - self.held_at  # The client could not go on meanwhile.
        if self.pending:
            self._unset_keepalive_if_required()
            data, self.pending = self.pending, b""
            self._parse_all(data)
        if not self.held:
            self.transport.resume_reading()

    def _refuse(self, answer: bytes) -> None:
        """Send a last answer, throw away what else comes, and close after a moment."""
        if self.refused:
            return
        answered = self.answering or (self.mid_request and not self.in_head)
        self.refused, self.pending = True, b""
        self.mid_request = self.in_head = False
        if self.transport.is_closing():
            return
        if answered:
            self.transport.close()
            return
        self.transport.write(answer)
        if self.transport.can_write_eof():  # TLS ends both ways at once
            self.transport.write_eof()
        self.transport.resume_reading()
        self.loop.call_later(LINGER, self.transport.abort)

    def on_message_begin(self) -> None:
        """Start a request; its URL will tell whether it is a pick."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = self.direct = False
        self.quiet = self.size = 0
        self.mid_request = self.in_head = True
        self.begun += 1
        self.since = monotonic()

    def on_url(self, url: bytes) -> None:
        """Take the URL, or one more piece of it."""
        if self.url:
            url = self.url + url
        self.url = url
        self.direct = is_pick(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header; of a pick only those that it can be asked with. Trailers are dropped."""
        if not self.in_head:
            return
        if len(self.headers) >= MOST_FIELDS:
            self._refuse(TOO_LARGE)
            raise Refused
        name = name.lower()
        if not self.direct:
            self.headers.append((name, value))
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
        elif name in HEADERS or name == AUTHORIZATION:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Answer a pick at once; leave what else there is to uvicorn."""
        if self.transport.is_closing():  # It was asked to be closed by the request before.
            raise Refused
        self.quiet = 0
        if not self.direct or self.answering or not self.guard.knows(self.headers):
            self.direct = False
            self._not_a_pick()
            self.in_head = False
            return
        self.in_head = False
        path, _, query = self.url.partition(b"?")
        answer = self.picks.answer(query, self.headers, bare=len(path) == len(PICK))
        self._send(answer, PICK_HANDLER)

    def _not_a_pick(self) -> None:
        """Leave a request whose head is complete to uvicorn."""
        self._hand_over()

    def on_body(self, body: bytes) -> None:
        """Leave the body of a pick unread."""
        self.quiet = 0
        if not self.direct:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request has come to its end."""
        self.mid_request = False
        if not self.direct:
            self._whole()

    def _whole(self) -> None:
        """Take the end of a request that is no pick."""
        super().on_message_complete()

    @property
    def answering(self) -> bool:
        """Whether uvicorn still answers a request of this connection."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    @property
    def collecting(self) -> bool:
        """Whether what came of the last request is still kept."""
        return self.in_head or self.answering

    def _send(self, answer: Answer, handler: str) -> None:
        parser = self.parser
        if self.keeps is None:
            self.keeps = parser.get_http_version() != "1.0"
        keep = self.keeps and parser.should_keep_alive()
        headers = self.server_state.default_headers
        if self.dated[0] is not headers:
            lines = b"".join(b"%b: %b\r\n" % header for header in headers)
            type(self).dated = headers, lines
        method = parser.get_method()
        body = b"" if method == b"HEAD" else answer.body
        end = b"\r\n" if keep else b"connection: close\r\n\r\n"
        status = STATUS_LINES[answer.status]
        whole = b"".join((status, self.dated[1], answer.head, end, body))
        self.sent += len(whole)
        self.transport.write(whole)
        self.picks.served.count(handler, method, answer.status)
        if not keep:
            self.transport.close()

    def _hand_over(self) -> None:
        """Bring uvicorn to where it would be had it seen the request from its start."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()


def is_pick(url: bytes) -> bool:
    """Return whether a request's URL, as it was sent, is that of a pick."""
    return url == PICK or (url[: len(PICK) + 1] in PICK_AND_MORE and b"#" not in url)


def connections_for(endpoint: PickEndpoint) -> type[Connection]:
    """Return the protocol class whose connections are answered by ``endpoint``."""
    return type("PickConnection", (Connection,), {"picks": endpoint})


def make_room(connections: list[Connection]) -> None:
    """Close the hundredth part of the connections that waits, or has been quiet, for longest."""
    connections.sort(key=lambda each: (each.answering or each.mid_request, each.since))
    for each in connections[: len(connections) // 100 + 1]:
        each.cut()
