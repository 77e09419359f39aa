"""The part of a snapshot that a URL asks for: ``?pool=``, ``?state=`` and ``?search=``."""

from dataclasses import dataclass

from scorer.core.snapshot import PoolView, Snapshot, TargetView
from scorer.core.vocabulary import State
from scorer.http.problems import Problem


@dataclass(frozen=True, slots=True)
class Selection:
    """Pools with those of their targets that were asked for; empty strings ask for all."""

    pool: str
    state: str
    pools: tuple[tuple[PoolView, tuple[TargetView, ...]], ...]
    search: str = ""


def select(snapshot: Snapshot, pool: str, state: str, search: str = "") -> Selection | Problem:
    """Return what the three select, or which of ``pool`` and ``state`` does not exist.

    ``search`` is text that the name, the engine, its version or a model has, in any case.
    """
    if pool and pool not in snapshot.pools:
        known = ", ".join(snapshot.pools)
        return Problem(404, "not_found", f'pool: must be one of {known}, got "{pool}"')
    if state and state not in STATES:
        known = ", ".join((*State, UNHEALTHY))
        return Problem(400, "bad_data", f'state: must be one of {known}, got "{state}"')
    pools = [snapshot.pools[pool]] if pool else snapshot.pools.values()
    wanted = search.strip().casefold()
    chosen = tuple((view, _chosen(view, state, wanted)) for view in pools)
    return Selection(pool, state, chosen, search.strip())


UNHEALTHY = "unhealthy"
"""Asks for every state but healthy."""
STATES = frozenset((*map(str, State), UNHEALTHY))


def _chosen(pool: PoolView, state: str, search: str) -> tuple[TargetView, ...]:
    return tuple(
        view
        for view in pool.targets
        if has_state(view, state) and (not search or search in searched(view))
    )


def has_state(view: TargetView, asked: str) -> bool:
    """Return whether a target is in the state that was asked for; "" asks for any."""
    if asked == UNHEALTHY:
        return view.state is not State.HEALTHY
    return not asked or view.state == asked


def searched(view: TargetView) -> str:
    """Return the text in which a search looks; one text does not run into the next."""
    texts = (view.target, f"{view.engine} {view.engine_version}", *view.model_names)
    return "\n".join(texts).casefold()


def find(snapshot: Snapshot, target: str, pool: str) -> TargetView | Problem:
    """Return the one target of that name; ``pool`` decides when several pools have it."""
    selection = select(snapshot, pool, "")
    if isinstance(selection, Problem):
        return selection
    found = [view for _, views in selection.pools for view in views if view.target == target]
    if not found:
        return unknown_target(target)
    if len(found) > 1:
        names = ", ".join(view.pool for view in found)
        return Problem(400, "bad_data", f"pool: must be given, as several have it ({names})")
    return found[0]


def holders(snapshot: Snapshot, target: str, pool: str) -> list[str] | Problem:
    """Return the pools that have the target, of ``pool`` alone when that is given."""
    selection = select(snapshot, pool, "")
    if isinstance(selection, Problem):
        return selection
    names = [
        view.name
        for view, targets in selection.pools
        if any(each.target == target for each in targets)
    ]
    return names or unknown_target(target)


def unknown_target(target: str) -> Problem:
    """Return the answer about a target that does not exist."""
    return Problem(404, "not_found", f'target: no such target, got "{target}"')
