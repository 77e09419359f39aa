"""All pools and targets that the daemon knows, and the snapshot it publishes.

The memory of a target is keyed by pool and address: it survives a reload as long as
the configuration still names it, and is gone at once when it does not, but for what an
operator ordered (:mod:`scorer.core.absent`). Memory is touched under the pool's lock
only; readers take the snapshot, which is immutable and replaced by one assignment.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from scorer.config.pool import PoolConfig
from scorer.core.absent import Orders, back, gone
from scorer.core.gateway import GatewayReading
from scorer.core.health import TargetHealth, TargetId
from scorer.core.judge import judge_pool
from scorer.core.outcome import Outcome
from scorer.core.outstanding import NOTHING
from scorer.core.params import ScoreParams
from scorer.core.samples import Scrape
from scorer.core.snapshot import EMPTY, PoolView, Snapshot
from scorer.core.view import PoolFacts, pool_view, target_view
from scorer.discovered import Found


@dataclass(slots=True)
class Pool:
    """One pool: its targets by address as they were found, and the scrapes not yet applied.

    ``absent`` are the orders about targets that left. ``settled`` says that its targets
    are known: those that come later are new.
    ``inbox`` is filled by scrape threads and emptied by the pool's own cycle; appends
    and pops of a deque are atomic.
    """

    facts: PoolFacts
    params: ScoreParams
    targets: dict[str, TargetHealth] = field(default_factory=dict)
    absent: Mapping[str, Orders] = field(default_factory=dict)
    inbox: deque[tuple[TargetHealth, Scrape | Outcome | GatewayReading]] = field(
        default_factory=deque
    )
    lock: threading.Lock = field(default_factory=threading.Lock)
    settled: bool = False

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
        self._subscribers: tuple[Callable[[], None], ...] = ()
        self.recall: Callable[[TargetHealth], object] = lambda _: None
        """Told of each target that is not known yet; it may give it a memory."""

    def subscribe(self, call: Callable[[], None]) -> None:
        """Have ``call`` called after each publication, by the thread that publishes.

        It must neither wait nor raise.
        """
        self._subscribers += (call,)

    @property
    def snapshot(self) -> Snapshot:
        """The latest published view; never changes once obtained."""
        return self._snapshot

    @property
    def pools(self) -> Mapping[str, Pool]:
        """Pools by name, in file order."""
        return self._pools

    def knows(self, target: str) -> bool:
        """Whether any pool has a target of that name, judged or not."""
        return any(target in pool.targets for pool in self._pools.values())

    def apply(
        self, configs: Sequence[PoolConfig], found: Mapping[str, Found], now: float
    ) -> list[TargetId]:
        """Take the pools of a configuration with the targets found; return those that left.

        Targets that stay keep their memory. Targets that come while others are
        already known start from score 0: the fleet is not new, they are.
        """
        running = bool(self._pools)
        departed: list[TargetId] = []
        pools: dict[str, Pool] = {}
        for config in configs:
            facts, params = config.facts(), config.score_params()
            pool = self._pools.get(config.name) or Pool(facts, params, settled=running)
            with pool.lock:
                pool.facts, pool.params = facts, params
            departed += _update(pool, found[config.name], now, self.recall)
            pools[config.name] = pool
        for name, pool in self._pools.items():
            if name not in pools:
                departed += [health.id for health in pool.targets.values()]
                pool.targets = {}
        gone = _names(departed)
        views = self._snapshot.pools
        new = {name: _all_new(views.get(name), gone, pool, now) for name, pool in pools.items()}
        with self._lock:
            self._pools = MappingProxyType(pools)
            views = self._snapshot.pools
            self._publish(
                {name: new[name] or _without(views.get(name), gone, pools[name]) for name in pools}
            )
        return departed

    def remembered(self) -> Callable[[], None]:
        """Return a function that brings pools, targets and views back to what they are now."""
        pools, views = self._pools, self._snapshot.pools
        kept = {
            name: (pool.facts, pool.params, pool.targets, pool.absent)
            for name, pool in pools.items()
        }

        def restore() -> None:
            for name, pool in pools.items():
                with pool.lock:
                    pool.facts, pool.params, pool.targets, pool.absent = kept[name]
            with self._lock:
                self._pools = pools
                self._publish(views)

        return restore

    def update(
        self, name: str, found: Found, now: float, *, settled: bool = False
    ) -> list[TargetId]:
        """Take the targets found for a pool; return those that left, which are gone at once.

        ``settled`` says that the pool has had its time to find all of its targets.
        """
        pool = self._pools[name]
        pool.settled = pool.settled or settled
        departed = _update(pool, found, now, self.recall)
        view = self._snapshot.pools.get(name)
        if departed and view is not None:
            gone = _names(departed)
            new = _all_new(view, gone, pool, now)
            with self._lock:
                views = self._snapshot.pools
                self._publish({**views, name: new or _without(views.get(name), gone, pool)})
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
        for call in self._subscribers:
            call()


def _without(view: PoolView | None, gone: set[tuple[str, str]], pool: Pool) -> PoolView | None:
    """Return the view without the targets that left, so that no pick returns one."""
    if view is None:
        return None
    targets = [each for each in view.targets if (each.pool, each.target) not in gone]
    return pool_view(pool.facts, targets, view.judged_at)


def _all_new(
    view: PoolView | None, gone: set[tuple[str, str]], pool: Pool, now: float
) -> PoolView | None:
    """Return the view of a pool whose targets were all replaced, else None.

    Until its next judgement such a pool would have nobody to pick.
    """
    if view is None or not all((each.pool, each.target) in gone for each in view.targets):
        return None
    with pool.lock:
        judged = judge_pool(list(pool.targets.values()), now, lambda _: NOTHING)
    return pool_view(pool.facts, [target_view(each, now) for each in judged], now)


def _names(identities: Sequence[TargetId]) -> set[tuple[str, str]]:
    return {(identity.pool, identity.target) for identity in identities}


def _update(
    pool: Pool, found: Found, now: float, recall: Callable[[TargetHealth], object]
) -> list[TargetId]:
    """Bring a pool to the targets found; return those that left."""
    wanted = {target.address.name: target for target in found.targets}
    with pool.lock:
        departed = [health for name, health in pool.targets.items() if name not in wanted]
        targets = {}
        for name, target in wanted.items():
            identity = TargetId(pool.facts.name, name, target.address.url)
            health = pool.targets.get(name)
            if health is None:
                health = TargetHealth(identity, pool.params, known_at=now, late=pool.settled)
                recall(health)
                back(pool.absent.get(name), health, now)
            health.id = identity
            health.use(pool.params)
            health.leaving = target.draining
            targets[name] = health
        waiting = {name: each for name, each in pool.absent.items() if name not in targets}
        pool.targets, pool.absent = targets, gone(waiting, departed, now)
        pool.settled = pool.settled or found.complete
    return [health.id for health in departed]
