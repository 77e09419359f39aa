"""``POST /-/reload``: as the signal, with the answer once the configuration is applied or not."""

import asyncio
import threading
from collections.abc import Callable

from scorer.http.ports import Scope, Send
from scorer.http.problems import refuse, send_text, wrong_method

METHODS = ("POST", "PUT")
APPLIED = "The configuration was reloaded.\n"
REFUSED = "The configuration was not reloaded: the log names every problem.\n"
NOT_ENABLED = "Lifecycle API is not enabled.\n"


class ReloadEndpoint:
    """The ASGI application of ``/-/reload``; ``reload`` is None where it is not enabled.

    Requests that come while a reload runs share the next one.
    """

    def __init__(self, reload: Callable[[], bool] | None) -> None:
        """Reload with ``reload``, in a thread: it may wait for files."""
        self._reload = reload
        self._turn = asyncio.Lock()
        self._next: asyncio.Future[bool] | None = None

    async def __call__(self, scope: Scope, send: Send) -> None:
        """Answer one request."""
        if scope["method"] not in METHODS:
            await refuse(scope, send, wrong_method(scope["path"], scope["method"], METHODS))
        elif self._reload is None:
            await send_text(scope, send, 403, NOT_ENABLED)
        else:
            status, text = (200, APPLIED) if await self._shared() else (500, REFUSED)
            await send_text(scope, send, status, text)

    async def _shared(self) -> bool:
        if self._next is None:
            self._next = asyncio.ensure_future(self._in_turn())
        return await asyncio.shield(self._next)

    async def _in_turn(self) -> bool:
        async with self._turn:
            self._next = None
            return await _in_thread(self._reload) if self._reload else False


async def _in_thread(work: Callable[[], bool]) -> bool:
    """Return the result of ``work``, done in a thread that the end of the process ends.

    It fails as a reload does where it raises.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[bool] = loop.create_future()

    def settle(result: bool) -> None:  # noqa: FBT001 - called by the loop
        if not done.done():
            done.set_result(result)

    def run() -> None:
        result = False
        try:
            result = work()
        finally:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=run, name="reload", daemon=True).start()
    return await done
