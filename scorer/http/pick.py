"""``/pick``: which target gets the next request.

Answered on the event loop from the published snapshot: no I/O, no lock, no await but
the sending itself. Whatever goes wrong inside is an answer and a count, never a dead
connection.
"""

import logging
import secrets
from itertools import count

import structlog

from scorer.core.pick import Choice, pick
from scorer.core.snapshot import PoolView
from scorer.http.answers import Answer, picked, refused
from scorer.http.parameters import Refused, parse
from scorer.http.ports import Ports, Receive, Scope, Send
from scorer.http.router import Router
from scorer.pick_stats import PickFailure

LOG_INTERVAL = 10.0
"""Seconds between two log lines about faults of our own, however many requests meet one."""

logger = structlog.stdlib.get_logger(__name__)


class PickEndpoint:
    """The ASGI application of ``/pick``; runs on one event loop."""

    def __init__(self, ports: Ports) -> None:
        """Serve picks of what ``ports`` publishes."""
        self._ports = ports
        self._clock = ports.clocks.monotonic
        self._router = Router()
        self._ids = map(f"{secrets.token_hex(6)}-%x".__mod__, count())
        self._logged_at = -LOG_INTERVAL
        self._explains = logging.getLogger(__name__).isEnabledFor(logging.DEBUG)

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer one request; its body, if any, is not read."""
        started = self._clock()
        try:
            answer = self._answer(scope)
        except Exception as error:  # noqa: BLE001 - the caller is owed an answer whatever happens
            answer = self._broken(error)
        self._ports.stats.record(answer.pool, self._clock() - started, answer.failure)
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        body = b"" if scope["method"] == "HEAD" else answer.body
        await send({"type": "http.response.body", "body": body})

    def _answer(self, scope: Scope) -> Answer:
        request = parse(scope)
        if isinstance(request, Refused):
            return refused(request)
        pool = self._router.resolve(self._ports.snapshot(), request)
        if isinstance(pool, Refused):
            return refused(pool)
        inflight = self._ports.inflight
        choice = pick(pool, request.exclude, inflight.unseen, self._ports.dice)
        if choice is None:
            return refused(_no_target(pool))
        inflight.opened(pool.name, choice.target.target)
        if self._explains:
            self._tell(pool, choice)
        return picked(pool, choice, next(self._ids), request.format)

    def _tell(self, pool: PoolView, choice: Choice) -> None:
        """Write a pick to the log, with what it was weighed against."""
        drawn = (choice.target, *choice.alternates[:1])
        unseen = self._ports.inflight.unseen
        logger.debug(
            "Picked",
            pool=pool.name,
            target=choice.target.target,
            drawn=" ".join(f"{view.target}={view.score}-{unseen(view)}" for view in drawn),
            panic=choice.panic,
        )

    def _broken(self, error: Exception) -> Answer:
        if self._clock() - self._logged_at >= LOG_INTERVAL:
            self._logged_at = self._clock()
            logger.error("Pick failed", exc_info=error)
        return refused(Refused(500, PickFailure.INTERNAL, "the pick failed, see the log"))


def _no_target(pool: PoolView) -> Refused:
    why = "every target is excluded or draining" if pool.targets else "the pool has no target"
    return Refused(503, PickFailure.NO_TARGET, f"pool {pool.name}: {why}", pool.name)
