"""A registry with judged targets that operators may give orders about."""

import random
from functools import partial

from scorer.addresses import parse_address
from scorer.clocks import Clocks
from scorer.config import parse_config
from scorer.core.orders import Order
from scorer.core.sample import Ask
from scorer.core.snapshot import TargetView
from scorer.core.vocabulary import Verb
from scorer.cycle import Cycle
from scorer.decisions import Decisions
from scorer.discovered import DiscoveredTarget, Found
from scorer.inflight import InFlight
from scorer.operators import Operators
from scorer.picker import Picker
from scorer.registry import Registry
from tests.core.builders import page, scrape

A, B, SIX, DEEP = "10.0.0.1:8000", "10.0.0.2:8000", "[::1]:8000", "10.0.0.3:8000/eu/drain"
POOLS = {"chat": [A, B, SIX], "code": [B, DEEP]}
WALL = 1_900_000_000.0
"""Unix seconds at second 0: 2030-03-17T17:46:40Z."""


class World:
    """Two pools that share B, healthy, judged at second 3; a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.registry, self.inflight = Registry(), InFlight()
        self.clocks = Clocks(lambda: self.now, lambda: WALL + self.now)
        self.operators = Operators(self.registry, self.clocks, self.judge)
        self.cycles: dict[str, Cycle] = {}
        self.apply(POOLS)
        for _ in range(3):
            self.second()

    def apply(self, pools: dict[str, list[str]]) -> None:
        """Take a configuration with these pools of these targets."""
        text = "pools:\n" + "".join(
            f"  - {{name: {name}, static_configs: [{{targets: {targets}}}]}}\n"
            for name, targets in pools.items()
        )
        found = {
            name: Found(tuple(DiscoveredTarget(parse_address(text)) for text in targets))
            for name, targets in pools.items()
        }
        self.registry.apply(parse_config(text).pools, found, self.now)
        for name, pool in self.registry.pools.items():
            publish = self.registry.publish
            self.cycles.setdefault(
                name, Cycle(pool, self.inflight, publish, random.Random(1).random)
            )
            self.judge(name)

    def judge(self, pool: str) -> None:
        """Judge a pool at this moment."""
        self.cycles[pool].tick(self.now)

    def second(self) -> None:
        """Let a second pass, with a good scrape of every target."""
        self.now += 1.0
        for name, pool in self.registry.pools.items():
            pool.inbox.extend((each, scrape(page(), self.now)) for each in pool.targets.values())
            self.judge(name)

    def give(
        self, verb: Verb, target: str = A, pools: tuple[str, ...] = ("chat",), **said: object
    ) -> list[TargetView]:
        """Give an order; return the target as it is then published."""
        return self.operators.carry_out(Order(verb, **said), target, pools, "127.0.0.1")

    def view(self, target: str = A, pool: str = "chat") -> TargetView | None:
        """Return the published view of a target, None when there is none."""
        views = self.registry.snapshot.pools[pool].targets
        return next((each for each in views if each.target == target), None)

    def picks(self, count: int, pool: str = "chat") -> set[str]:
        """Return the targets of so many picks, alternates included."""
        picker = Picker(self.inflight, Decisions(), random.Random(7).random)
        pick = partial(picker.pick, self.registry.snapshot.pools[pool], Ask(), self.now)
        picked = [choice for choice, _ in (pick() for _ in range(count))]
        return {row.target for each in picked for row in (each.row, *each.alternates)}
