"""Discovery of every pool: asks what the configuration names, and says when targets change.

Sources that a reload leaves as they are go on with what they know. Until every source of a
pool has answered once, the targets from before the reload stay: a new source that is slow
or wrong must not empty the pool.
"""

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from scorer.config import Config
from scorer.config.discovery import (
    DnsSdConfig,
    FileSdConfig,
    HttpSdConfig,
    KubernetesSdConfig,
    SdConfig,
    StaticConfig,
)
from scorer.config.pool import PoolConfig
from scorer.discovered import DiscoveredTarget, Found, Mechanism
from scorer.scheduler import Scheduler
from scorer.sources.discovery.answers import Asked
from scorer.sources.discovery.dns_sd import DnsSd
from scorer.sources.discovery.feed import Feed
from scorer.sources.discovery.file_sd import FileSd
from scorer.sources.discovery.http_sd import HttpSd
from scorer.sources.discovery.kubernetes_sd import KubernetesSd
from scorer.sources.discovery.resolve import Resolver
from scorer.sources.discovery.static_sd import StaticSd
from scorer.sources.discovery.stats import SdStats

logger = structlog.stdlib.get_logger(__name__)


NOTHING_YET = Found(complete=False)


@dataclass(frozen=True, slots=True)
class _Source:
    """One entry of a mechanism in the configuration, with its memory."""

    config: SdConfig
    provider: StaticSd | KubernetesSd | Asked
    feed: Feed

    @property
    def job(self) -> str:
        """The name of the job that asks it."""
        pool, mechanism = self.feed.key
        return f"discover {pool} {mechanism} {self.feed.number}"


@dataclass(slots=True)
class _Pool:
    """The sources of one pool, what they found last, and what was known before them."""

    sources: list[_Source]
    inherited: tuple[DiscoveredTarget, ...] = ()
    found: Found = NOTHING_YET


class Discovery:
    """The sources of all pools; ``changed`` is called with a pool's name, without a lock."""

    def __init__(
        self,
        scheduler: Scheduler,
        changed: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        """Start with no pool."""
        self.stats = SdStats()
        self._scheduler = scheduler
        self._tell = changed
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._pools: dict[str, _Pool] = {}

    @property
    def jobs(self) -> set[str]:
        """The names of the jobs that are discovery's own."""
        with self._lock:
            return {source.job for pool in self._pools.values() for source in pool.sources}

    def found(self, pool: str) -> Found:
        """Return what is known of a pool; nothing of one that does not exist."""
        with self._lock:
            return self._pools[pool].found if pool in self._pools else Found()

    def waiting_for(self, pool: str) -> str | None:
        """Return which source of a pool has not answered yet, None when all have."""
        with self._lock:
            sources = self._pools[pool].sources if pool in self._pools else []
        for source in sources:
            if not source.feed.answered:
                return f"{source.feed.key[1]} discovery ({source.feed.provider.name})"
        return None

    def apply(self, config: Config) -> None:
        """Bring the sources to a configuration; those that it leaves alone go on."""
        before = self._pools
        pools: dict[str, _Pool] = {}
        started: list[_Source] = []
        for pool_config in config.pools:
            known = before.get(pool_config.name, _Pool([]))
            sources, fresh = self._sources(pool_config, list(known.sources))
            targets = known.found.targets
            pools[pool_config.name] = _Pool(sources, targets, Found(targets, complete=False))
            started += fresh
        kept = {id(source) for pool in pools.values() for source in pool.sources}
        with self._lock:
            self._pools = pools
        self.stats.keep(
            [(each.feed.key, each.feed.number) for pool in pools.values() for each in pool.sources]
        )
        for pool in before.values():
            for source in pool.sources:
                if id(source) not in kept:
                    self._end(source)
        for source in started:
            self._begin(source)
        for name in pools:
            self._combine(name)

    def stop(self) -> None:
        """Ask no more."""
        for pool in self._pools.values():
            for source in pool.sources:
                source.feed.close()

    def _sources(
        self, config: PoolConfig, known: list[_Source]
    ) -> tuple[list[_Source], list[_Source]]:
        """Return the sources of a pool, and those of them that are new."""
        resolver = Resolver(config)
        sources, fresh = [], []
        for mechanism, configs in config.mechanisms():
            for sd_config in configs:
                source = next((each for each in known if each.config == sd_config), None)
                if source is not None:
                    known.remove(source)
                    source.feed.use(resolver)
                else:
                    source = self._new(config.name, mechanism, sd_config, resolver)
                    fresh.append(source)
                sources.append(source)
        return sources, fresh

    def _new(
        self, pool: str, mechanism: Mechanism, config: SdConfig, resolver: Resolver
    ) -> _Source:
        provider = _provider(config)
        feed = Feed(
            key=(pool, mechanism),
            number=next(self._numbers),
            provider=provider,
            resolver=resolver,
            stats=self.stats,
            clock=self._clock,
            changed=partial(self._changed, pool),
        )
        return _Source(config, provider, feed)

    def _begin(self, source: _Source) -> None:
        """Let a source that is new answer: at once, by a job, or by a thread of its own."""
        provider, feed = source.provider, source.feed
        if isinstance(provider, StaticSd):
            feed.take(provider.answer, quietly=True)
        elif isinstance(provider, KubernetesSd):
            threading.Thread(
                target=provider.watch, args=(feed.take,), name=source.job, daemon=True
            ).start()
        else:
            look = partial(feed.look, provider)
            period = min(provider.interval, provider.retry)
            self._scheduler.every(source.job, period, look, at_once=True)

    def _end(self, source: _Source) -> None:
        source.feed.close()
        if source.job in self._scheduler.names:
            self._scheduler.remove(source.job)

    def _changed(self, pool: str) -> None:
        if self._combine(pool):
            self._tell(pool)

    def _combine(self, name: str) -> bool:
        """Put together what the sources of a pool know; return whether that is a change."""
        with self._lock:
            pool = self._pools.get(name)
            if pool is None:
                return False
            complete = all(source.feed.answered for source in pool.sources)
            listed = [target for source in pool.sources for target in source.feed.targets]
            if complete:
                pool.inherited = ()
            before = pool.found
            pool.found = found = Found(merged([*listed, *pool.inherited]), complete)
        old = {target.address.name for target in before.targets}
        new = {target.address.name for target in found.targets}
        if old != new:
            added, removed = len(new - old), len(old - new)
            logger.info(
                "Targets changed", pool=name, added=added, removed=removed, targets=len(new)
            )
        return found != before


def merged(listed: Sequence[DiscoveredTarget]) -> tuple[DiscoveredTarget, ...]:
    """Return each target once, as it is listed first; it drains when every listing says so."""
    found: dict[str, DiscoveredTarget] = {}
    for target in listed:
        known = found.get(target.address.name)
        if known is None:
            found[target.address.name] = target
        elif known.draining and not target.draining:
            found[target.address.name] = replace(known, draining=False)
    return tuple(found.values())


def _provider(config: SdConfig) -> StaticSd | KubernetesSd | Asked:
    match config:
        case StaticConfig():
            return StaticSd(config)
        case FileSdConfig():
            return FileSd(config)
        case HttpSdConfig():
            return HttpSd(config)
        case DnsSdConfig():
            return DnsSd(config)
        case KubernetesSdConfig():
            return KubernetesSd(config)
