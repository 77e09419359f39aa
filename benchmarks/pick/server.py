"""The real daemon with two routes to compare ``/pick`` with.

``/bench/noop`` sends 70 fixed bytes from the same ASGI application: what the server
itself costs. ``/bench/flask`` answers the very same pick from a Flask view:
what ``/pick`` would cost as one more page. Neither is part of the product.
"""

import argparse
from pathlib import Path

from flask import Response, request

from scorer import logs
from scorer.config import load_config
from scorer.daemon import Daemon
from scorer.http.ports import ASGIApp, Message, Receive, Scope, Send
from scorer.listening import listen
from scorer.serving import serve

NOOP, FLASK = "/bench/noop", "/bench/flask"
NOOP_BODY = b'{"noop":"%s"}' % (b"." * 59)
NOOP_HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-length", b"%d" % len(NOOP_BODY)),
]


def with_noop(app: ASGIApp) -> ASGIApp:
    """Return ``app`` with the no-op route in front."""

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != NOOP:
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": NOOP_HEADERS})
        await send({"type": "http.response.body", "body": NOOP_BODY})

    return routed


def add_flask_pick(daemon: Daemon) -> None:
    """Add a Flask view that answers as ``/pick`` does, with the daemon's own code."""
    app = daemon.asgi

    def view() -> Response:
        head, body = answered(app, {**request.environ["asgi.scope"], "path": "/pick"})
        headers = [(name.decode(), value.decode()) for name, value in head["headers"]]
        return Response(body["body"], head["status"], headers)

    daemon.flask.add_url_rule(FLASK, "bench", view)


def answered(app: ASGIApp, scope: Scope) -> list[Message]:
    """Return the two messages of an answer that waits for nothing, outside any event loop."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> None:
        await app(scope, receive, send)

    try:
        run().send(None)
    except StopIteration:
        return sent
    raise RuntimeError("a pick waited for something: it cannot be answered in a thread")


def main() -> None:
    """Serve the configuration given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path)
    options = parser.parse_args()
    config = load_config(options.config)
    logs.configure("error", "logfmt")
    daemon = Daemon(config, options.config)
    add_flask_pick(daemon)
    daemon.asgi = with_noop(daemon.asgi)
    serve(daemon, listen(config.web.listen_address))


if __name__ == "__main__":
    main()
