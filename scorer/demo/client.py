"""An open-loop client: it asks the daemon where to send each request, as a gateway does.

Arrivals are Poisson whatever the answers take, so a slow engine is not spared. Prompts
are mostly short; a few are documents of up to 16K tokens. A target that cannot be
connected to is replaced by the alternate that the pick named, once.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from scorer.demo.openai import BYTES_PER_TOKEN
from scorer.demo.wire import KeepAlive, connected

CHAT_PATH = "/v1/chat/completions"
PATIENCE = 60.0
"""Seconds after which a request is given up."""
DOCUMENT_SHARE = 0.03
MAX_IN_FLIGHT = 300
"""Requests at once; each costs two of this process's file descriptors."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Lengths of one request in tokens."""

    prompt: int
    output: int


def draw_shape(rng: random.Random) -> Shape:
    """Draw a request: a chat turn of about 250 tokens or, rarely, a document of 4K to 16K."""
    output = rng.randint(60, 240)
    if rng.random() < DOCUMENT_SHARE:
        return Shape(rng.randint(4_000, 16_000), output)
    return Shape(min(2_000, round(rng.lognormvariate(5.5, 0.8))) + 1, output)


async def stream(target: str, shape: Shape, on_first_token: Callable[[], None]) -> None:
    """Send a streaming request to ``target`` and read its answer to the end.

    Raises OSError when the target cannot be connected to, refuses or breaks off.
    """
    text = "word".ljust(BYTES_PER_TOKEN) * shape.prompt
    body = {
        "messages": [{"role": "user", "content": text}],
        "max_tokens": shape.output,
        "stream": True,
    }
    async with connected(target) as connection:
        status = await connection.request("POST", CHAT_PATH, json.dumps(body).encode())
        if status != 200:
            raise ConnectionAbortedError(f"{target} answered {status}")
        async with aclosing(connection.body()) as parts:
            await anext(parts)
            on_first_token()
            async for _ in parts:
                pass


@dataclass(slots=True)
class Window:
    """What the client saw since it was last asked.

    ``picks`` by target; ``ttfts`` in seconds, asking for the pick included; then how many
    requests went to the alternate, were broken off by the engine, failed otherwise, got
    no pick, and were not sent because too many were under way.
    """

    picks: Counter[str] = field(default_factory=Counter)
    ttfts: list[float] = field(default_factory=list)
    retried: int = 0
    broken: int = 0
    failed: int = 0
    unpicked: int = 0
    unsent: int = 0

    def ttft(self, quantile: float) -> float | None:
        """Return a quantile (0-1) of the TTFTs in seconds; None without any."""
        ordered = sorted(self.ttfts)
        return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))] if ordered else None

    def share(self, target: str) -> float | None:
        """Return the share of the picks that went to ``target``, 0-1; None without any."""
        total = self.picks.total()
        return self.picks[target] / total if total else None


@dataclass(frozen=True, slots=True)
class _Pick:
    target: str
    alternates: tuple[str, ...]


class LoadClient:
    """Sends ``rate`` requests a second where ``daemon`` says."""

    def __init__(self, daemon: KeepAlive, rate: float, rng: random.Random) -> None:
        self._daemon = daemon
        self._rate = rate
        self._rng = rng
        self._window = Window()
        self._in_flight = 0

    async def run(self) -> None:
        """Send requests until cancelled."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        async with asyncio.TaskGroup() as requests:
            while True:
                due += self._rng.expovariate(self._rate)
                await asyncio.sleep(due - loop.time())
                if self._in_flight < MAX_IN_FLIGHT:
                    requests.create_task(self.send(draw_shape(self._rng)))
                else:
                    self._window.unsent += 1

    def take(self) -> Window:
        """Return what was seen since the last call."""
        window, self._window = self._window, Window()
        return window

    async def send(self, shape: Shape) -> None:
        """Have one request picked for and served; every failure is counted, none is raised."""
        self._in_flight += 1
        try:
            await self._send(shape, asyncio.get_running_loop().time())
        except ConnectionResetError:
            self._window.broken += 1
        except OSError:
            self._window.failed += 1
        finally:
            self._in_flight -= 1

    async def _send(self, shape: Shape, started: float) -> None:
        pick = await self._pick(shape.prompt)
        if pick is None:
            self._window.unpicked += 1
            return
        self._window.picks[pick.target] += 1
        try:
            await self._serve(pick.target, shape, started)
        except ConnectionRefusedError:
            if not pick.alternates:
                raise
            self._window.retried += 1
            await self._serve(pick.alternates[0], shape, started)

    async def _serve(self, target: str, shape: Shape, started: float) -> None:
        async with asyncio.timeout(PATIENCE):
            await stream(target, shape, lambda: self._first_token(started))

    def _first_token(self, started: float) -> None:
        self._window.ttfts.append(asyncio.get_running_loop().time() - started)

    async def _pick(self, prompt_tokens: int) -> _Pick | None:
        try:
            status, body = await self._daemon.get(f"/pick?prompt_tokens={prompt_tokens}")
        except OSError:
            return None
        if status != 200:
            return None
        answer = json.loads(body)
        return _Pick(answer["target"], tuple(answer["alternates"]))
