"""An engine that fails fast must not attract traffic: the whole loop on a virtual clock.

Picks, outcomes, scrapes and judgements go through the code that the daemon runs; the
engine that works is the emulated one.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from scorer.addresses import parse_address
from scorer.config import parse_config
from scorer.core.outcome import Outcome, OutcomeClass
from scorer.core.sample import Ask
from scorer.core.samples import Scrape
from scorer.core.snapshot import PoolView
from scorer.cycle import Cycle
from scorer.decisions import Decisions
from scorer.demo.cost import A100_8B
from scorer.demo.engine import Engine, Limits
from scorer.demo.exposition import EnginePage
from scorer.discovered import DiscoveredTarget, Found
from scorer.inflight import InFlight
from scorer.mappings.shipped import engine_mappings
from scorer.picker import Picker
from scorer.registry import Registry
from scorer.sources.mapping import PageReader

GOOD, BAD = "good:1", "bad:1"
LIMITS = Limits(kv_blocks=27_158)
CONFIG = f"pools: [{{name: chat, static_configs: [{{targets: ['{GOOD}', '{BAD}']}}]}}]"
FAILS_AFTER = 0.002
LOAD = 0.6


@dataclass
class World:
    """Two engines, one of which fails every request from ``breaks_at`` on."""

    breaks_at: float
    seed: int
    rate: float
    told: bool = True
    now: float = 0.0
    picks: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.inflight = InFlight()
        self.registry = Registry()
        named = tuple(DiscoveredTarget(parse_address(name)) for name in (GOOD, BAD))
        self.registry.apply(parse_config(CONFIG).pools, {"chat": Found(named)}, 0.0)
        self.pool = self.registry.pools["chat"]
        publish: Callable[[PoolView], None] = self.registry.publish
        self.cycle = Cycle(self.pool, self.inflight, publish, draw=self.dice.random)
        self.picker = Picker(self.inflight, Decisions(), self.dice.random)
        self.engines = {name: Engine(A100_8B, LIMITS, 0.0) for name in (GOOD, BAD)}
        self.pages = {
            name: EnginePage(engine, "m", 1000.0, {}) for name, engine in self.engines.items()
        }
        self.readers = {name: PageReader(engine_mappings()) for name in self.engines}
        self.picked_at: dict[str, float] = {}
        self.first_at: dict[str, float] = {}
        self.failures: list[tuple[float, str]] = []

    def run(self, until: float) -> None:
        """Let time pass: requests, failures, a scrape a second, two judgements a second."""
        arrival, scrape, tick = self.now, self.now, self.now + 0.1
        while self.now < until:
            due = self.failures[0][0] if self.failures else until
            self.now = min(arrival, scrape, tick, due, until)
            self._hear()
            if self.failures and self.failures[0][0] <= self.now:
                self._fail(self.failures.pop(0)[1])
            if self.now == scrape:
                self._scrape()
                scrape += 1.0
            if self.now == tick:
                self.cycle.tick(self.now)
                tick += 0.5
            if self.now == arrival and self.now > 2.0:
                self._request()
            if self.now == arrival:
                arrival += self.dice.expovariate(self.rate)

    def share(self, since: float) -> float:
        """Return the share of the picks ``since`` a moment that the failing engine got."""
        names = [name for at, name in self.picks if at >= since]
        return names.count(BAD) / len(names)

    def _request(self) -> None:
        prompt, output = self.dice.randint(50, 4000), self.dice.randint(20, 200)
        done = self.picker.pick(self.registry.snapshot.pools["chat"], Ask(prompt), self.now)
        assert done is not None
        name, pick_id = done[0].row.target, done[1]
        self.picks.append((self.now, name))
        self.picked_at[pick_id] = self.now
        if name == BAD and self.now >= self.breaks_at:
            self.failures.append((self.now + FAILS_AFTER, pick_id))
        else:
            self.engines[name].submit(pick_id, prompt, output, self.now)

    def _hear(self) -> None:
        for name, engine in self.engines.items():
            for made in engine.advance(self.now):
                if name == BAD and made.at >= self.breaks_at:
                    continue
                if made.generated == 1:
                    self.first_at[made.request_id] = made.at
                    self.inflight.first_token(made.request_id, made.at)
                if made.done:
                    ttft = self.first_at.pop(made.request_id) - self.picked_at[made.request_id]
                    self.inflight.done(made.request_id, made.at, fault=False)
                    self._tell(name, OutcomeClass.SUCCESS, made.request_id, ttft)

    def _fail(self, pick_id: str) -> None:
        self.inflight.done(pick_id, self.now, fault=True)
        self._tell(BAD, OutcomeClass.ENGINE_FAULT, pick_id, None)

    def _tell(self, name: str, kind: OutcomeClass, pick_id: str, ttft: float | None) -> None:
        outcome = Outcome(kind, "test", self.now, picked_at=self.picked_at[pick_id], ttft=ttft)
        self.pool.inbox.append((self.pool.targets[name], outcome))

    def _scrape(self) -> None:
        for name, page in self.pages.items():
            mark = self.inflight.mark("chat", name, self.now)
            read = self.readers[name].read(
                page.render(), "text/plain; version=0.0.4", complete=True
            )
            news = Scrape(read, self.now, self.now + 0.01, mark.picks, mark)
            self.pool.inbox.append((self.pool.targets[name], news))


def capacity() -> float:
    """Return the requests a second that one engine finishes with all it can do."""
    engine, dice = Engine(A100_8B, LIMITS, 0.0), random.Random(5)
    submit = partial(engine.submit, now=0.0)
    for number in range(3000):
        submit(str(number), dice.randint(50, 4000), dice.randint(20, 200))
    return sum(made.done for made in engine.advance(60.0)) / 60.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_engine_that_fails_in_two_milliseconds_loses_its_share(seed: int) -> None:
    """Under 5 % of the picks of a pool of two at 60 % load, from ten seconds after it broke."""
    world = World(breaks_at=20.0, seed=seed, rate=LOAD * 2 * capacity())
    world.run(60.0)
    before = [name for at, name in world.picks if 5.0 <= at < 20.0]
    assert 0.3 < before.count(BAD) / len(before) < 0.7
    assert world.share(30.0) < 0.05
