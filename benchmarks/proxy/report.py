"""The page of the proxy benchmark: what each way adds to the same proxy without a pick."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.proxy.ways import DIRECT, UNIX

P50, CPU = "added p50 at one connection", "added CPU of the proxy a request"
GOALS = tuple(
    (name + variant, figure, limit, words)
    for name, figure, limit, words in (
        ("nginx, Lua with feedback", "p50", 60.0, P50),
        ("nginx, Lua with feedback", "proxy_cpu", 20.0, CPU),
        ("nginx, auth_request", "p50", 45.0, P50),
    )
    for variant in ("", UNIX)
)
ALL_PICKS = 0.98
"""Picks a request, below which some went without one: those under way at the ends count."""
PAGE = """\
# What a pick costs in a proxy

Made by `make bench-proxy` on {date}, commit {commit}: {cpu}, {cores} cores, Python {python};
{programs}.

wrk sends chat completions that are answered at once with a short stream, by two engines, the same
for all ways. Each proxy has one worker, on a core that it shares with nothing of ours; load,
engines and daemon share the other. {rounds} rounds of all ways in turn, {seconds:g} s each;
medians, lowest and highest in parentheses. The load average before was {load:.1f}: where that
is not near 0, others were at work on the same cores, and the figures are too high. *Added* is
the difference to the same proxy without a pick in the same round, for a router to no proxy at all.

{table}

*Fixed answers* are those of a stand-in that decides nothing, in place of the daemon: what asking
costs, whoever answers.

The examples run as they are shipped, but for one thing: a pick may take half a second rather than
20 ms. On a core that it shares with the load the daemon is late at times; the proxies would go on
without it, and the row would show less than a pick costs. A run in which requests did so all the
same is repeated up to twice; *added* is left out where that was of no use.

{notes}"""
HEAD = (
    "way", "p50 at 1 connection, µs", "added", "proxy CPU at 32, µs a request", "added",
    "daemon CPU at 32, µs a request", "picks a request", "requests/s at 32",
)  # fmt: skip


def markdown(told: Mapping[str, Any]) -> str:
    """Return the page."""
    facts, rows = told["environment"], told["rows"]
    bases = {row["name"]: row for row in rows}
    table = [
        f"| {' | '.join(HEAD)} |",
        f"| --- |{' ---: |' * (len(HEAD) - 1)}",
        *(_row(row, bases.get(row["base"])) for row in rows),
    ]
    left_out = [f"- not measured: {name}, for want of {w}." for name, w in told["left_out"].items()]
    return PAGE.format(
        **{**facts, "programs": ", ".join(facts["programs"])},
        table="\n".join(table),
        notes="\n".join([*_goals(rows, bases), *left_out, ""]),
    )


def _row(row: Mapping[str, Any], base: Mapping[str, Any] | None) -> str:
    one, many = row["one"], row["many"]
    cells = [
        row["name"],
        _spread([each["p50"] for each in one]),
        "" if base is None else _added(row, base, "one", "p50"),
        _spread([each["proxy_cpu"] for each in many]) if row["name"] != DIRECT else "",
        "" if base is None or base["name"] == DIRECT
        else _added(row, base, "many", "proxy_cpu"),
        f"{median(each['daemon_cpu'] for each in many):.0f}",
        f"{median(each['picks'] for each in many):.2f}",
        f"{median(each['per_second'] for each in many):,.0f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def picked(row: Mapping[str, Any], load: str) -> bool:
    """Return whether all requests were picked for, where the way asks."""
    return not row.get("asks") or median(each["picks"] for each in row[load]) >= ALL_PICKS


def _added(row: Mapping[str, Any], base: Mapping[str, Any], load: str, figure: str) -> str:
    return f"{added(row, base, load, figure):+.0f}" if picked(row, load) else "–"


def added(row: Mapping[str, Any], base: Mapping[str, Any], load: str, figure: str) -> float:
    """Return the median over the rounds of the difference to the base in the same round."""
    pairs = zip(row[load], base[load], strict=True)
    return median(mine[figure] - plain[figure] for mine, plain in pairs)


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.0f} ({min(values):.0f}–{max(values):.0f})"


def _goals(rows: Sequence[Mapping[str, Any]], bases: Mapping[str, Any]) -> list[str]:
    found = []
    for name, figure, limit, words in GOALS:
        row = next((each for each in rows if each["name"] == name), None)
        if row is not None:
            load = "one" if figure == "p50" else "many"
            value = added(row, bases[row["base"]], load, figure)
            verdict = "reached" if value <= limit and picked(row, load) else "**not reached**"
            found.append(f"- {name}: {words} {value:.1f} µs, to reach: {limit:g} µs: {verdict}.")
    return found
