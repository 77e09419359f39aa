"""The results as a page: targets, then a table for each point of each scenario."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from benchmarks.simulator.figures import median, paired

HEAD = """\
# Simulator benchmark

`{command}` on {date}, commit {commit}, seeds {seeds}. Requests: {workload}.

The shipped scorer and other policies on a virtual clock, in front of the same emulated engines
with the same requests; what is simulated, and what it does not show, is in
[docs/benchmarks.md](../../docs/benchmarks.md). Each figure is the median over the seeds. P99 has
its smallest and largest value in brackets, and so have the ratios, which are taken seed by seed.
The first minute of each run is left out. Times in seconds, TTFT from a request's arrival to its
first token, goodput in tokens a second of answers with TTFT up to 2 s and at most 100 ms per
further token.
"""
LEAST, BOUND = "least connections", "clairvoyant"
SHIPPED = "scorer, choices 2"
P99 = "ttft_p99_all"
Values = Mapping[str, Sequence[float]]


class Column(NamedTuple):
    """A column of a table: its title, the figure, and how the median is written."""

    title: str
    figure: str
    form: str
    always: bool = True


COLUMNS = (
    Column("P50", "ttft_p50_all", "{:.2f}"),
    Column("P95", "ttft_p95_all", "{:.2f}"),
    Column("P99 ≤ 8K", "ttft_p99_short", "{:.2f}"),
    Column("P99 > 8K", "ttft_p99_long", "{:.1f}"),
    Column("TPOT P99", "tpot_p99", "{:.3f}"),
    Column("goodput", "goodput", "{:,.0f}"),
    Column("preempted", "preemptions", "{:,.0f}", always=False),
    Column("timeouts", "timeouts", "{:,.0f}", always=False),
    Column("errors", "errors", "{:,.0f}", always=False),
    Column("unanswered", "unanswered", "{:,.0f}", always=False),
    Column("KV > 95 %", "kv_full", "{:.1%}", always=False),
    Column("most waiting", "most_waiting", "{:,.0f}"),
)


class Goal(NamedTuple):
    """Something to reach, what came out, and whether that reaches it."""

    aim: str
    measured: str
    reached: bool


def markdown(told: Mapping[str, Any]) -> str:
    """Return the page."""
    facts = told["environment"]
    seeds = f"{facts['seeds'][0]}–{facts['seeds'][-1]}"
    parts = [HEAD.format_map({**facts, "seeds": seeds})]
    aims = list(goals(told))
    if aims:
        parts.append("\n## Aims\n\n| aim | measured | |\n|---|--:|---|\n")
        parts += [
            f"| {aim} | {measured} | {'reached' if reached else 'not reached'} |\n"
            for aim, measured, reached in aims
        ]
    for scenario in told["scenarios"]:
        parts.append(f"\n## {scenario['key']}: {scenario['title']}\n")
        for point in scenario["points"]:
            parts += _table(point)
    return "".join(parts)


def figures_of(point: Mapping[str, Any]) -> dict[str, Values]:
    """Return the figures of a point by policy; what was never is infinite."""
    return {
        name: {
            figure: [inf if each is None else each for each in values]
            for figure, values in one["figures"].items()
        }
        for name, one in point["policies"].items()
    }


def _table(point: Mapping[str, Any]) -> Iterator[str]:
    rows = figures_of(point)
    columns = [
        each for each in COLUMNS
        if each.always or any(any(row[each.figure]) for row in rows.values())
    ]  # fmt: skip
    versus = [name for name in (LEAST, BOUND) if name in rows]
    titles = ["P99 (min–max)", *(f"× {name}" for name in versus), *(c.title for c in columns)]
    if point["label"]:
        yield f"\n**{point['label']}**\n"
    yield f"\n| policy | {' | '.join(titles)} |\n|---|{'--:|' * len(titles)}\n"
    for name, row in rows.items():
        cells = [_ranged(row[P99], 2)]
        cells += [_ranged(paired(row[P99], rows[other][P99]), 2) for other in versus]
        cells += [each.form.format(median(row[each.figure])) for each in columns]
        cells = [each.replace("inf", "never") for each in cells]
        shown = f"**{name}**" if name == SHIPPED else name
        yield f"| {shown} | {' | '.join(cells)} |\n"


def _ranged(values: Sequence[float], digits: int) -> str:
    low, high = min(values), max(values)
    if low == high:
        return f"{low:.{digits}f}"
    return f"{median(values):.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def ratio(point: Mapping[str, Any], other: str, figure: str = P99, own: str = SHIPPED) -> float:
    """Return the median over the seeds of our figure over the other's."""
    rows = figures_of(point)
    return median(paired(rows[own][figure], rows[other][figure]))


def goals(told: Mapping[str, Any]) -> Iterator[Goal]:
    """Yield how the numbers compare with what was to be reached, as far as they were measured."""
    found = {each["key"]: each for each in told["scenarios"]}
    for key, most in (("S1", 0.2), ("S2", 0.3), ("S3", 0.55)):
        if key in found:
            value = ratio(found[key]["points"][0], LEAST)
            yield Goal(f"{key}: P99 ≤ {most:g} × least connections", f"{value:.2f}", value <= most)
    if "S1" in found:
        value = ratio(found["S1"]["points"][0], BOUND)
        yield Goal("S1: P99 ≤ 1.25 × clairvoyant", f"{value:.2f}", value <= 1.25)
    yield from _never_worse(told)
    if "S7" in found:
        yield _flat(found["S7"])
    if "S9" in found:
        yield from _goodput(found["S9"])
    for point in found["S10"]["points"] if "S10" in found else ():
        rows = figures_of(point)
        theirs, own = (median(rows[name]["preemptions"]) for name in (LEAST, SHIPPED))
        if theirs:
            place = f"S10 {point['label']}".strip()
            aim = f"{place}: no preemption where least connections has some"
            yield Goal(aim, f"{own:,.0f} against {theirs:,.0f}", own == 0)


def _never_worse(told: Mapping[str, Any]) -> Iterator[Goal]:
    ratios = {
        f"{scenario['key']} {point['label']}".strip(): ratio(point, LEAST)
        for scenario in told["scenarios"] if scenario["key"].startswith("S")
        for point in scenario["points"] if SHIPPED in point["policies"]
    }  # fmt: skip
    if ratios:
        worst = max(ratios, key=ratios.__getitem__)
        aim = "no scenario worse than least connections (the worst)"
        yield Goal(aim, f"{ratios[worst]:.2f} ({worst})", ratios[worst] <= 1.0)


def _flat(scenario: Mapping[str, Any]) -> Goal:
    """Return whether P99 moves by at most 5 % between scrapes every 0.1 s and every 5 s."""
    points = {point["label"]: figures_of(point)[SHIPPED][P99] for point in scenario["points"]}
    usual = points["1 s"]
    moved = {
        label: median(paired(values, usual)) for label, values in points.items() if label != "15 s"
    }
    far = max(moved, key=lambda label: abs(moved[label] - 1))
    text = f"{moved[far]:.2f} ({far})"
    return Goal("S7: P99 within ± 5 % from 0.1 to 5 s scrapes", text, abs(moved[far] - 1) <= 0.05)


def _goodput(scenario: Mapping[str, Any]) -> Iterator[Goal]:
    for point in scenario["points"]:
        value = ratio(point, LEAST, "goodput")
        if value < inf:
            aim = f"S9, {point['label']}: goodput ≥ 1.1 × least connections"
            yield Goal(aim, f"{value:.2f}", value >= 1.1)
