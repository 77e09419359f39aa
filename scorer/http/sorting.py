"""The order of the targets on the status page: ``?sort=score``, ``?sort=-waiting``.

A name sorts from the smallest value up, one with ``-`` before it from the largest down. A target
without the value comes last either way: missing is neither small nor large. Targets with the
same value keep the order of the pool.
"""

from collections.abc import Callable, Iterable, Mapping

from scorer.core.snapshot import TargetView
from scorer.core.vocabulary import SignalName, State
from scorer.http.problems import Problem
from scorer.http.selection import Selection
from scorer.inflight import InFlight

Value = float | str | None
STATES = tuple(State)


def _signal(name: SignalName) -> Callable[[TargetView, InFlight], Value]:
    return lambda view, _: view.signals[name].value


KEYS: Mapping[str, Callable[[TargetView, InFlight], Value]] = {
    "target": lambda view, _: view.target,
    "state": lambda view, _: STATES.index(view.state),
    "score": lambda view, _: view.score,
    "waiting": _signal(SignalName.QUEUE),
    "running": lambda view, _: view.running,
    "kv_cache": _signal(SignalName.KV_CACHE),
    "ttft": _signal(SignalName.TTFT),
    "errors": _signal(SignalName.ERRORS),
    "picks": lambda view, inflight: inflight.count(view.pool, view.target),
    "cooldowns": lambda view, _: view.cooldown.spent,
    "scrape": lambda view, _: None if view.last_scrape is None else -view.last_scrape.at,
}
"""What can be sorted by: ``state`` in the order of the states, ``cooldowns`` by the time spent in
them, ``scrape`` by its age."""
UP_FIRST = frozenset({"target", "score"})
"""Those of which the smallest is looked for first."""


def check_sort(sort: str) -> Problem | None:
    """Return what is wrong with the value of ``sort``, None when nothing is."""
    if not sort or sort.removeprefix("-") in KEYS:
        return None
    rule = f"must be one of {', '.join(KEYS)}, with - before it for the largest first"
    return Problem(400, "bad_data", f'sort: {rule}, got "{sort}"')


def sorted_selection(selection: Selection, sort: str, inflight: InFlight) -> Selection:
    """Return the selection with the targets of each pool in the order of ``sort``."""
    if not sort:
        return selection
    key, down = KEYS[sort.removeprefix("-")], sort.startswith("-")
    return Selection(
        selection.pool,
        selection.state,
        tuple((pool, _sorted(views, key, down, inflight)) for pool, views in selection.pools),
        selection.search,
    )


def _sorted(
    views: Iterable[TargetView],
    key: Callable[[TargetView, InFlight], Value],
    down: bool,  # noqa: FBT001 - the direction
    inflight: InFlight,
) -> tuple[TargetView, ...]:
    valued = [(key(view, inflight), view) for view in views]
    known = [each for each in valued if each[0] is not None]
    known.sort(key=lambda each: each[0], reverse=down)  # type: ignore[arg-type,return-value]
    return (*(view for _, view in known), *(view for value, view in valued if value is None))


def next_sort(name: str, sort: str) -> str:
    """Return the sort that a click on a column asks for: its first direction, then the other."""
    first, second = (name, f"-{name}") if name in UP_FIRST else (f"-{name}", name)
    return second if sort == first else first
