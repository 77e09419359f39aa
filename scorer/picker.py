"""One pick from start to end: choose, perhaps probe, open the lease, remember why.

Runs on the event loop. What it decides by is pure and lives in :mod:`scorer.core.pick`;
this is where the draws, the time and the memory come in.
"""

import logging
import secrets
from collections.abc import Callable
from itertools import count

import structlog

from scorer.core.pick import Choice, choose, probing
from scorer.core.pick_ids import CLASSES, VERSION
from scorer.core.prefill import work
from scorer.core.sample import Ask, Draws
from scorer.core.snapshot import PoolView
from scorer.decisions import Decisions
from scorer.inflight import InFlight

RUN_BYTES = 5

logger = structlog.stdlib.get_logger(__name__)


class Picker:
    """Picks targets of published views; for one thread."""

    def __init__(
        self, inflight: InFlight, decisions: Decisions, random: Callable[[], float]
    ) -> None:
        """Keep leases in ``inflight`` and what was decided in ``decisions``."""
        self._inflight = inflight
        self._remember = decisions.add
        self._draws = Draws(random)
        self._run = secrets.token_urlsafe(RUN_BYTES)
        self._numbers = count()
        self._logs = logging.getLogger(__name__).isEnabledFor(logging.DEBUG)

    def pick(self, view: PoolView, ask: Ask, now: float) -> tuple[Choice, str] | None:
        """Pick a target of ``view`` and open a lease; return the choice and the lease's id.

        None when there is no target that is not excluded.
        """
        inflight, draws = self._inflight, self._draws
        if inflight.releases and inflight.releases[0][0] <= now:
            inflight.release(now)
        picks, table = inflight.tables(view)
        tokens = picks.prompts.length(ask.tokens)
        need = work(tokens)
        taken = draws.taken = []
        choice = choose(table, ask, tokens, now, draws)
        if choice is None:
            return None
        probe = picks.probes.turn(table, tokens, ask.exclude, now)
        if probe is not None:
            choice = probing(probe, choice)
        load = choice.row.load
        number = next(self._numbers)
        pick_id = f"{VERSION}{CLASSES[tokens.bit_length()]}{load.tag}{self._run}{number:x}"
        lease = inflight.lease(load, pick_id, need, tokens, now)
        if probe is not None:
            lease.probe = True
        room = choice.row.room - load.fresh
        if room < table.room:  # noqa: PLR1730 - min() takes three times as long
            table.room = room
        load.picked_at, load.last_pick = now, picks.probes.picks
        known, excluded = ask.tokens is not None, len(ask.exclude)
        self._remember(
            (now, view.name, pick_id, tokens, known, excluded, ask.key, ask.lora, choice, taken)
        )
        if self._logs:
            log(view.name, tokens, choice)
        return choice, pick_id


def log(pool: str, tokens: int, choice: Choice) -> None:
    """Write a pick to the log, with what it was chosen from."""
    logger.debug(
        "Picked",
        pool=pool,
        target=choice.row.target,
        alternates=",".join(row.target for row in choice.alternates),
        reason=choice.reason,
        relaxed=choice.relaxed,
        panic=choice.panic,
        tokens=tokens,
        costs=",".join(
            f"{row.target}={cost:.3f}"
            for row, cost in zip(choice.sample, choice.costs, strict=True)
        ),
    )
