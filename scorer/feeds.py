"""What tells of many targets at once: gateways, and Prometheus for the pools that ask it.

Keeps one job per gateway and per such pool in step with the configuration; what a
reload leaves as it is goes on with what it remembers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from scorer.config import Config
from scorer.config.gateways import GatewayConfig
from scorer.config.pool import PoolConfig
from scorer.config.prometheus import PrometheusConfig
from scorer.gateways import GatewayJob
from scorer.prometheus_pools import PrometheusJob
from scorer.registry import Pool
from scorer.shared import Shared
from scorer.sources.configured import gateway_reader, pool_question, pool_source
from scorer.sources.gateway import GatewaySource
from scorer.sources.prometheus import PoolQuestion

Addresses = Callable[[str], Mapping[str, str]]
"""Gives for a pool's name its targets' names by the address that is scraped."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a job does; a reload that changes none of it leaves the job alone."""

    interval: float
    timeout: float
    what: GatewayConfig | PoolQuestion
    prometheus: PrometheusConfig | None = None
    owner: int = 0


class Feeds:
    """The jobs of gateways and of pools that are read from Prometheus."""

    def __init__(self, shared: Shared, addresses: Addresses) -> None:
        """Start with no job."""
        self._scheduler, self._registry, self._inflight, self._stats, self._clocks = shared
        self._addresses = addresses
        self._plans: dict[str, _Plan] = {}
        self._closers: dict[str, Callable[[], None]] = {}

    @property
    def jobs(self) -> set[str]:
        """The names of all its jobs."""
        return set(self._plans)

    def apply(self, config: Config) -> None:
        """Arm the jobs of a configuration where they changed; the pools are known already."""
        wanted = {f"gateway {each.name}": each for each in config.gateways}
        pools = {f"ask {each.name}": each for each in config.pools if each.source == "prometheus"}
        for name in self.jobs - wanted.keys() - pools.keys():
            self._retire(name)
        for name, gateway in wanted.items():
            self._arm_gateway(name, gateway, config)
        for name, pool in pools.items():
            self._arm_pool(name, pool, config)

    def stop(self) -> None:
        """Close every connection."""
        for close in self._closers.values():
            close()

    def _retire(self, name: str) -> None:
        self._plans.pop(name, None)
        if close := self._closers.pop(name, None):
            close()

    def _takes(self, name: str, plan: _Plan) -> bool:
        """Return whether a job must be armed anew, and forget what ran under its name."""
        if self._plans.get(name) == plan:
            return False
        self._retire(name)
        self._plans[name] = plan
        return True

    def _arm_gateway(self, name: str, gateway: GatewayConfig, config: Config) -> None:
        general = config.global_
        interval = gateway.scrape_interval or general.scrape_interval
        timeout = gateway.scrape_timeout or general.scrape_timeout
        server = None if gateway.metrics_url else config.prometheus
        if not self._takes(name, _Plan(interval, timeout, gateway, server)):
            return
        read, self._closers[name] = gateway_reader(gateway, config)
        job = GatewayJob(
            gateway.name,
            GatewaySource(gateway.name, read),
            lambda: self._registry.pools,
            gateway.pool,
            self._clocks.monotonic,
        )
        self._scheduler.every(name, interval, job.run)

    def _arm_pool(self, name: str, pool_config: PoolConfig, config: Config) -> None:
        server = config.prometheus
        if server is None:  # refused when the file was read
            return
        pool = self._registry.pools[pool_config.name]
        question = pool_question(pool_config, config, server)
        interval = config.interval(pool_config)
        if not self._takes(name, _Plan(interval, server.timeout, question, server, id(pool))):
            return
        job = self._pool_job(pool, question, server)
        self._closers[name] = job.close
        self._scheduler.every(name, interval, job.run)

    def _pool_job(
        self, pool: Pool, question: PoolQuestion, server: PrometheusConfig
    ) -> PrometheusJob:
        name = pool.facts.name
        return PrometheusJob(
            pool,
            pool_source(question, server),
            server.timeout,
            partial(self._addresses, name),
            self._inflight,
            self._clocks,
            partial(self._stats.scrape_done, name),
        )
