"""What happens to the pool while the demo runs: a noisy neighbour, then a restart, for ever.

One round: calm; a batch job sends long documents straight to one engine, so that only its
metrics tell; recovery; another engine restarts; warm-up. Every event is told in words.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scorer.demo.client import Shape, stream
from scorer.demo.server import EngineServer


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each part of a round, and between two documents of the noisy neighbour."""

    calm: float = 8.0
    noise: float = 10.0
    recovery: float = 38.0
    down: float = 4.0
    warmup: float = 30.0
    document_every: float = 1.0


class Scenario:
    """Runs the rounds on ``servers``; ``say`` gets each event as a sentence."""

    def __init__(
        self,
        servers: Sequence[EngineServer],
        say: Callable[[str], None],
        rng: random.Random,
        timing: Timing | None = None,
    ) -> None:
        self._servers = servers
        self._say = say
        self._rng = rng
        self._timing = timing or Timing()
        self._documents: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Play round after round until cancelled; the victims move on each time."""
        noisy = min(2, len(self._servers) - 1)
        while True:
            await self.play(noisy, (noisy + 1) % len(self._servers))
            noisy = (noisy + 1) % len(self._servers)

    async def play(self, noisy: int, restarted: int) -> None:
        """Play one round with the engines at these positions as victims."""
        timing = self._timing
        await asyncio.sleep(timing.calm)
        await self._disturb(noisy)
        await asyncio.sleep(timing.recovery)
        await self._restart(restarted)
        await asyncio.sleep(timing.warmup)

    def _name(self, position: int) -> str:
        """Return what an engine is called here, and on the status page."""
        return f"engine {position + 1} ({self._servers[position].address})"

    async def _disturb(self, position: int) -> None:
        name = self._name(position)
        self._say(
            f"{name} gets a pile of long documents behind the scorer's back:"
            " its KV cache fills and a queue forms, watch its score"
        )
        address = self._servers[position].address
        for _ in range(round(self._timing.noise / self._timing.document_every)):
            document = asyncio.create_task(self._document(address))
            self._documents.add(document)
            document.add_done_callback(self._documents.discard)
            await asyncio.sleep(self._timing.document_every)
        self._say(
            f"no more documents for {name}: its queue drains, then its score comes back,"
            " by at most 15 points a second"
        )

    async def _document(self, address: str) -> None:
        shape = Shape(self._rng.randint(11_000, 15_000), self._rng.randint(150, 250))
        try:
            await stream(address, shape, on_first_token=lambda: None)
        except OSError:
            # The neighbour's own troubles are not part of the story.
            return

    async def _restart(self, position: int) -> None:
        name = self._name(position)
        self._say(f"{name} restarts: connections are refused, its streams break")
        await self._servers[position].restart(self._timing.down)
        self._say(f"{name} is back, empty: its score climbs from 0, 15 points a second")
