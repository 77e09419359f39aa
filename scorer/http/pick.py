"""``/pick``: which target gets the next request.

Answered on the event loop from the published snapshot: no I/O, no lock, no await but
the sending itself. Whatever goes wrong inside is an answer and a count, never a dead
connection.
"""

from collections.abc import Iterable

import structlog

from scorer.core.snapshot import PoolView
from scorer.http.answers import Answer, picked, refused
from scorer.http.parameters import Refused, understood
from scorer.http.ports import Ports, Receive, Scope, Send
from scorer.http.router import Router
from scorer.pick_stats import PickFailure
from scorer.picker import Picker

LOG_INTERVAL = 10.0
"""Seconds between two log lines about faults of our own, however many requests meet one."""

logger = structlog.stdlib.get_logger(__name__)


class PickEndpoint:
    """``/pick``, as an ASGI application and for whoever has read the request already.

    Runs on one event loop. Whoever answers in its place counts that in ``served``.
    """

    def __init__(self, ports: Ports) -> None:
        """Serve picks of what ``ports`` publishes."""
        self.served = ports.served
        self._ports = ports
        self._clock = ports.clocks.monotonic
        self._router = Router()
        self._picker = Picker(ports.inflight, ports.decisions, ports.dice.random)
        self._logged_at = -LOG_INTERVAL

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer one request; its body, if any, is not read."""
        bare = scope["path"] == "/pick"
        answer = self.answer(scope["query_string"], scope["headers"], bare=bare)
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})

    def answer(self, query: bytes, headers: Iterable[tuple[bytes, bytes]], *, bare: bool) -> Answer:
        """Return the answer to a request and count it; ``bare`` without a path below /pick."""
        started = self._clock()
        try:
            answer = self._pick(query, headers, started, bare=bare)
        except Exception as error:  # noqa: BLE001 - the caller is owed an answer whatever happens
            answer = self._broken(error)
        self._ports.stats.record(answer.pool, self._clock() - started, answer.failure)
        return answer

    def _pick(
        self, query: bytes, headers: Iterable[tuple[bytes, bytes]], now: float, *, bare: bool
    ) -> Answer:
        request = understood(query, headers, bare=bare)
        if isinstance(request, Refused):
            return refused(request)
        pool = self._router.resolve(self._ports.snapshot(), request)
        if isinstance(pool, Refused):
            return refused(pool)
        done = self._picker.pick(pool, request.ask, now)
        if done is None:
            return refused(_no_target(pool))
        return picked(pool, *done, request.format)

    def _broken(self, error: Exception) -> Answer:
        if self._clock() - self._logged_at >= LOG_INTERVAL:
            self._logged_at = self._clock()
            logger.error("Pick failed", exc_info=error)
        return refused(Refused(500, PickFailure.INTERNAL, "the pick failed, see the log"))


def _no_target(pool: PoolView) -> Refused:
    why = "every target is excluded or draining" if pool.targets else "the pool has no target"
    return Refused(503, PickFailure.NO_TARGET, f"pool {pool.name}: {why}", pool.name)
