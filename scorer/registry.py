"""All pools and targets that the daemon knows, and the snapshot it publishes.

The memory of a target is keyed by pool and address: it survives a reload as long as
the configuration still names it, and is gone at once when it does not. Memory is
touched under the pool's lock only; readers take the snapshot, which is immutable and
replaced by one assignment.
"""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from scorer.config.pool import PoolConfig
from scorer.core.health import TargetHealth, TargetId
from scorer.core.params import ScoreParams
from scorer.core.samples import Scrape
from scorer.core.snapshot import EMPTY, PoolView, Snapshot
from scorer.core.view import PoolFacts, pool_view


@dataclass(slots=True)
class Pool:
    """One pool: its targets by address in file order, and the scrapes not yet applied.

    ``inbox`` is filled by scrape threads and emptied by the pool's own cycle; appends
    and pops of a deque are atomic.
    """

    facts: PoolFacts
    params: ScoreParams
    targets: dict[str, TargetHealth] = field(default_factory=dict)
    inbox: deque[tuple[TargetHealth, Scrape]] = field(default_factory=deque)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def owns(self, health: TargetHealth) -> bool:
        """Whether a target is still of this pool; a late scrape does not bring it back."""
        return self.targets.get(health.id.target) is health


class Registry:
    """Pools by name, and the published snapshot."""

    def __init__(self) -> None:
        """Start with no pool."""
        self._lock = threading.Lock()
        self._pools: Mapping[str, Pool] = MappingProxyType({})
        self._snapshot = EMPTY

    @property
    def snapshot(self) -> Snapshot:
        """The latest published view; never changes once obtained."""
        return self._snapshot

    @property
    def pools(self) -> Mapping[str, Pool]:
        """Pools by name, in file order."""
        return self._pools

    def apply(self, configs: Sequence[PoolConfig], now: float) -> list[TargetId]:
        """Take the pools and targets of a configuration; return the targets that left.

        Targets that stay keep their memory. Targets that come while others are
        already known start from score 0: the fleet is not new, they are.
        """
        running = bool(self._pools)
        departed: list[TargetId] = []
        pools: dict[str, Pool] = {}
        for config in configs:
            pool = self._pools.get(config.name) or Pool(config.facts(), config.score_params())
            departed += _update(pool, config, now, late=running)
            pools[config.name] = pool
        for name, pool in self._pools.items():
            if name not in pools:
                departed += [health.id for health in pool.targets.values()]
                pool.targets = {}
        gone = {(identity.pool, identity.target) for identity in departed}
        with self._lock:
            self._pools = MappingProxyType(pools)
            views = self._snapshot.pools
            self._publish({name: _without(views.get(name), gone, pools[name]) for name in pools})
        return departed

    def publish(self, view: PoolView) -> None:
        """Replace the view of one pool; the view of a pool that left is dropped."""
        with self._lock:
            if view.name in self._pools:
                views = {name: self._snapshot.pools.get(name) for name in self._pools}
                self._publish({**views, view.name: view})

    def _publish(self, views: Mapping[str, PoolView | None]) -> None:
        known = {name: view for name, view in views.items() if view is not None}
        self._snapshot = Snapshot(self._snapshot.version + 1, MappingProxyType(known))


def _without(view: PoolView | None, gone: set[tuple[str, str]], pool: Pool) -> PoolView | None:
    """Return the view without the targets that left, so that no pick returns one."""
    if view is None:
        return None
    targets = [each for each in view.targets if (each.pool, each.target) not in gone]
    return pool_view(pool.facts, targets, view.judged_at)


def _update(pool: Pool, config: PoolConfig, now: float, *, late: bool) -> list[TargetId]:
    """Bring a pool to its configuration; return the targets that left."""
    wanted = {address.name: address for address in config.addresses()}
    params = config.score_params()
    with pool.lock:
        pool.facts, pool.params = config.facts(), params
        departed = [health.id for name, health in pool.targets.items() if name not in wanted]
        targets = {}
        for name, address in wanted.items():
            identity = TargetId(config.name, name, address.url)
            health = pool.targets.get(name)
            if health is None:
                health = TargetHealth(identity, params, known_at=now, late=late)
            health.id = identity
            health.use(params)
            targets[name] = health
        pool.targets = targets
    return departed
