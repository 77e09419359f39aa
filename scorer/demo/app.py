"""The HTTP face of an emulated engine: a bare ASGI app in the shape of vLLM's server.

``POST /v1/chat/completions`` and ``/v1/completions`` (streamed or not), ``GET /metrics``,
``/health`` and ``/v1/models``. An answer whose engine is lost just stops: the server then
breaks the connection, as a dying process does.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextlib import aclosing
from typing import Any

from scorer.demo import openai
from scorer.demo.driver import Driver, StreamLostError
from scorer.demo.exposition import EnginePage

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

CHAT_PATH = "/v1/chat/completions"
STREAM_INTERVAL = 8
"""Tokens per event after the first one, as with vLLM's ``--stream-interval``."""

JSON = b"application/json"
EVENT_STREAM = b"text/event-stream; charset=utf-8"
METRICS = b"text/plain; version=0.0.4; charset=utf-8"


class EngineApp:
    """ASGI application of one incarnation of an engine (``start_time`` in Unix seconds)."""

    def __init__(self, driver: Driver, model_name: str, start_time: float) -> None:
        self._driver = driver
        self._model = model_name
        self._http_requests: Counter[tuple[str, str, str]] = Counter()
        self._page = EnginePage(driver.engine, model_name, start_time, self._http_requests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        match (scope["method"], scope["path"]):
            case ("POST", "/v1/chat/completions" | "/v1/completions" as path):
                await self._generation(path, receive, send)
            case ("GET", "/metrics"):
                await _answer(send, 200, self._page.render(), METRICS)
            case ("GET", "/health"):
                await _answer(send, 200, b"")
            case ("GET", "/v1/models"):
                await _answer(send, 200, openai.models(self._model))
            case _:
                await _answer(send, 404, b'{"detail":"Not Found"}')

    async def _generation(self, path: str, receive: Receive, send: Send) -> None:
        body = await _body(receive)
        try:
            request = openai.GenerationRequest.model_validate_json(body)
            self._driver.check(request.prompt_tokens, request.max_tokens)
        except ValueError as error:
            self._http_requests[path, "POST", "4xx"] += 1
            await _answer(send, 400, openai.error(str(error)))
            return
        answer = self._stream if request.stream else self._whole
        work = answer(request, send, chat=path == CHAT_PATH)
        if await _completed(work, receive):
            self._http_requests[path, "POST", "2xx"] += 1

    async def _stream(self, request: openai.GenerationRequest, send: Send, *, chat: bool) -> None:
        await send(_start(200, EVENT_STREAM))
        sent = 0
        stream = self._driver.generate(request.prompt_tokens, request.max_tokens)
        async with aclosing(stream) as tokens:
            async for token in tokens:
                if sent and not token.done and token.generated - sent < STREAM_INTERVAL:
                    continue
                event = openai.event(
                    self._model, token.generated - sent, chat=chat, done=token.done
                )
                sent = token.generated
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    async def _whole(self, request: openai.GenerationRequest, send: Send, *, chat: bool) -> None:
        stream = self._driver.generate(request.prompt_tokens, request.max_tokens)
        async with aclosing(stream) as tokens:
            async for _ in tokens:
                pass
        await _answer(send, 200, openai.answer(self._model, request, chat=chat))


def _start(status: int, content_type: bytes, length: int | None = None) -> Event:
    headers = [(b"content-type", content_type)]
    if length is not None:
        headers.append((b"content-length", str(length).encode()))
    return {"type": "http.response.start", "status": status, "headers": headers}


async def _answer(send: Send, status: int, body: bytes, content_type: bytes = JSON) -> None:
    await send(_start(status, content_type, len(body)))
    await send({"type": "http.response.body", "body": body})


async def _body(receive: Receive) -> bytes:
    body = b""
    more = True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    return body


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _completed(work: Coroutine[Any, Any, None], receive: Receive) -> bool:
    """Run ``work`` until the client leaves; return whether it was answered in full."""
    answering = asyncio.create_task(work)
    watching = asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            await answering
        return answering.done()
    except StreamLostError:
        return False
    finally:
        watching.cancel()
        answering.cancel()
        await asyncio.gather(answering, watching, return_exceptions=True)
