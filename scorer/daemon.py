"""Composition root: builds the parts, keeps them in step with the configuration.

Three kinds of threads: the event loop answers ``/pick``; scrape threads fetch and
parse; scoring threads judge pools and publish snapshots. They meet in a pool's inbox
and in the published snapshot only.
"""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from exporters.prometheus import Inputs, build_exposition
from scorer import __version__, logs
from scorer.clocks import Clocks
from scorer.config import Config, load_config
from scorer.config.errors import ConfigError
from scorer.config.http_client import unverified
from scorer.config.pool import PoolConfig
from scorer.core.health import TargetHealth, TargetId
from scorer.core.samples import Scrape
from scorer.cycle import Cycle
from scorer.daemon_stats import DaemonStats
from scorer.discovered import DiscoveredTarget, ListedTarget
from scorer.discovery import Discovery
from scorer.feedback import Feedback
from scorer.feeds import Feeds
from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.feedback import FeedbackEndpoint
from scorer.http.pick import PickEndpoint
from scorer.http.ports import Ports
from scorer.inflight import InFlight
from scorer.pick_stats import PickStats
from scorer.registry import Pool, Registry
from scorer.scheduler import Scheduler
from scorer.sources.engine import EngineSource
from scorer.sources.places import ScrapeTarget

logger = structlog.stdlib.get_logger(__name__)

TICK = 0.5
"""Seconds between two judgements of a pool; less when it is scraped more often."""
LARGE_POOL, LARGE_TICK = 250, 1.0
"""From this many targets on a judgement takes long enough to be made once a second."""
STUCK_AFTER = 5.0
"""Seconds without any judgement after which scoring counts as stuck: five ticks and more."""
READY_GRACE = 10.0
"""Seconds after the start for which a pool that is not scored holds readiness back."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job does; a reload that changes none of it leaves the job alone.

    ``owner`` is the pool or the target that the job works for, by identity.
    """

    owner: int
    interval: float
    target: ScrapeTarget | None = None


class Daemon:
    """The running parts.

    ``asgi`` is the whole HTTP interface, ``flask`` the part of it that renders pages,
    ``picking`` the part that answers picks, ``reporting`` the part that takes feedback.
    """

    def __init__(self, config: Config, path: Path | None = None) -> None:
        """Build everything for ``config``; ``path`` is the file that a reload reads."""
        self.config = config
        self.clocks = Clocks()
        self.registry = Registry()
        self.inflight = InFlight()
        self.picks = PickStats()
        self.stats = DaemonStats()
        self.feedback = Feedback(self.registry, self.inflight, self.clocks)
        self.scheduler = Scheduler(self.clocks.monotonic)
        self.stopping = False
        self._path = path
        self._web = config.web
        self._plans: dict[str, Plan] = {}
        self._sources: dict[str, EngineSource] = {}
        self._ticks: dict[str, Callable[[], None]] = {}
        self.discovery = Discovery(self.scheduler, self.update, self.clocks.monotonic)
        self.feeds = Feeds(
            self.scheduler,
            self.registry,
            self.inflight,
            self.stats,
            self.clocks,
            self.metrics_addresses,
        )
        self._reloading = threading.Lock()
        self._started_at = self.clocks.monotonic()
        self._was_ready = False
        ports = self._ports()
        self.flask = create_flask(ports)
        self.picking = PickEndpoint(ports)
        self.reporting = FeedbackEndpoint(self.feedback, self.clocks.monotonic)
        self.asgi = build_asgi(ports, self.flask, self.picking)

    def _ports(self) -> Ports:
        """Return the daemon as the HTTP interface sees it."""
        return Ports(
            snapshot=lambda: self.registry.snapshot,
            inflight=self.inflight,
            stats=self.picks,
            ready=self.ready,
            alive=self.alive,
            exposition=build_exposition(self._inputs()),
            dice=random.Random(),
            version=__version__,
            clocks=self.clocks,
            listed=self.listed,
            subscribe=self.registry.subscribe,
            feedback=self.feedback,
        )

    def _inputs(self) -> Inputs:
        """Return what ``/metrics`` is rendered from."""
        return Inputs(
            snapshot=lambda: self.registry.snapshot,
            inflight=self.inflight,
            picks=self.picks,
            stats=self.stats,
            version=__version__,
            clocks=self.clocks,
            sd=self.discovery.stats,
            feedback=self.feedback.stats,
            log_lines_dropped=logs.dropped,
        )

    def start(self) -> None:
        """Begin to discover, to scrape and to score."""
        with self._reloading:
            self._apply(self.config)
        self.stats.reloaded(ok=True, wall_time=self.clocks.wall())
        self.scheduler.start()
        logger.info("Scorer started", version=__version__, pools=len(self.config.pools))

    def stop(self) -> None:
        """Stop discovering, scraping and scoring."""
        self.scheduler.stop()
        self.discovery.stop()
        self.feeds.stop()
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
            if config.feedback.udp != self.config.feedback.udp:
                logger.warning("feedback.udp.listen changes with a restart only")
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
        if not self._grace_is_over:
            for view in self.registry.snapshot.pools.values():
                if source := self.discovery.waiting_for(view.name):
                    return f"pool {view.name} waits for the first answer of {source}."
                pool = self.registry.pools.get(view.name)
                shown = pool is not None and pool.settled and len(pool.targets) == len(view.targets)
                if not (shown and view.scored):
                    return f"pool {view.name} has not been scored yet."
        self._was_ready = True
        return None

    def alive(self) -> str | None:
        """Return None while pools are judged, else a sentence saying since when none was."""
        judged = (view.judged_at for view in self.registry.snapshot.pools.values())
        age = self.clocks.age(max(judged, default=self.clocks.monotonic()))
        if self.stopping or age < STUCK_AFTER:
            return None
        return f"scoring is stuck: no pool has been judged for {age:.0f} seconds."

    @property
    def _grace_is_over(self) -> bool:
        return self.clocks.age(self._started_at) >= READY_GRACE

    def update(self, name: str) -> None:
        """Take what discovery knows of a pool; targets that left are gone on return."""
        with self._reloading:
            config = next((pool for pool in self.config.pools if pool.name == name), None)
            if config is None or name not in self.registry.pools or self.stopping:
                return
            departed = self.registry.update(
                name,
                self.discovery.found(name),
                self.clocks.monotonic(),
                settled=self._grace_is_over,
            )
            self._forget(departed)
            wanted = self._schedule(config, self.config)
            scrapes = {job for job in self.scheduler.names if job.startswith(f"scrape {name} ")}
            self._remove(scrapes - wanted)
            self._keep_counts()

    def listed(self, name: str) -> list[ListedTarget] | None:
        """Return the targets of a pool and where their metrics are, None without such a pool."""
        if name not in self.registry.pools:
            return None
        return [self._listed(name, found) for found in self.discovery.found(name).targets]

    def _listed(self, pool: str, found: DiscoveredTarget) -> ListedTarget:
        target = found.address.name
        source = self._sources.get(f"scrape {pool} {target}")
        path = source.place.path if source else found.metrics_path
        return ListedTarget(target, found.metrics_site(), path, found.labels)

    def _apply(self, config: Config) -> None:
        """Bring discovery, registry, sources and jobs to a configuration."""
        self.discovery.apply(config)
        found = {pool.name: self.discovery.found(pool.name) for pool in config.pools}
        self._forget(self.registry.apply(config.pools, found, self.clocks.monotonic()))
        self.feeds.apply(config)
        self.feedback.use(config.feedback)
        wanted = self.discovery.jobs | self.feeds.jobs
        for pool_config in config.pools:
            wanted |= self._schedule(pool_config, config)
        self._remove(self.scheduler.names - wanted)
        self._keep_counts()
        self.picks.keep(set(self.registry.pools))
        for warning in unverified(config):
            logger.warning(warning)

    def metrics_addresses(self, pool: str) -> dict[str, str]:
        """Return the names of a pool's targets by the address at which they are scraped."""
        found = self.discovery.found(pool).targets
        return {each.metrics_netloc(): each.address.name for each in found}

    def _forget(self, departed: Sequence[TargetId]) -> None:
        for identity in departed:
            self.inflight.forget(identity.pool, identity.target)

    def _remove(self, jobs: set[str]) -> None:
        for name in jobs:
            self.scheduler.remove(name)
            self._retire(name)

    def _keep_counts(self) -> None:
        pools = self.registry.pools
        targets = {(name, target) for name, pool in pools.items() for target in pool.targets}
        self.stats.keep(set(pools), targets)
        self.feedback.stats.keep(targets)

    def _schedule(self, config: PoolConfig, whole: Config) -> set[str]:
        """Arm the jobs of a pool where they changed; return the names of all of them."""
        pool = self.registry.pools[config.name]
        interval, timeout = whole.interval(config), whole.timeout(config)
        mappings, client = config.known_mappings(whole.mappings), config.http_client()
        names = {
            self._arm_scoring(
                pool, min(TICK if len(pool.targets) < LARGE_POOL else LARGE_TICK, interval)
            )
        }
        for found in self.discovery.found(config.name).targets:
            health = pool.targets.get(found.address.name)
            if health is None:  # it has just been found: an update of its own follows
                continue
            self.inflight.start_rate(config.name, found.address.name, found.capacity)
            if config.source != "scrape":
                continue
            target = ScrapeTarget(
                site=found.metrics_site(),
                timeout=timeout,
                path=found.metrics_path or config.metrics_path,
                client=client,
                paced=config.scrape_interval is None and config.scrape_timeout is None,
                models=config.models,
                engine=config.only_engine,
                mappings=mappings,
            )
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
            self.scheduler.every(name, interval, tick, executor="score")
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
        self.scheduler.every(
            name,
            interval,
            partial(self._scrape, name, interval, source, pool, health),
            missed=partial(self.stats.scrape_missed, health.id.pool, health.id.target),
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
        started = self.clocks.monotonic()
        mark = self.inflight.mark(health.id.pool, health.id.target, started)
        result = source.scrape()
        ended = self.clocks.monotonic()
        if self._sources.get(name) is not source:
            return
        pool.inbox.append((health, Scrape(result, started, ended, mark.picks, mark)))
        self.stats.scrape_done(health.id.pool, ended - started)
        plan = self._plans.get(name)
        wanted = source.interval or (plan.interval if plan else interval)
        if wanted != interval:
            with self._reloading:
                if self._sources.get(name) is source:
                    self._every(name, wanted, source, pool, health)

    def _tick_of(self, pool: Pool) -> Callable[[], None]:
        cycle = Cycle(pool, self.inflight, self.registry.publish)
        clock = self.clocks.monotonic

        def tick() -> None:
            started = clock()
            cycle.tick(started)
            ended = clock()
            self.stats.scoring_done(pool.facts.name, ended - started, ended)

        return tick
