"""Emulated engines behind the real picker on a virtual clock."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from scorer.core.sample import Ask
from scorer.decisions import Decisions
from scorer.demo.cost import A100_8B
from scorer.demo.engine import Engine, Limits
from scorer.inflight import InFlight
from scorer.picker import Picker
from tests.http.builders import pool, target

SCRAPE_EVERY, TICK, SCRAPE_TAKES = 1.0, 0.5, 0.01
LIMITS = Limits(kv_blocks=27_158)
"""The KV cache of an A100 with an 8B model."""


@dataclass
class Gateway:
    """What the gateway tells: each event with probability ``heard``."""

    heard: float
    dice: random.Random

    def hears(self) -> bool:
        return self.dice.random() < self.heard


class World:
    """A pool of engines, a Poisson stream of requests, scrapes and a gateway."""

    def __init__(self, *, heard: float, engines: int = 4, seed: int = 1) -> None:
        self.dice = random.Random(seed)
        self.gateway = Gateway(heard, random.Random(seed + 1))
        self.now = 0.0
        self.inflight = InFlight()
        self.picker = Picker(self.inflight, Decisions(), random.Random(seed + 2).random)
        self.engines = {f"t{n}:1": Engine(A100_8B, LIMITS, 0.0) for n in range(engines)}
        self.view = pool(*(target(name) for name in self.engines))
        self.unheard_ends = 0
        self.scraped: Callable[[str], None] = lambda _: None

    def run(self, seconds: float, rate: float, prompt: tuple[int, int] = (50, 4000)) -> None:
        """Let ``rate`` requests a second come for some seconds; 0 lets those under way end."""
        end, arrival = self.now + seconds, self.now + self._gap(rate)
        tick, scrape = self.now, self.now + TICK / 2
        while self.now < end:
            self.now = min(arrival, tick, scrape, end)
            self._advance()
            if self.now == arrival:
                self._request(*prompt)
                arrival += self._gap(rate)
            if self.now == tick:
                self.inflight.prepare(self.view, self.now)
                tick += TICK
            if self.now == scrape:
                self._scrape()
                scrape += SCRAPE_EVERY

    def under_way(self, name: str) -> int:
        """Return how many requests an engine has."""
        return self.engines[name].running + self.engines[name].waiting

    def in_flight(self, name: str) -> int:
        """Return how many requests we think that it has."""
        return self.inflight.reading("chat", name, self.now).in_flight

    def lost(self) -> int:
        """Return how many leases were closed without a word."""
        return sum(self.inflight.reading("chat", name, self.now).lost for name in self.engines)

    def _gap(self, rate: float) -> float:
        return self.dice.expovariate(rate) if rate else float("inf")

    def _request(self, shortest: int, longest: int) -> None:
        prompt, output = self.dice.randint(shortest, longest), self.dice.randint(20, 200)
        done = self.picker.pick(self.view, Ask(prompt), self.now)
        assert done is not None
        choice, pick_id = done
        self.engines[choice.row.target].submit(pick_id, prompt, output, self.now)

    def _advance(self) -> None:
        """Tell what the engines made until now, as far as the gateway does."""
        for engine in self.engines.values():
            for made in engine.advance(self.now):
                if made.generated == 1 and self.gateway.hears():
                    self.inflight.first_token(made.request_id, made.at)
                if made.done:
                    heard = self.gateway.hears()
                    self.unheard_ends += not heard
                    if heard:
                        self.inflight.done(made.request_id, made.at, fault=False)

    def _scrape(self) -> None:
        for name, engine in self.engines.items():
            mark = self.inflight.mark("chat", name, self.now)
            self.inflight.reconcile(
                "chat", name, float(engine.running), float(engine.waiting), self.now,
                self.now + SCRAPE_TAKES, mark,
            )  # fmt: skip
            self.scraped(name)
