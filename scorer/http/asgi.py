"""The ASGI application: who answers which path.

On the event loop: ``/pick``, because it is on the way of every request, and the
health endpoints, because a busy thread pool must not fail a liveness probe. All other
paths go to Flask in a small pool of threads. Flask renders a page whole before any of
it is sent, and a2wsgi queues it in one piece, so a client that reads slowly holds a
connection and no thread.
"""

from a2wsgi import WSGIMiddleware
from flask import Flask

from scorer.http.pick import PickEndpoint
from scorer.http.ports import ASGIApp, Ports, Receive, Scope, Send

WORKERS = 4
"""Threads that render pages."""
HEALTH_METHODS = ("GET", "HEAD")


def build_asgi(ports: Ports, flask_app: Flask) -> ASGIApp:
    """Return the whole HTTP interface as one ASGI application."""
    picks = PickEndpoint(ports)
    pages = WSGIMiddleware(flask_app, workers=WORKERS)  # type: ignore[arg-type]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await pages(scope, receive, send)  # type: ignore[arg-type]
            return
        path: str = scope["path"]
        if path == "/pick" or path.startswith("/pick/"):
            await picks(scope, receive, send)
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
