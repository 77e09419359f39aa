"""The real daemon with two routes to compare ``/pick`` with.

``/bench/noop`` sends 70 fixed bytes from the same ASGI application: what the server
itself costs. ``/bench/flask`` answers the very same pick from a Flask view:
what ``/pick`` would cost as one more page. Neither is part of the product.
"""

import argparse
import random
from pathlib import Path

from flask import Response, request

from scorer import logs
from scorer.config import load_config
from scorer.daemon import Daemon
from scorer.http.pick import PickEndpoint
from scorer.http.ports import ASGIApp, Ports, Receive, Scope, Send
from scorer.serving import listen, serve

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
    """Add a Flask view that answers as ``/pick`` does, with the endpoint's own code."""
    ports = Ports(
        snapshot=lambda: daemon.registry.snapshot,
        inflight=daemon.inflight,
        stats=daemon.picks,
        ready=daemon.ready,
        exposition=lambda *_: ((), b""),
        dice=random.Random(),
        version="",
        clocks=daemon.clocks,
    )
    endpoint = PickEndpoint(ports)
    clock = daemon.clocks.monotonic

    def view() -> Response:
        started = clock()
        answer = endpoint._answer(request.environ["asgi.scope"])  # noqa: SLF001 - the same pick, on purpose
        daemon.picks.record(answer.pool, clock() - started, answer.failure)
        headers = [(name.decode(), value.decode()) for name, value in answer.headers]
        return Response(answer.body, answer.status, headers)

    daemon.flask.add_url_rule(FLASK, "bench", view)


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
