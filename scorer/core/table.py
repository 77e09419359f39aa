"""What a pick looks at: per target the few numbers it needs, made once per published view.

All work that grows with the pool is done here, so that a pick costs the same in a pool
of 8 and of 1,000. A row points to the target's live load; everything else in it is as
of the view. Rows are not frozen only because that would double the cost of making them;
nobody writes to them.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scorer.core.affinity import Ring
from scorer.core.load import TargetLoad
from scorer.core.params import PickParams
from scorer.core.probe import starved
from scorer.core.snapshot import PoolView, TargetView
from scorer.core.vocabulary import Cause, SignalName, State

SAMPLE = 8
"""Targets that one pick compares."""
LEAST_SHARE = 0.02
"""Share of its health below which a target's wait is not discounted further."""


@dataclass(slots=True, eq=False)
class Row:
    """One target as picks see it.

    ``score`` is what answers show. ``health`` 0-100 is what picks go by: the score, or
    while a warm-up ramp holds points back what it rises to; ``admit`` is then the
    probability 0-1 of entering a sample. ``share`` discounts the wait. ``room`` is the
    tokens that may be picked before the KV guard passes the target by.
    """

    target: str
    url: str
    score: float | None
    health: float
    share: float
    admit: float
    cooling: bool
    room: float
    loras: frozenset[str]
    load: TargetLoad
    texts: Any = None
    """What answers say of the target, kept by whoever renders them."""


class PickTable:
    """The rows of a pool's view.

    ``rows`` are the candidates, ``short_list`` those of them that take long prompts,
    ``rest`` the other targets that are not draining, ``probed`` those that need a probe.
    ``warming`` says that one of the candidates is. A prompt of at most ``room`` tokens may
    go to any candidate, whatever the KV guard: whoever picks lowers it to what the picked
    target has left. One of more than ``most`` tokens has room nowhere.
    """

    __slots__ = (
        "_adapters", "_ring", "most", "panic", "params", "probed", "rest", "room",
        "rows", "short_list", "view", "warming",
    )  # fmt: skip

    def __init__(
        self,
        view: PoolView,
        rows: Sequence[Row],
        rest: Sequence[Row] = (),
        probed: Sequence[Row] = (),
    ) -> None:
        """Take the candidates of ``view`` as ``rows``."""
        self.view = view
        self.params: PickParams = view.pick
        self.panic = view.panic
        self.rows = rows
        self.rest = rest
        self.probed = probed
        some_cool = any(row.cooling for row in rows)
        self.short_list = [row for row in rows if not row.cooling] if some_cool else rows
        self.warming = any(row.admit < 1.0 for row in rows)
        self.room = min((row.room - row.load.fresh for row in rows), default=-1.0)
        self.most = max((row.room for row in rows), default=-1.0)
        self._ring: Ring | None = None
        self._adapters: Mapping[str, Sequence[Row]] | None = None

    def preferred(self, key: str, out: Collection[str]) -> Row | None:
        """Return the candidate that ``key`` prefers, ``out`` left aside."""
        if not self.rows:
            return None
        if self._ring is None:
            self._ring = Ring([row.target for row in self.rows])
        index = self._ring.preferred(key, out)
        return None if index is None else self.rows[index]

    def running(self, lora: str) -> Sequence[Row]:
        """Return the candidates that run the adapter ``lora``."""
        if self._adapters is None:
            found: dict[str, list[Row]] = {}
            for row in self.rows:
                for name in row.loras:
                    found.setdefault(name, []).append(row)
            self._adapters = found
        return self._adapters.get(lora, ())


def pick_table(
    view: PoolView,
    loads: Sequence[TargetLoad],
    pool_picks: int,
    now: float,
    shuffle: Callable[[list[Row]], None],
) -> PickTable:
    """Return the table of ``view``; ``loads`` are those of its targets, in their order.

    ``pool_picks`` is the number of picks of the pool so far, ``shuffle`` brings a list
    into random order.
    """
    chosen = {target.target for target in view.candidates}
    rows: list[Row] = []
    rest: list[Row] = []
    probed: list[Row] = []
    for target, load in zip(view.targets, loads, strict=True):
        row = row_of(target, load, view.pick.kv_guard)
        if target.target in chosen:
            rows.append(row)
        elif target.state is not State.DRAINING:
            rest.append(row)
        if needs_probe(target, load, pool_picks, len(loads), now):
            probed.append(row)
    if len(rows) > SAMPLE:
        shuffle(rows)
    return PickTable(view, rows, rest, probed)


def health_of(view: TargetView) -> float:
    """Return what picks go by: the score, or what a warm-up ramp lets it rise to."""
    held_back = view.points_lost[Cause.WARMUP] if view.warmup_ratio < 1.0 else 0.0
    return (view.score or 0.0) + held_back


def row_of(view: TargetView, load: TargetLoad, kv_guard: float) -> Row:
    """Return the row of one target."""
    health = health_of(view)
    return Row(
        target=view.target,
        url=view.url,
        score=view.score,
        health=health,
        share=max(health / 100.0, LEAST_SHARE),
        admit=view.warmup_ratio,
        cooling=view.cooling,
        room=room_of(view.signals[SignalName.KV_CACHE].value, view.kv_capacity, kv_guard),
        loras=view.loras,
        load=load,
    )


def room_of(used: float | None, capacity: float | None, kv_guard: float) -> float:
    """Return the tokens that fit below the guard; without a known ``capacity`` any number does.

    A usage that is not known, or no more, leaves the room of an empty cache at the most: a
    lost signal must not open a target to what would not fit an idle one.
    """
    return (kv_guard - (used or 0.0)) * capacity if capacity else math.inf


def needs_probe(
    view: TargetView, load: TargetLoad, pool_picks: int, pool_size: int, now: float
) -> bool:
    """Return whether a target is out of the draw, just back, or starved; never when it drains."""
    if view.state is State.DRAINING:
        return False
    if view.probe_only:
        return True
    if not view.eligible:
        return False
    if view.state is State.WARMUP and view.score is not None:
        return True
    picked_at = load.due_from(pool_picks, now)
    return starved(picked_at, pool_picks - load.last_pick, pool_size, now)
