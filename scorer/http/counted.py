"""Counts the requests that go through the ASGI application, by route.

Flask notes the route that it found in the request's scope; the others are told by their
path. Where nobody answers, because the client is gone, nothing is counted.
"""

from collections.abc import Callable

from flask import Response, request

from scorer.http.ports import Message, Scope, Send
from scorer.http_stats import HANDLERS, OTHER, PICK, HttpStats

ROUTE = "scorer.route"
TIMED_ELSEWHERE = PICK
"""Its durations are those of picks, by pool."""


def counted(scope: Scope, send: Send, stats: HttpStats, clock: Callable[[], float]) -> Send:
    """Return a ``send`` that counts the answer of ``scope`` when it is complete.

    ``clock`` returns monotonic seconds.
    """
    started, status = clock(), 0

    async def send_and_count(message: Message) -> None:
        nonlocal status
        await send(message)
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body" and not message.get("more_body"):
            handler = handler_of(scope)
            stats.count(handler, scope["method"], status)
            if handler != TIMED_ELSEWHERE:
                stats.took(handler, clock() - started)

    return send_and_count


def handler_of(scope: Scope) -> str:
    """Return the route of a request."""
    route: str | None = scope.get(ROUTE)
    if route is not None:
        return route
    path: str = scope["path"]
    if path.startswith("/pick/"):
        return PICK
    return path if path in HANDLERS else OTHER


def note_route(response: Response) -> Response:
    """Note the route of Flask's current request in its scope; ``response`` stays as it is."""
    rule, scope = request.url_rule, request.environ.get("asgi.scope")
    if rule is not None and scope is not None:
        scope[ROUTE] = route(rule.rule)
    return response


def route(rule: str) -> str:
    """Return a rule of Flask's without the kinds of its parameters."""
    return rule.replace("<path:", "<")
