"""Short ways to write targets as picks see them."""

import math
import random
from collections.abc import Iterable, Sequence

from scorer.core.feedback_mode import FeedbackMode
from scorer.core.load import TargetLoad
from scorer.core.params import PickParams
from scorer.core.pick import Choice, choose
from scorer.core.sample import Ask, Draws
from scorer.core.snapshot import PoolView
from scorer.core.table import PickTable, Row

NOW = 1000.0


def load(name: str = "a:1", *, told: bool = False, speed: float = 8000.0) -> TargetLoad:
    """Return the load of a target of an index and a mode of its own."""
    mode = FeedbackMode()
    made = TargetLoad("chat", name, {}, mode)
    made.use(speed, told=told)
    return made


def row(
    name: str,
    *,
    health: float = 100.0,
    admit: float = 1.0,
    cooling: bool = False,
    room: float = math.inf,
    loras: Iterable[str] = (),
    outstanding: float = 0.0,
    in_flight: int = 0,
    resident: int = 0,
    speed: float = 8000.0,
) -> Row:
    """Return a target with a load of these figures, which stands still."""
    made = load(name, speed=speed)
    made.in_flight, made.resident = in_flight, resident
    made.see_strangers(outstanding)  # type: ignore[arg-type]
    return Row(
        target=name, url=f"http://{name}", score=health, health=health,
        share=max(health / 100.0, 0.02), admit=admit, cooling=cooling, room=room,
        loras=frozenset(loras), load=made,
    )  # fmt: skip


def table(*rows: Row, rest: Sequence[Row] = (), panic: bool = False, **params: object) -> PickTable:
    """Return the table of a pool with these candidates."""
    view = PoolView(
        name="chat", models=(), targets=(), candidates=(), eligible=len(rows), panic=panic,
        judged_at=NOW, scored=True, pick=PickParams(**params),  # type: ignore[arg-type]
    )  # fmt: skip
    return PickTable(view, list(rows), list(rest))


def seeded(seed: int = 1) -> Draws:
    """Return draws from a seed."""
    return Draws(random.Random(seed).random)


def given(*draws: float) -> Draws:
    """Return these draws and no more."""
    return Draws(iter(draws).__next__)


def pick(
    table: PickTable, tokens: int = 100, draws: Draws | None = None, **ask: object
) -> Choice | None:
    """Pick once at :data:`NOW`."""
    wanted = Ask(tokens, **ask)  # type: ignore[arg-type]
    return choose(table, wanted, tokens, NOW, draws or seeded())


def picked(table: PickTable, count: int, tokens: int = 100, seed: int = 1, **ask: object):
    """Return the targets of ``count`` picks that leave no trace."""
    draws = seeded(seed)
    return [pick(table, tokens, draws, **ask).row.target for _ in range(count)]  # type: ignore[union-attr]
