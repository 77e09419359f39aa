"""Composition root: builds the parts, keeps them in step with the configuration.

Three kinds of threads: the event loop answers ``/pick``; scrape threads fetch and
parse; scoring threads judge pools and publish snapshots. They meet in a pool's inbox
and in the published snapshot only.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from exporters.prometheus import Inputs, build_exposition
from scorer import __version__
from scorer.clocks import Clocks
from scorer.config import Config, load_config
from scorer.config.errors import ConfigError
from scorer.config.pool import PoolConfig
from scorer.core.health import TargetHealth
from scorer.core.samples import Scrape
from scorer.cycle import Cycle
from scorer.daemon_stats import DaemonStats
from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.ports import Ports
from scorer.inflight import InFlight
from scorer.pick_stats import PickStats
from scorer.registry import Pool, Registry
from scorer.scheduler import Scheduler
from scorer.sources.engine import EngineSource

logger = structlog.stdlib.get_logger(__name__)

TICK = 0.5
"""Seconds between two judgements of a pool; less when it is scraped more often."""
LARGE_POOL, LARGE_TICK = 250, 1.0
"""From this many targets on a judgement takes long enough to be made once a second."""
READY_GRACE = 10.0
"""Seconds after the start for which a pool that is not scored holds readiness back."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job does; a reload that changes none of it leaves the job alone.

    ``owner`` is the pool or the target that the job works for, by identity.
    """

    owner: int
    interval: float
    url: str = ""
    timeout: float = 0.0
    models: tuple[str, ...] = ()


class Daemon:
    """The running parts.

    ``asgi`` is the whole HTTP interface; ``flask`` the part of it that renders pages.
    """

    def __init__(self, config: Config, path: Path | None = None) -> None:
        """Build everything for ``config``; ``path`` is the file that a reload reads."""
        self.config = config
        self.clocks = Clocks()
        self.registry = Registry()
        self.inflight = InFlight()
        self.picks = PickStats()
        self.stats = DaemonStats()
        self.scheduler = Scheduler(self.clocks.monotonic)
        self.stopping = False
        self._path = path
        self._web = config.web
        self._plans: dict[str, Plan] = {}
        self._sources: dict[str, EngineSource] = {}
        self._ticks: dict[str, Callable[[], None]] = {}
        self._reloading = threading.Lock()
        self._started_at = self.clocks.monotonic()
        self._was_ready = False
        inputs = Inputs(
            snapshot=lambda: self.registry.snapshot,
            inflight=self.inflight,
            picks=self.picks,
            stats=self.stats,
            version=__version__,
            clocks=self.clocks,
        )
        ports = Ports(
            snapshot=lambda: self.registry.snapshot,
            inflight=self.inflight,
            stats=self.picks,
            ready=self.ready,
            exposition=build_exposition(inputs),
            dice=random.Random(),
            version=__version__,
            clocks=self.clocks,
        )
        self.flask = create_flask(ports)
        self.asgi = build_asgi(ports, self.flask)

    def start(self) -> None:
        """Begin to scrape and to score."""
        self._apply(self.config)
        self.stats.reloaded(ok=True, wall_time=self.clocks.wall())
        self.scheduler.start()
        logger.info("Scorer started", version=__version__, pools=len(self.config.pools))

    def stop(self) -> None:
        """Stop scraping and scoring."""
        self.scheduler.stop()
        for source in self._sources.values():
            source.close()

    def reload(self) -> bool:
        """Read the configuration file again, all or nothing; return whether it was applied.

        A file that cannot be used changes nothing: the daemon goes on as it is.
        """
        with self._reloading:
            try:
                config = load_config(self._path or "")
            except ConfigError as error:
                self.stats.reloaded(ok=False, wall_time=self.clocks.wall())
                self._refused(error)
                return False
            if config.web != self._web:
                logger.warning(
                    "web.listen_address changes with a restart only",
                    listening=self._web.listen_address,
                    configured=config.web.listen_address,
                )
            self._apply(config)
            self.config = config
            self.stats.reloaded(ok=True, wall_time=self.clocks.wall())
            logger.info("Configuration reloaded", file=str(self._path), pools=len(config.pools))
            return True

    def _refused(self, error: ConfigError) -> None:
        for problem in error.problems:
            logger.error("Configuration not reloaded", file=str(self._path), problem=problem)

    def ready(self) -> str | None:
        """Return None when ready, else a sentence saying why not.

        Once ready, always ready until it stops: readiness never follows the targets.
        """
        if self.stopping:
            return "scorer is stopping."
        if self._was_ready:
            return None
        pools = self.registry.snapshot.pools
        waiting = [pool for pool in pools.values() if not pool.scored]
        if waiting and self.clocks.age(self._started_at) < READY_GRACE:
            return f"pool {waiting[0].name} has not been scored yet."
        self._was_ready = True
        return None

    def _apply(self, config: Config) -> None:
        """Bring registry, sources and jobs to a configuration."""
        departed = self.registry.apply(config.pools, self.clocks.monotonic())
        for identity in departed:
            self.inflight.forget(identity.pool, identity.target)
        wanted: set[str] = set()
        for pool_config in config.pools:
            wanted |= self._schedule(pool_config, config)
        for name in self.scheduler.names - wanted:
            self.scheduler.remove(name)
            self._retire(name)
        pools = self.registry.pools
        targets = {(name, target) for name, pool in pools.items() for target in pool.targets}
        self.stats.keep(set(pools), targets)
        self.picks.keep(set(pools))

    def _schedule(self, config: PoolConfig, whole: Config) -> set[str]:
        """Arm the jobs of a pool where they changed; return the names of all of them."""
        pool = self.registry.pools[config.name]
        interval, timeout = whole.interval(config), whole.timeout(config)
        tick = TICK if len(pool.targets) < LARGE_POOL else LARGE_TICK
        names = {self._arm_scoring(pool, min(tick, interval))}
        for address in config.addresses():
            health = pool.targets[address.name]
            url = f"{address.scheme}://{address.netloc}{config.metrics_path}"
            plan = Plan(id(health), interval, url, timeout, config.models)
            names.add(self._arm_scrape(plan, pool, health))
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
            self.scheduler.every(name, interval, tick, executor="score")
        return name

    def _arm_scrape(self, plan: Plan, pool: Pool, health: TargetHealth) -> str:
        name = f"scrape {health.id.pool} {health.id.target}"
        if self._plans.get(name) == plan:
            return name
        self._retire(name)
        source = EngineSource(plan.url, plan.timeout, plan.models)
        self._plans[name], self._sources[name] = plan, source
        self.scheduler.every(
            name,
            plan.interval,
            partial(self._scrape, name, source, pool, health),
            missed=partial(self.stats.scrape_missed, health.id.pool, health.id.target),
        )
        return name

    def _retire(self, name: str) -> None:
        self._plans.pop(name, None)
        self._ticks.pop(name, None)
        if source := self._sources.pop(name, None):
            source.close()

    def _scrape(self, name: str, source: EngineSource, pool: Pool, health: TargetHealth) -> None:
        """Scrape one target and leave the result in its pool's inbox.

        A source that was replaced meanwhile was closed under way: its result says
        nothing about the target.
        """
        picks = self.inflight.count(health.id.pool, health.id.target)
        started = self.clocks.monotonic()
        result = source.scrape()
        ended = self.clocks.monotonic()
        if self._sources.get(name) is source:
            pool.inbox.append((health, Scrape(result, started, ended, picks)))
            self.stats.scrape_done(health.id.pool, ended - started)

    def _tick_of(self, pool: Pool) -> Callable[[], None]:
        cycle = Cycle(pool, self.inflight, self.registry.publish)
        clock = self.clocks.monotonic

        def tick() -> None:
            started = clock()
            cycle.tick(started)
            ended = clock()
            self.stats.scoring_done(pool.facts.name, ended - started, ended)

        return tick
