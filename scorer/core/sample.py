"""The sample of a pick: at most 8 targets, each as likely, that the request may go to.

Sampling makes a pick cost the same in a pool of 8 and of 1,000. Left out are, softly,
targets in saturation cooldown if the prompt is long, targets that the prompt would bring
beyond the KV guard, and targets in warm-up as their ramp demands. If nothing is left the
filters are dropped, in the order guard, cooldown, warm-up.

The order of a table's rows is random, anew with every view. So two runs of four that
follow one another in it are as good as eight targets drawn one by one, and cost two
draws; targets left out are replaced by those that follow.

The draws, in this order, each a float in [0, 1) of which an index below n is n times it,
cut: when more than two candidates run the asked adapter, one for the first of two of them
and one for the second among the others. In a pool of more than 8, one for where the first
run starts, one for how far from its end the second does. Then, as each target in warm-up
comes to its turn, one whether it enters.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from scorer.core.table import SAMPLE, PickTable, Row

RUN = SAMPLE // 2
LOOKED_AT = 24
"""Targets that are drawn at most to find a sample; those excluded come on top."""
ADAPTERS = 2
"""Targets running the asked adapter that every sample has."""

Sample = tuple[Sequence[Row], str, bool]
"""The targets, the last filter that had to be dropped, and whether it is panic."""


class Draws:
    """Floats in [0, 1) from a source of chance; ``taken`` is what was drawn so far."""

    __slots__ = ("_random", "taken")

    def __init__(self, random: Callable[[], float]) -> None:
        """Draw from ``random``."""
        self._random = random
        self.taken: list[float] = []

    def __call__(self) -> float:
        """Return the next draw."""
        draw = self._random()
        self.taken.append(draw)
        return draw


class Ask(NamedTuple):
    """What a request asks for besides a target: whom not to return, affinity, adapter.

    ``tokens`` is the length of its prompt, None when it does not tell it.
    """

    tokens: int | None = None
    exclude: frozenset[str] = frozenset()
    key: str = ""
    lora: str = ""


def sampled(table: PickTable, ask: Ask, tokens: int, draws: Draws) -> Sample:
    """Return the sample for a prompt of ``tokens``; empty when every target is excluded."""
    rows = table.rows if tokens < table.params.long_prompt_tokens else table.short_list
    if rows and not (table.warming or ask.exclude or ask.key or ask.lora):
        return _plain_sample(table, rows, tokens, draws)
    first = _named(table, ask, rows, draws) if ask.key or ask.lora else ()
    kept, guarded, warming = _survey(rows, tokens, ask, draws, first)
    if kept:
        return kept, "", table.panic
    if guarded:
        return guarded[:SAMPLE], "kv_guard", table.panic
    if rows is not table.rows:
        kept, guarded, warming = _survey(table.rows, tokens, ask, draws)
        if kept or guarded:
            return kept or guarded[:SAMPLE], "cooldown", table.panic
    if warming:
        return warming[:SAMPLE], "warmup", table.panic
    kept, guarded, warming = _survey(table.rest, tokens, ask, draws)
    return (kept or guarded or warming)[:SAMPLE], "", True


def preferred(table: PickTable, ask: Ask) -> Row | None:
    """Return the candidate that the request's key prefers, of those it does not exclude."""
    return table.preferred(ask.key, ask.exclude)


def _plain_sample(table: PickTable, rows: Sequence[Row], tokens: int, draws: Draws) -> Sample:
    """Return the sample when nothing but the KV guard can keep a target out of it.

    What :func:`_survey` returns then, as nearly every pick is such a one.
    """
    size, one, two = len(rows), 0, 0
    eight = rows
    if size > SAMPLE:
        one, two = _runs(size, draws)
        eight = _cut(rows, one, two)
    if tokens <= table.room:
        return eight, "", table.panic
    kept = [row for row in eight if row.load.fresh + tokens <= row.room]
    if size > SAMPLE and len(kept) < SAMPLE and tokens <= table.most:
        for row in _following(rows, one, two):
            if row.load.fresh + tokens <= row.room:
                kept.append(row)
                if len(kept) == SAMPLE:
                    break
    return (kept, "", table.panic) if kept else (eight, "kv_guard", table.panic)


def _runs(size: int, draws: Draws) -> tuple[int, int]:
    """Return where the two runs start; they go on at the start from the end, and never overlap."""
    one = int(draws() * size)
    two = one + RUN + int(draws() * (size - 2 * RUN + 1))
    return one, two - size if two >= size else two


def _cut(rows: Sequence[Row], one: int, two: int) -> list[Row]:
    """Return the two runs that start at these places."""
    size = len(rows)
    if one <= size - RUN and two <= size - RUN:
        return [*rows[one : one + RUN], *rows[two : two + RUN]]
    return [rows[(start + step) % size] for start in (one, two) for step in range(RUN)]


def _after(rows: Sequence[Row], one: int, two: int, exclude: Collection[str]) -> list[Row]:
    """Return who follows the second run, without the first: 16 besides those excluded.

    Excluded ones of the runs make room for as many more.
    """
    size = len(rows)
    places = [(two + RUN + step) % size for step in range(min(size, LOOKED_AT + len(exclude)))]
    found = [rows[place] for place in places if (place - one) % size >= RUN]
    found = found[: size - SAMPLE]
    runs = [rows[(start + step) % size].target for start in (one, two) for step in range(RUN)]
    left = LOOKED_AT - sum(target not in exclude for target in runs)
    for place, row in enumerate(found):
        left -= row.target not in exclude
        if not left:
            return found[: place + 1]
    return found


def _following(rows: Sequence[Row], one: int, two: int) -> Sequence[Row]:
    """Return what :func:`_after` does when nobody is excluded."""
    size = len(rows)
    start, wanted = (two + RUN) % size, min(LOOKED_AT, size) - SAMPLE
    before = (one - start) % size
    if before >= wanted:
        return _stretch(rows, start, wanted)
    beyond = _stretch(rows, (one + RUN) % size, wanted - before)
    return [*_stretch(rows, start, before), *beyond]


def _stretch(rows: Sequence[Row], start: int, length: int) -> Sequence[Row]:
    """Return ``length`` rows from a place on, which go on at the start from the end."""
    missing = start + length - len(rows)
    part = rows[start : start + length]
    return part if missing <= 0 else [*part, *rows[:missing]]


def _parts(
    rows: Sequence[Row], ask: Ask, draws: Draws, first: Sequence[Row]
) -> Iterator[Sequence[Row]]:
    """Yield the targets to look at, in order: a sample, and if that is not enough, more."""
    if len(rows) <= SAMPLE:
        yield rows
        return
    if first:
        yield first
    one, two = _runs(len(rows), draws)
    for part in (_cut(rows, one, two), None):
        found = part or (
            _after(rows, one, two, ask.exclude) if ask.exclude else _following(rows, one, two)
        )
        yield [row for row in found if row not in first] if first else found


def _survey(
    rows: Sequence[Row],
    tokens: int,
    ask: Ask,
    draws: Draws,
    first: Sequence[Row] = (),
) -> tuple[list[Row], list[Row], list[Row]]:
    """Draw targets, those in ``first`` before, until there are enough to compare.

    Returns them, those short of KV room, and those whose ramp kept them out.
    """
    kept: list[Row] = []
    guarded: list[Row] = []
    warming: list[Row] = []
    exclude = ask.exclude
    for part in _parts(rows, ask, draws, first):
        for row in part:
            if exclude and row.target in exclude:
                continue
            if row.admit < 1.0 and draws() >= row.admit:
                warming.append(row)
            elif row.load.fresh + tokens > row.room:
                guarded.append(row)
            else:
                kept.append(row)
                if len(kept) == SAMPLE:
                    return kept, guarded, warming
    return kept, guarded, warming


def _named(table: PickTable, ask: Ask, rows: Sequence[Row], draws: Draws) -> list[Row]:
    """Return whom the request asks for by key or adapter, as far as they are in ``rows``."""
    long = rows is not table.rows
    named: list[Row] = []
    if ask.key:
        wanted = preferred(table, ask)
        if wanted is not None and not (long and wanted.cooling):
            named.append(wanted)
    if ask.lora:
        running = table.running(ask.lora)
        if len(running) > ADAPTERS:
            one = int(draws() * len(running))
            two = int(draws() * (len(running) - 1))
            running = (running[one], running[two + (two >= one)])
        named += [row for row in running if not (long and row.cooling) and row not in named]
    return named
