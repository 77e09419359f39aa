"""Which pool a pick request goes to.

A named pool is taken at its word, whatever the model. Otherwise the first pool in
file order that serves the model gets the request, and a request that names neither
goes to the only pool there is.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from scorer.core.snapshot import PoolView, Snapshot
from scorer.http.parameters import PickRequest, Refused
from scorer.pick_stats import PickFailure

REMEMBERED_MODELS = 1024
REMEMBERED_LENGTH = 256
"""Bounds of what is remembered of models, so that made-up names cannot fill memory."""

Globs = tuple[tuple[str, tuple[str, ...]], ...]


class Router:
    """Resolves pick requests to pools; remembers which pool serves a model.

    Used on the event loop only. What is remembered holds as long as every pool keeps
    its name, place and globs, whatever else a snapshot changes.
    """

    def __init__(self) -> None:
        """Start with nothing remembered."""
        self._snapshot: Snapshot | None = None
        self._globs: Globs = ()
        self._pools: dict[str, str | None] = {}

    def resolve(self, snapshot: Snapshot, request: PickRequest) -> PoolView | Refused:
        """Return the pool of ``request``, or why there is none."""
        pools = snapshot.pools
        if request.pool:
            return pools.get(request.pool) or _unknown_pool(request.pool)
        if request.model:
            name = self.pool_of(snapshot, request.model)
            return pools[name] if name is not None else _unknown_model(request.model)
        if len(pools) == 1:
            return next(iter(pools.values()))
        return _several(pools) if pools else _none_yet()

    def pool_of(self, snapshot: Snapshot, model: str) -> str | None:
        """Return the name of the first pool that serves ``model``, None if none does."""
        if snapshot is not self._snapshot:
            self._update(snapshot)
        if model in self._pools:
            return self._pools[model]
        name = first_serving(self._globs, model)
        if len(model) <= REMEMBERED_LENGTH:
            if len(self._pools) >= REMEMBERED_MODELS:
                self._pools.clear()
            self._pools[model] = name
        return name

    def _update(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        globs = tuple((pool.name, pool.models) for pool in snapshot.pools.values())
        if globs != self._globs:
            self._globs = globs
            self._pools = {}


def first_serving(globs: Globs, model: str) -> str | None:
    """Return the first name whose shell-style globs match ``model``; no globs match all."""
    for name, patterns in globs:
        if not patterns or any(fnmatchcase(model, pattern) for pattern in patterns):
            return name
    return None


def _unknown_pool(name: str) -> Refused:
    return Refused(404, PickFailure.UNKNOWN_POOL, f'pool: no such pool, got "{name[:64]}"')


def _unknown_model(name: str) -> Refused:
    return Refused(404, PickFailure.UNKNOWN_MODEL, f'model: served by no pool, got "{name[:64]}"')


def _several(pools: Mapping[str, PoolView]) -> Refused:
    rule = f"must be given, or model, as there are several pools ({', '.join(pools)})"
    return Refused(400, PickFailure.BAD_REQUEST, f"pool: {rule}")


def _none_yet() -> Refused:
    return Refused(503, PickFailure.NO_TARGET, "no pool has been judged yet")
