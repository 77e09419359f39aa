"""``GET /api/v1/snapshot``: the snapshot for local pickers, with ETag and long poll.

Waits on the event loop, where a waiting client costs a future, and renders in a thread,
once per version and coding however many ask for it. Whoever has seen version N of this process and
asks with ``since=N&wait=5s`` is answered when there is another one, or when the time is
over. Beyond a number of waiting clients nobody waits: the answer comes at once.
"""

import asyncio
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl

from scorer.codings import SMALLEST, accepts_gzip, packed
from scorer.core.snapshot import Snapshot
from scorer.durations import parse_duration
from scorer.http.answers import JSON_TYPE
from scorer.http.local_picks import snapshot_data
from scorer.http.ports import Ports, Receive, Scope, Send
from scorer.http.problems import READ, Problem, refuse, send_whole, wrong_method
from scorer.output_stats import Output

MOST_WAITING = 256
LONGEST_WAIT = 60.0
INSTANCE_BYTES = 4


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request asks for: how long to wait (seconds) for a version other than ``since``."""

    wait: float = 0.0
    since: int | None = None


class SnapshotEndpoint:
    """The ASGI application of ``/api/v1/snapshot``; runs on one event loop."""

    def __init__(self, ports: Ports) -> None:
        """Serve what ``ports`` publishes."""
        self._ports = ports
        self._instance = secrets.token_hex(INSTANCE_BYTES)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._rendered: tuple[int, asyncio.Future[bytes]] | None = None
        self._packed: tuple[int, asyncio.Future[bytes]] | None = None

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer one request."""
        wish = _wish(scope)
        if isinstance(wish, Problem):
            await refuse(scope, send, wish)
            return
        if wish.wait and wish.since == self._ports.snapshot().version:
            await self._another(wish.since, wish.wait)
        snapshot = self._ports.snapshot()
        self._ports.outputs.answered(Output.SNAPSHOT)
        etag = f'"{self._instance}-{snapshot.version}"'.encode()
        packed_etag = etag[:-1] + b'-gzip"'
        headers = [(b"cache-control", b"no-cache"), (b"vary", b"Accept-Encoding")]
        given = _tags(scope["headers"])
        for tag in (etag, packed_etag):
            if tag in given or b"*" in given:
                headers.append((b"etag", tag))
                await send({"type": "http.response.start", "status": 304, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
        body = await self._body(snapshot)
        if len(body) >= SMALLEST and accepts_gzip(_accepted(scope["headers"])):
            body, etag = await self._smaller(snapshot.version, body), packed_etag
            headers.append((b"content-encoding", b"gzip"))
        await send_whole(scope, send, 200, [*headers, (b"etag", etag), JSON_TYPE], body)

    async def _another(self, version: int, seconds: float) -> None:
        """Return when another version is published, when the time is over, or at once if full."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._ports.subscribe(self._published)
        if len(self._waiting) >= MOST_WAITING:
            return
        future = loop.create_future()
        self._waiting.add(future)
        try:
            # Looked at again: a version that came before the future was there woke nobody.
            if self._ports.snapshot().version == version:
                await asyncio.wait([future], timeout=seconds)
        finally:
            self._waiting.discard(future)

    def _published(self) -> None:
        """Wake those who wait; called from the thread that publishes."""
        if self._waiting and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def _body(self, snapshot: Snapshot) -> bytes:
        """Return the answer's body; requests that come while it is rendered share it."""
        if self._rendered is None or self._rendered[0] != snapshot.version:
            rendering = asyncio.ensure_future(asyncio.to_thread(self._render, snapshot))
            self._rendered = snapshot.version, rendering
        return await asyncio.shield(self._rendered[1])

    async def _smaller(self, version: int, body: bytes) -> bytes:
        """Return the body of a version compressed; requests that come meanwhile share it."""
        if self._packed is None or self._packed[0] != version:
            self._packed = version, asyncio.ensure_future(asyncio.to_thread(packed, body))
        return await asyncio.shield(self._packed[1])

    def _render(self, snapshot: Snapshot) -> bytes:
        ports = self._ports
        data = snapshot_data(snapshot, self._instance, ports.inflight, ports.clocks)
        answer = {"status": "success", "data": data}
        return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()


def _wish(scope: Scope) -> Wish | Problem:
    """Return what the request asks for, or why it is malformed."""
    if scope["method"] not in READ:
        return wrong_method(scope["path"], scope["method"], READ)
    given = dict(parse_qsl(scope["query_string"].decode("utf-8", "replace")))
    wait, since = given.get("wait", "0s"), given.get("since", "")
    try:
        seconds = parse_duration(wait)
    except ValueError as error:
        return Problem(400, "bad_data", f'wait: {error}, got "{wait[:64]}"')
    if seconds > LONGEST_WAIT:
        return Problem(400, "bad_data", f'wait: must be at most 60s, got "{wait[:64]}"')
    if since and not (since.isascii() and since.isdecimal() and len(since) <= 18):
        rule = "must be a version, which is a whole number"
        return Problem(400, "bad_data", f'since: {rule}, got "{since[:64]}"')
    return Wish(seconds, int(since) if since else None)


def _tags(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """Return the entity tags of ``If-None-Match``, weak ones as if they were strong."""
    return {
        tag.strip().removeprefix(b"W/")
        for name, value in headers
        if name == b"if-none-match"
        for tag in value.split(b",")
    }


def _accepted(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the codings that a client accepts."""
    values = [value for name, value in headers if name == b"accept-encoding"]
    return b",".join(values).decode("latin-1")
