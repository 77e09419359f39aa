"""Runs an emulated engine on the event loop: its steps take real time.

The engine is asked what happened whenever its current step is due, and each token goes
to the queue of the request it belongs to.
"""

import asyncio
from collections.abc import AsyncGenerator
from itertools import count

from scorer.demo.engine import Engine, Progress


class StreamLostError(Exception):
    """The engine went away before the request was finished."""


class Driver:
    """Feeds requests to ``engine`` and its tokens to their readers, on the running loop."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._loop = asyncio.get_running_loop()
        self._streams: dict[str, asyncio.Queue[Progress | None]] = {}
        self._ids = count(1)
        self._timer: asyncio.TimerHandle | None = None

    def check(self, prompt: int, output: int) -> None:
        """Raise ValueError for a request that could never be served."""
        if not self.engine.fits(prompt, output):
            raise ValueError(f"{prompt} + {output} tokens exceed the maximum context length")

    async def generate(self, prompt: int, output: int) -> AsyncGenerator[Progress]:
        """Yield each token of a request when it is made.

        Leaving early aborts the request. Raises StreamLostError when the engine restarts
        meanwhile.
        """
        request_id = f"demo-{next(self._ids)}"
        self.engine.submit(request_id, prompt, output, self._loop.time())
        stream = self._streams[request_id] = asyncio.Queue()
        self._deliver()
        try:
            while (progress := await stream.get()) is not None:
                yield progress
                if progress.done:
                    return
            raise StreamLostError(request_id)
        finally:
            if self._streams.pop(request_id, None) is not None:
                self.engine.abort(request_id, self._loop.time())

    def restart(self) -> None:
        """Restart the engine: every reader gets StreamLostError."""
        self.engine.restart(self._loop.time())
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.put_nowait(None)
        self._deliver()

    def _deliver(self) -> None:
        """Hand out the tokens made until now and wake up again at the end of the step."""
        for progress in self.engine.advance(self._loop.time()):
            stream = self._streams.get(progress.request_id)
            if stream is not None:
                stream.put_nowait(progress)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.engine.due is not None:
            self._timer = self._loop.call_at(self.engine.due, self._deliver)
