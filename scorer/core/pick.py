"""The pick: sample → expected wait → cold set → two random choices.

    eligible, per request less those tried, in cooldown (long prompts) or short of KV room
    → at most 8 of them, uniformly; one in warm-up with the probability of its ramp
    → cost = (work ahead + own work + decoding + harm) / prefill rate / health
    → cold: cost at most the smallest + 100 ms + 25 %
    → two of the cold: the better one wins, the more surely the further it is ahead

Two choices alone fall both on targets that a long prefill blocks often enough to *be*
the tail; so they are drawn from the cold ones. Never the best of all for everybody: the
figures are a moment old, and a burst would follow them to one target.

Pure arithmetic: the answer depends on the table, the request, the time and the draws,
which are floats in [0, 1); an index below n is a draw times n, cut. How the sample is
drawn is in :mod:`scorer.core.sample`; the draws that follow are, in this order:

1. one for each of the first two cold ones; one whether the better one wins; for each
   further choice one to draw it, one whether the better one wins. With ``choices: all``
   one, when several have the lowest cost;
2. one for each alternate still to be found when there are several for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from scorer.core.params import ALL_CHOICES
from scorer.core.prefill import work
from scorer.core.sample import Ask, Draws, preferred, sampled
from scorer.core.table import PickTable, Row

COLD_SECONDS, COLD_SHARE = 0.1, 0.25
"""What a cold target may cost beyond the cheapest: seconds, and a share of its cost."""
LONG_WORK, HARM = 32_000.0, 0.07
"""Token-equivalents from which a prompt harms those that decode beside it, and what each of
them costs: a share of the prompt's work beyond that."""
POINTS_PER_SECOND = 100.0
"""Points of the comparison that a second of cost is worth."""
SURE_AT = 20.0
"""Twice the points by which the better of two always wins."""
MAX_ALTERNATES = 2
PROBE = "probe"
"""Reason of a choice that finds out whether a target works again."""


@dataclass(slots=True)
class Choice:
    """The target picked, whom to try next, and how it came to that; nobody changes it.

    ``reason`` is how the winner was found, ``relaxed`` the last filter that had to be
    dropped, or nothing. ``sample``, ``costs`` (seconds) and ``cold`` (indexes) go together.
    """

    row: Row
    alternates: Sequence[Row]
    reason: str
    relaxed: str
    panic: bool
    sample: Sequence[Row]
    costs: Sequence[float]
    cold: Sequence[int]


def choose(table: PickTable, ask: Ask, tokens: int, now: float, draws: Draws) -> Choice | None:
    """Pick a target for a prompt of ``tokens``; None when there is none that is not excluded.

    When the request excludes every candidate, the pool's other targets are used and the
    choice says panic: an answer beats none.
    """
    sample, relaxed, panic = sampled(table, ask, tokens, draws)
    if not sample:
        return None
    costs = weigh(sample, tokens, now)
    best = min(costs)
    limit = best + COLD_SECONDS + COLD_SHARE * best
    cold = [index for index, cost in enumerate(costs) if cost <= limit]
    if ask.lora:
        cold = [index for index in cold if ask.lora in sample[index].loras] or cold
    reason, (first, *others) = _ordered(table, ask, sample, costs, cold, draws)
    alternates = [sample[index] for index in others]
    if len(others) < MAX_ALTERNATES:
        alternates += _others(table, sample, ask)[: MAX_ALTERNATES - len(others)]
    return Choice(sample[first], alternates, reason, relaxed, panic, sample, costs, cold)


def probing(row: Row, choice: Choice) -> Choice:
    """Return a choice that probes ``row``; the winner of the normal rule is tried next."""
    others = [each for each in (choice.row, *choice.alternates) if each is not row]
    return Choice(
        row, others[:MAX_ALTERNATES], PROBE, choice.relaxed, choice.panic, choice.sample,
        choice.costs, choice.cold,
    )  # fmt: skip


def weigh(sample: Sequence[Row], tokens: int, now: float) -> list[float]:
    """Return the cost of each target in seconds: wait and harm, discounted by health.

    The wait is that of :meth:`scorer.core.load.TargetLoad.wait`, written out because it runs
    eight times for every request. The harm is what a long prompt does to those that decode
    there: the fewer they are, the fewer get their tokens late.
    """
    need = work(tokens)
    harm = HARM * (need - LONG_WORK) if need > LONG_WORK else 0.0
    costs = []
    for row in sample:
        load = row.load
        ahead, floor = load.end - now, load.floor
        if ahead < floor:  # noqa: PLR1730 - max() takes three times as long
            ahead = floor
        own = need + harm * load.in_flight if harm else need
        costs.append((ahead + load.extra + own / load.speed) / row.share)
    return costs


def _ordered(
    table: PickTable,
    ask: Ask,
    sample: Sequence[Row],
    costs: Sequence[float],
    cold: Sequence[int],
    draws: Draws,
) -> tuple[str, list[int]]:
    """Return how the winner was found, and indexes: the winner, then whom to try next."""
    if ask.key:
        wanted = preferred(table, ask)
        for index in cold:
            if sample[index] is wanted:
                return "key", _filled([index], sample, cold, draws)
    choices, size = table.params.choices, len(cold)
    if choices == ALL_CHOICES:
        best = min(costs[index] for index in cold)
        equal = [index for index in cold if costs[index] == best]
        first = equal[int(draws() * len(equal))] if len(equal) > 1 else equal[0]
        return "all", _filled([first], sample, cold, draws)
    if size == 1:
        return "cold", _filled([cold[0]], sample, cold, draws)
    one = int(draws() * size)
    two = int(draws() * (size - 1))
    two += two >= one
    low, high = (one, two) if one < two else (two, one)
    one, two = cold[one], cold[two]
    if not _wins(sample, costs, one, two, draws):
        one, two = two, one
    if choices > 2 or size == 2:
        left = [index for place, index in enumerate(cold) if place not in (low, high)]
        return "draw", _drawn([one, two], left, sample, costs, cold, choices, draws)
    three = int(draws() * (size - 2)) if size > 3 else 0
    three += three >= low
    return "draw", [one, two, cold[three + (three >= high)]]


def _wins(
    sample: Sequence[Row], costs: Sequence[float], one: int, other: int, draws: Draws
) -> bool:
    """Return whether target ``one`` of the sample wins against the ``other``.

    No cliff: the better one wins the more surely the further it is ahead, so the last of
    several nearly equal ones is not starved.
    """
    ahead = (sample[one].health - POINTS_PER_SECOND * costs[one]) - (
        sample[other].health - POINTS_PER_SECOND * costs[other]
    )
    return draws() < 0.5 + ahead / SURE_AT


def _drawn(
    order: list[int],
    left: list[int],
    sample: Sequence[Row],
    costs: Sequence[float],
    cold: Sequence[int],
    choices: int,
    draws: Draws,
) -> list[int]:
    """Let further choices from ``left`` meet the best so far; fill up the alternates."""
    while left and choices > 2:
        drawn = left.pop(int(draws() * len(left)))
        if _wins(sample, costs, drawn, order[0], draws):
            order = [drawn, order[0]]
        else:
            order = [order[0], drawn]
        choices -= 1
    return _filled(order, sample, cold, draws)


def _filled(
    order: list[int], sample: Sequence[Row], cold: Sequence[int], draws: Draws
) -> list[int]:
    """Return ``order`` with further targets of the sample, cold ones first."""
    while len(order) <= MAX_ALTERNATES and len(order) < len(sample):
        others = [index for index in cold if index not in order]
        if not others:
            others = [index for index in range(len(sample)) if index not in order]
        order.append(others[int(draws() * len(others))] if len(others) > 1 else others[0])
    return order


def _others(table: PickTable, sample: Sequence[Row], ask: Ask) -> list[Row]:
    """Return up to two candidates that a filter kept out of the sample: to try at last."""
    left = (row for row in table.rows if row.target not in ask.exclude and row not in sample)
    return list(islice(left, MAX_ALTERNATES))
