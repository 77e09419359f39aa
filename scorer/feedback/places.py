"""Where an item's attempts went: targets of the registry, never anything new."""

from typing import NamedTuple

from scorer.addresses import parse_address
from scorer.core.health import TargetHealth
from scorer.feedback.item import Attempt, Item
from scorer.inflight import InFlight, LeaseRef
from scorer.registry import Pool, Registry


class Place(NamedTuple):
    """A target in one of its pools."""

    pool: Pool
    health: TargetHealth

    @property
    def target(self) -> str:
        """The target's name."""
        return self.health.id.target


class Try(NamedTuple):
    """One attempt, and where its target was found: once in each of its pools."""

    attempt: Attempt
    places: list[Place]

    @property
    def target(self) -> str:
        """The target's name."""
        return self.places[0].target


class Places:
    """Finds targets by name, by lease, or by what the pick's id says."""

    def __init__(self, registry: Registry, inflight: InFlight) -> None:
        """Look in ``registry``; ``inflight`` knows where picks went."""
        self._registry = registry
        self._inflight = inflight

    def knows_pool(self, name: str) -> bool:
        """Return whether a pool is configured."""
        return name in self._registry.pools

    def find(self, item: Item, attempt: Attempt, lease: LeaseRef | None) -> tuple[str, Try]:
        """Return the name of an attempt's target, and where it is found.

        The name is "" when neither the item nor its pick tells it. A target in several
        pools is found in the one that is named or that it was picked from, and else in
        all of them: it is one engine.
        """
        name, pool = attempt.target or "", item.pool or (lease.pool if lease else "")
        if not name:
            origin = lease or (self._inflight.origin(item.pick_id) if item.pick_id else None)
            if origin is None:
                return "", Try(attempt, [])
            name, pool = origin.target, origin.pool
        found = self._named(name, pool)
        if not found and (spelled := canonical(name)) != name:
            found = self._named(spelled, pool)
        return name, Try(attempt, found)

    def _named(self, name: str, pool_name: str) -> list[Place]:
        pools = self._registry.pools
        if pool_name:
            pool = pools.get(pool_name)
            health = pool.targets.get(name) if pool else None
            return [Place(pool, health)] if pool and health else []
        return [
            Place(pool, health) for pool in pools.values() if (health := pool.targets.get(name))
        ]


def canonical(name: str) -> str:
    """Return a target's one spelling, or the name as it is when it is no address."""
    try:
        return parse_address(name).name
    except ValueError:
        return name
