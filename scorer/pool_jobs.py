"""What runs for each pool: a scrape per target, and the judgement of the pool.

A configuration, or what discovery found, is brought to the scheduler here. A job that is
the same as before is left alone, so that a reload disturbs nobody.
"""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from scorer.config import Config
from scorer.config.pool import PoolConfig
from scorer.core.contact import FALL
from scorer.core.health import TargetHealth
from scorer.core.samples import Scrape
from scorer.cycle import Cycle
from scorer.discovered import DiscoveredTarget
from scorer.pauses import Pauses
from scorer.registry import Pool
from scorer.shared import Shared
from scorer.sources.configured import scrape_target
from scorer.sources.engine import EngineSource
from scorer.sources.places import ScrapeTarget

TICK = 0.5
"""Seconds between two judgements of a pool; less when it is scraped more often."""
LARGE_POOL, LARGE_TICK = 250, 1.0
"""From this many targets on a judgement takes long enough to be made once a second."""
PATIENCE = 10.0
"""Seconds without the end of a scrape, at least, after which a target counts as unseen."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job does; a reload that changes none of it leaves the job alone.

    ``owner`` is the pool or the target that the job works for, by identity.
    """

    owner: int
    interval: float
    target: ScrapeTarget | None = None


class PoolJobs:
    """The jobs of all pools, in a scheduler that others use too.

    ``changing`` is held by whoever arms or removes jobs.
    """

    def __init__(self, shared: Shared, changing: threading.Lock) -> None:
        """Start without any job."""
        self._scheduler, self._registry, self._inflight, self._stats, self._clocks = shared
        self._changing = changing
        self._plans: dict[str, Plan] = {}
        self._sources: dict[str, EngineSource] = {}
        self._ticks: dict[str, Callable[[], None]] = {}

    def stop(self) -> None:
        """Close every connection."""
        for source in self._sources.values():
            source.close()

    def judge(self, pool: str) -> None:
        """Judge a pool at once, if it is still there."""
        if tick := self._ticks.get(f"score {pool}"):
            tick()

    def judge_all(self) -> None:
        """Judge every pool once more."""
        for tick in list(self._ticks.values()):
            tick()

    def path(self, pool: str, target: str) -> str | None:
        """Return the path at which a target's page is, None when it is not scraped."""
        source = self._sources.get(f"scrape {pool} {target}")
        return source.place.path if source else None

    def remove(self, names: set[str]) -> None:
        """Take jobs out of the scheduler, whoever armed them."""
        for name in names:
            self._scheduler.remove(name)
            self._retire(name)

    def schedule(
        self, config: PoolConfig, whole: Config, found_targets: Sequence[DiscoveredTarget]
    ) -> set[str]:
        """Arm the jobs of a pool where they changed; return the names of all of them."""
        pool = self._registry.pools[config.name]
        interval = whole.interval(config)
        names = {
            self._arm_scoring(
                pool, min(TICK if len(pool.targets) < LARGE_POOL else LARGE_TICK, interval)
            )
        }
        for found in found_targets:
            health = pool.targets.get(found.address.name)
            if health is None:  # it has just been found: an update of its own follows
                continue
            self._inflight.start_rate(config.name, found.address.name, found.capacity)
            if config.source != "scrape":
                health.patience = math.inf  # one job asks for all, and always comes to an end
                continue
            target = scrape_target(found, config, whole)
            names.add(self._arm_scrape(target, interval, pool, health))
        return names

    def _arm_scoring(self, pool: Pool, interval: float) -> str:
        """Judge a pool at once, and from then on every ``interval`` seconds."""
        name = f"score {pool.facts.name}"
        plan = Plan(id(pool), interval)
        if self._plans.get(name) == plan:
            self._ticks[name]()
        else:
            tick = self._ticks[name] = self._tick_of(pool)
            tick()
            self._plans[name] = plan
            self._scheduler.every(name, interval, tick, executor="score")
        return name

    def _arm_scrape(
        self, target: ScrapeTarget, interval: float, pool: Pool, health: TargetHealth
    ) -> str:
        name = f"scrape {health.id.pool} {health.id.target}"
        plan = Plan(id(health), interval, target)
        if self._plans.get(name) == plan:
            return name
        self._retire(name)
        source = EngineSource(target)
        self._plans[name], self._sources[name] = plan, source
        self._every(name, interval, source, pool, health)
        return name

    def _every(
        self, name: str, interval: float, source: EngineSource, pool: Pool, health: TargetHealth
    ) -> None:
        health.patience = max(PATIENCE, FALL * interval + source.patience)
        self._scheduler.every(
            name,
            interval,
            partial(self._scrape, name, interval, source, pool, health),
            missed=partial(self._stats.scrape_missed, health.id.pool, health.id.target),
        )

    def _retire(self, name: str) -> None:
        self._plans.pop(name, None)
        self._ticks.pop(name, None)
        if source := self._sources.pop(name, None):
            source.close()

    def _scrape(
        self, name: str, interval: float, source: EngineSource, pool: Pool, health: TargetHealth
    ) -> None:
        """Scrape one target and leave the result in its pool's inbox.

        A source that was replaced meanwhile was closed under way: its result says
        nothing about the target. A page that wants another pace gets it from here on.
        """
        started = self._clocks.monotonic()
        mark = self._inflight.mark(health.id.pool, health.id.target, started)
        result = source.scrape()
        ended = self._clocks.monotonic()
        if self._sources.get(name) is not source:
            return
        pool.inbox.append((health, Scrape(result, started, ended, mark.picks, mark)))
        self._stats.scrape_done(health.id.pool, ended - started)
        plan = self._plans.get(name)
        wanted = source.interval or (plan.interval if plan else interval)
        if wanted != interval:
            with self._changing:
                if self._sources.get(name) is source:
                    self._every(name, wanted, source, pool, health)

    def _tick_of(self, pool: Pool) -> Callable[[], None]:
        cycle = Cycle(pool, self._inflight, self._registry.publish, pauses=Pauses())
        clock = self._clocks.monotonic

        def tick() -> None:
            started = clock()
            cycle.tick(started)
            ended = clock()
            self._stats.scoring_done(pool.facts.name, ended - started, ended)

        return tick
