"""The ASGI application: who answers which path.

On the event loop: ``/pick`` and ``/feedback``, because every request causes one of each, the
health endpoints, because a busy thread pool must not fail a liveness probe, and the snapshot
for local pickers, for which clients wait. All other paths go to Flask in a small pool of
threads. A page is rendered whole and queued in one piece, and static files are smaller than
a2wsgi's queue of ten chunks, so a client that reads slowly holds a connection and no thread.
A streamed response would hold one.
"""

import asyncio
import contextlib

from a2wsgi import WSGIMiddleware
from flask import Flask

from scorer.http.bodies import BODY_LIMIT, Gone, again, has_body, read_body
from scorer.http.counted import counted
from scorer.http.feedback import FeedbackEndpoint
from scorer.http.lifecycle import ReloadEndpoint
from scorer.http.pick import PickEndpoint
from scorer.http.ports import ASGIApp, Message, Ports, Receive, Scope, Send
from scorer.http.problems import (
    BROKEN,
    READ,
    Problem,
    refuse,
    send_text,
    too_large,
    unknown_path,
    wrong_method,
)
from scorer.http.snapshot import SnapshotEndpoint

WORKERS = 4
"""Threads that render pages."""
NOT_ASCII = Problem(400, "bad_data", "the query string must be ASCII")


def build_asgi(ports: Ports, flask_app: Flask, picks: PickEndpoint) -> ASGIApp:
    """Return the whole HTTP interface as one ASGI application."""
    feedback = FeedbackEndpoint(ports.feedback, ports.clocks.monotonic)
    others = _Others(ports, flask_app)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"] or "/"
            scope["path"] = path  # a proxy's form of the URL may have none
            if path == "/pick" or path.startswith("/pick/"):
                await picks(scope, receive, send)
                return
            if path == "/feedback":
                await feedback(scope, receive, send)
                return
            if has_body(scope):
                await others.after_body(scope, receive, send)
                return
        await others(scope, receive, send)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # Only the end of the daemon cancels a request, and then nobody is left to answer.
        with contextlib.suppress(asyncio.CancelledError):
            sender = unfailing(send)
            if scope["type"] == "http":
                sender = counted(scope, sender, ports.served, ports.clocks.monotonic)
            await whatever_happens(answer, scope, receive, sender)

    return app


async def whatever_happens(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Have ``app`` answer; a fault of our own is an answer, too, and raises on to be logged."""
    begun = False

    async def send_and_note(message: Message) -> None:
        nonlocal begun
        begun = True
        await send(message)

    try:
        await app(scope, receive, send_and_note)
    except Exception:
        if not begun and scope["type"] == "http":
            await refuse(scope, send, BROKEN)
        raise


class _Others:
    """The paths that no request depends on."""

    def __init__(self, ports: Ports, flask_app: Flask) -> None:
        self._ports = ports
        self._local_picks = SnapshotEndpoint(ports)
        self._reload = ReloadEndpoint(ports.reload)
        self._pages = WSGIMiddleware(flask_app, workers=WORKERS)  # type: ignore[arg-type]

    async def after_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request when its body is here."""
        try:
            body = await read_body(scope, receive)
        except Gone:
            return
        if body is None:
            await refuse(scope, send, too_large(BODY_LIMIT))
        else:
            await self(scope, again(body, receive), send)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope.get("path")
        if scope["type"] != "http":
            await self._pages(scope, receive, send)  # type: ignore[arg-type]
        elif path == "/api/v1/snapshot":
            await self._local_picks(scope, receive, send)
        elif path == "/-/healthy":
            await send_verdict(scope, send, self._ports.alive(), "scorer is healthy.")
        elif path == "/-/ready":
            await send_verdict(scope, send, self._ports.ready(), "scorer is ready.")
        elif path == "/-/reload":
            await self._reload(scope, send)
        elif scope["path"].startswith("//"):  # Flask would take them for one slash
            await refuse(scope, send, unknown_path(scope["path"]))
        elif not scope["query_string"].isascii():
            await refuse(scope, send, NOT_ASCII)
        else:
            await self._pages(scope, receive, send)  # type: ignore[arg-type]


def unfailing(send: Send) -> Send:
    """Return a ``send`` that drops what can no longer be sent: its client is gone."""
    gone = False

    async def send_or_drop(message: Message) -> None:
        nonlocal gone
        if gone:
            return
        try:
            await send(message)
        except (OSError, RuntimeError):  # as transports say that they are closed
            gone = True

    return send_or_drop


async def send_verdict(scope: Scope, send: Send, problem: str | None, fine: str) -> None:
    """Send 200 and ``fine``, or 503 and the problem."""
    if scope["method"] not in READ:
        await refuse(scope, send, wrong_method(scope["path"], scope["method"], READ))
        return
    await send_text(scope, send, 200 if problem is None else 503, f"{problem or fine}\n")
