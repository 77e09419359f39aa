"""The ASGI application: who answers which path.

On the event loop: ``/pick`` and ``/feedback``, because every request causes one of each, the
health endpoints, because a busy thread pool must not fail a liveness probe, and the snapshot
for local pickers, for which clients wait. All other paths go to Flask in a small pool of
threads. A page is rendered whole and queued in one piece, and static files are smaller than
a2wsgi's queue of ten chunks, so a client that reads slowly holds a connection and no thread.
A streamed response would hold one.
"""

from a2wsgi import WSGIMiddleware
from flask import Flask

from scorer.http.feedback import FeedbackEndpoint
from scorer.http.pick import PickEndpoint
from scorer.http.ports import ASGIApp, Ports, Receive, Scope, Send
from scorer.http.snapshot import SnapshotEndpoint

WORKERS = 4
"""Threads that render pages."""
HEALTH_METHODS = ("GET", "HEAD")


def build_asgi(ports: Ports, flask_app: Flask, picks: PickEndpoint) -> ASGIApp:
    """Return the whole HTTP interface as one ASGI application."""
    feedback = FeedbackEndpoint(ports.feedback, ports.clocks.monotonic)
    local_picks = SnapshotEndpoint(ports)
    pages = WSGIMiddleware(flask_app, workers=WORKERS)  # type: ignore[arg-type]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await pages(scope, receive, send)  # type: ignore[arg-type]
            return
        path: str = scope["path"]
        if path == "/pick" or path.startswith("/pick/"):
            await picks(scope, receive, send)
        elif path == "/feedback":
            await feedback(scope, receive, send)
        elif path == "/api/v1/snapshot":
            await local_picks(scope, receive, send)
        elif path == "/-/healthy":
            await send_text(scope, send, 200, "scorer is healthy.\n")
        elif path == "/-/ready":
            reason = ports.ready()
            status = 200 if reason is None else 503
            await send_text(scope, send, status, f"{reason or 'scorer is ready.'}\n")
        elif not scope["query_string"].isascii():
            await send_text(scope, send, 400, "The query string must be ASCII.\n")
        else:
            await pages(scope, receive, send)  # type: ignore[arg-type]

    return app


async def send_text(scope: Scope, send: Send, status: int, text: str) -> None:
    """Send a short plain text answer to GET and HEAD, 405 to other methods."""
    headers = []
    if scope["method"] not in HEALTH_METHODS:
        status, text = 405, "Method not allowed.\n"
        headers.append((b"allow", b"GET, HEAD"))
    body = text.encode()
    headers += [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    shown = b"" if scope["method"] == "HEAD" else body
    await send({"type": "http.response.body", "body": shown})
