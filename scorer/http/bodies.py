"""Request bodies: read piece by piece up to a limit, so that nobody can fill memory.

A body is whole before anything that could block sees it, so a client that sends slowly
holds a connection and no thread.
"""

from collections.abc import Sequence

from scorer.http.ports import Message, Receive, Scope

BODY_LIMIT = 1 << 20
"""Bytes of a request body."""


class Gone(Exception):  # noqa: N818 - an event
    """The client went away before its request was whole."""


async def read_body(scope: Scope, receive: Receive) -> bytes | None:
    """Return the request body, None when it is too large; Gone without its end.

    One that announces its length is refused before any of it is asked for.
    """
    if _announced(scope["headers"]) > BODY_LIMIT:
        return None
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        body += message.get("body", b"")
        if len(body) > BODY_LIMIT:
            return None
        if not message.get("more_body"):
            return bytes(body)


def has_body(scope: Scope) -> bool:
    """Return whether a request says that it has a body."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def again(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that hands out a body that was read, then goes on with the old one."""
    read = False

    async def replay() -> Message:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _announced(headers: Sequence[tuple[bytes, bytes]]) -> int:
    """Return the content length that request headers announce, 0 without one."""
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0
