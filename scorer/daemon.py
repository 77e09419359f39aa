"""Composition root: builds the parts, keeps them in step with the configuration.

Three kinds of threads: the event loop answers ``/pick``; scrape threads fetch and
parse; scoring threads judge pools and publish snapshots. They meet in a pool's inbox
and in the published snapshot only.
"""

import random
import threading
from collections.abc import Sequence
from pathlib import Path

import structlog

from exporters.envoy_eds import Discovery as EnvoyEds
from exporters.haproxy_agent import Agent
from exporters.prometheus import Inputs, build_exposition
from scorer import __version__, logs
from scorer.build import revision
from scorer.clocks import Clocks
from scorer.config import Config, load_config
from scorer.config.errors import ConfigError
from scorer.config.http_client import unverified
from scorer.core.health import TargetId
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
from scorer.http_stats import HttpStats
from scorer.inflight import InFlight
from scorer.notify import READY, notify, reloading
from scorer.operators import Operators
from scorer.output_stats import OutputStats
from scorer.pick_stats import PickStats
from scorer.pool_jobs import PoolJobs
from scorer.rates import PickRates
from scorer.registry import Registry
from scorer.scheduler import Scheduler
from scorer.shared import Shared
from scorer.state import StateKeeper
from scorer.trends import Trends

logger = structlog.stdlib.get_logger(__name__)

STUCK_AFTER = 5.0
"""Seconds without any judgement after which scoring counts as stuck: five ticks and more."""
READY_GRACE = 10.0
"""Seconds after the start for which a pool that is not scored holds readiness back."""


class Daemon:
    """The running parts.

    ``asgi`` is the whole HTTP interface, ``flask`` the part of it that renders pages,
    ``picking`` the part that answers picks, ``reporting`` the part that takes feedback.
    """

    def __init__(
        self, config: Config, path: Path | None = None, *, lifecycle: bool = False
    ) -> None:
        """Build everything for ``config``; ``path`` is the file that a reload reads.

        ``lifecycle`` lets whoever can ask over HTTP have it reloaded.
        """
        self.config = config
        self.clocks = Clocks()
        self.registry = Registry()
        self.inflight = InFlight()
        self.picks = PickStats()
        self.served = HttpStats()
        self.outputs = OutputStats()
        self.stats = DaemonStats()
        self.feedback = Feedback(self.registry, self.inflight, self.clocks)
        self.scheduler = Scheduler(self.clocks.monotonic)
        self.trends = Trends()
        self.rates = PickRates(self.inflight.count, self.clocks.monotonic)
        self.registry.subscribe(self._published)
        self.stopping = False
        self._path = path
        self._lifecycle = lifecycle
        self._web = config.web
        self._reloading = threading.Lock()
        shared = Shared(self.scheduler, self.registry, self.inflight, self.stats, self.clocks)
        self.jobs = PoolJobs(shared, self._reloading)
        self.operators = Operators(self.registry, self.clocks, self.jobs.judge)
        self.discovery = Discovery(self.scheduler, self.update, self.clocks.monotonic)
        self.feeds = Feeds(shared, self.metrics_addresses)
        self.state = StateKeeper(shared)
        self._loading = threading.Lock()
        self._started_at = self.clocks.monotonic()
        self._was_ready = False
        ports = self._ports()
        self.flask = create_flask(ports)
        self.picking = PickEndpoint(ports)
        self.reporting = FeedbackEndpoint(self.feedback, self.clocks.monotonic)
        self.agent = Agent(lambda: self.registry.snapshot, self.registry.knows, self.outputs)
        self.asgi = build_asgi(ports, self.flask, self.picking)

    def _published(self) -> None:
        """Let those who keep something for people to look at see what was published."""
        self.trends.see(self.registry.snapshot)
        self.rates.see(self.registry.snapshot)

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
            envoy_eds=EnvoyEds(
                lambda: self.registry.snapshot,
                self.ready,
                lambda: self.config.exporters.envoy_eds.enabled,
            ),
            subscribe=self.registry.subscribe,
            feedback=self.feedback,
            operators=self.operators,
            served=self.served,
            outputs=self.outputs,
            reload=self.reload if self._lifecycle else None,
            document=lambda: self.config.document,
            trends=self.trends,
            rates=self.rates,
        )

    def _inputs(self) -> Inputs:
        """Return what ``/metrics`` is rendered from."""
        return Inputs(
            snapshot=lambda: self.registry.snapshot,
            inflight=self.inflight,
            picks=self.picks,
            stats=self.stats,
            version=__version__,
            revision=revision(),
            clocks=self.clocks,
            sd=self.discovery.stats,
            feedback=self.feedback.stats,
            served=self.served,
            outputs=self.outputs,
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
        """Stop discovering, scraping and scoring; what came in until then is remembered."""
        self.scheduler.stop()
        self.jobs.judge_all()
        self.state.stop()
        self.discovery.stop()
        self.feeds.stop()
        self.jobs.stop()

    def reload(self) -> bool:
        """Read the configuration file again, all or nothing; return whether it was applied.

        A file that cannot be used changes nothing: the daemon goes on as it is.
        """
        notify(reloading())
        try:
            return self._reload(str(self._path))
        finally:
            notify(READY)

    def _reload(self, file: str) -> bool:
        with self._loading:  # discovery goes on meanwhile: a file may be slow to come
            try:
                config = load_config(self._path or "")
                self._take(config)
            except ConfigError as error:
                self._refused(error)
            except Exception:
                logger.exception("Configuration not reloaded", file=file)
            else:
                self.stats.reloaded(ok=True, wall_time=self.clocks.wall())
                logger.info("Configuration reloaded", file=file, pools=len(config.pools))
                return True
            self.stats.reloaded(ok=False, wall_time=self.clocks.wall())
            return False

    def _refused(self, error: ConfigError) -> None:
        for problem in error.problems:
            logger.error("Configuration not reloaded", file=str(self._path), problem=problem)

    def _take(self, config: Config) -> None:
        """Change over to a configuration; when that fails, all is as it was, and it raises."""
        with self._reloading:
            restore = self.registry.remembered()
            try:
                self._apply(config)
            except Exception:
                restore()
                self._apply(self.config)
                raise
            if config.web.listen_address != self._web.listen_address:
                logger.warning(
                    "web.listen_address changes with a restart only",
                    listening=self._web.listen_address,
                    configured=config.web.listen_address,
                )
            if config.web.unix_socket != self._web.unix_socket:
                logger.warning("web.unix_socket changes with a restart only")
            if config.feedback.udp != self.config.feedback.udp:
                logger.warning("feedback.udp.listen changes with a restart only")
            if config.exporters.haproxy_agent != self.config.exporters.haproxy_agent:
                logger.warning("exporters.haproxy_agent.listen changes with a restart only")
            self.config = config

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
            wanted = self.jobs.schedule(config, self.config, self.discovery.found(name).targets)
            scrapes = {job for job in self.scheduler.names if job.startswith(f"scrape {name} ")}
            self.jobs.remove(scrapes - wanted)
            self._keep_counts()

    def listed(self, name: str) -> list[ListedTarget] | None:
        """Return the targets of a pool and where their metrics are, None without such a pool."""
        if name not in self.registry.pools:
            return None
        return [self._listed(name, found) for found in self.discovery.found(name).targets]

    def _listed(self, pool: str, found: DiscoveredTarget) -> ListedTarget:
        target = found.address.name
        path = self.jobs.path(pool, target) or found.metrics_path
        return ListedTarget(target, found.metrics_site(), path, found.labels)

    def _apply(self, config: Config) -> None:
        """Bring discovery, registry, sources and jobs to a configuration."""
        self.state.apply(config)
        self.discovery.apply(config)
        found = {pool.name: self.discovery.found(pool.name) for pool in config.pools}
        departed = self.registry.apply(config.pools, found, self.clocks.monotonic())
        self.feeds.apply(config)
        self.feedback.use(config.feedback)
        self.operators.use(config.web.admin_token_file)
        wanted = self.discovery.jobs | self.feeds.jobs | self.state.jobs
        for pool_config in config.pools:
            targets = self.discovery.found(pool_config.name).targets
            wanted |= self.jobs.schedule(pool_config, config, targets)
        # What follows forgets, and must not be reached by a configuration that is not taken.
        self._forget(departed)
        self.jobs.remove(self.scheduler.names - wanted)
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

    def _keep_counts(self) -> None:
        pools = self.registry.pools
        targets = {(name, target) for name, pool in pools.items() for target in pool.targets}
        self.stats.keep(set(pools), targets)
        self.feedback.stats.keep(targets)
