"""Calls of an ASGI application without a server."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reply:
    """What an application sent; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def http_scope(path, query=b"", method="GET", headers=()):
    """Return the scope of a request, as uvicorn builds it."""
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": query,
        "headers": [(b"host", b"scorer:9808"), *headers],
        "server": ("127.0.0.1", 9808),
        "client": ("127.0.0.1", 50000),
    }


async def _receive():
    return {"type": "http.request", "body": b"", "more_body": False}


async def _exchange(app, scope):
    sent = []

    async def send(message):
        sent.append(message)

    await app(scope, _receive, send)
    return sent


def reply(sent):
    """Return the reply of the messages ``sent``."""
    start, *bodies = sent
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]}
    return Reply(start["status"], headers, b"".join(part.get("body", b"") for part in bodies))


def call(app, path, query=b"", method="GET", headers=()):
    """Return the reply of ``app`` to one request."""
    return reply(asyncio.run(_exchange(app, http_scope(path, query, method, headers))))


def drive(app, scope):
    """Return the reply of an ``app`` that never waits, without an event loop."""
    sent = []

    async def send(message):
        sent.append(message)

    coroutine = app(scope, _receive, send)
    try:
        coroutine.send(None)
    except StopIteration:
        return reply(sent)
    raise AssertionError("the application waited for something")
