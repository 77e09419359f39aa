"""Plots of the results: P99 by policy, TTFT distribution, staleness, an outage, shares."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from benchmarks.simulator.figures import median
from benchmarks.simulator.report import BOUND, LEAST, P99, SHIPPED, figures_of
from benchmarks.simulator.series import SHARES

mpl.use("Agg")
import matplotlib.pyplot as plt

PLAIN = "plain rule (score, P2C, per request)"
COLOURS = {
    SHIPPED: "#c92a2a",
    "scorer, choices 4": "#e8590c",
    "scorer, choices all": "#f2b705",
    LEAST: "#1c7ed6",
    PLAIN: "#9c36b5",
    "least outstanding prompt": "#2f9e44",
    BOUND: "#1a1a1a",
}
OTHER = "#adb5bd"
STATES = {"warmup": "#1c7ed6", "unreachable": "#c92a2a", "degraded": "#f2b705"}


def draw(told: Mapping[str, Any], folder: Path, name: str) -> None:
    """Write every plot that the results have numbers for."""
    found = {each["key"]: each["points"] for each in told["scenarios"]}
    bars = [(key, found[key][0]) for key in ("S1", "S2", "S3", "S4", "S5") if key in found]
    if bars:
        _bars(bars, folder / f"{name}-p99.png")
    if "S1" in found:
        _curves(found["S1"][0], folder / f"{name}-ttft.png")
    if "S2" in found:
        _shares(found["S2"][0], folder / f"{name}-shares.png")
    if "S6" in found:
        _outage(found["S6"][0], folder / f"{name}-outage.png")
    if "S7" in found:
        _staleness(found["S7"], folder / f"{name}-staleness.png")


def _save(figure: "plt.Figure", path: Path) -> None:
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _plainly(axis: "mpl.axis.Axis", *, percent: bool = False) -> None:
    """Write the ticks of a logarithmic axis as plain numbers."""
    form = mpl.ticker.FuncFormatter(
        lambda value, _: f"{100 * value:g} %" if percent else f"{value:g}"
    )
    axis.set_major_formatter(form)
    axis.set_minor_formatter(mpl.ticker.NullFormatter())


def _bars(points: Sequence[tuple[str, Mapping[str, Any]]], path: Path) -> None:
    figure, axes = plt.subplots(
        1, len(points), figsize=(3.1 * len(points) + 2.2, 4.6), sharey=True, layout="constrained"
    )
    for axis, (key, point) in zip(axes, points, strict=True):
        rows = figures_of(point)
        for place, name in enumerate(reversed(rows)):
            values = rows[name][P99]
            middle = median(values)
            axis.barh(place, middle, color=COLOURS.get(name, OTHER), height=0.72)
            axis.plot([min(values), max(values)], [place, place], color="#495057", linewidth=1.2)
            axis.text(max(values) * 1.12, place, f"{middle:.1f}", va="center", fontsize=8)
        axis.set(title=key, xscale="log", xlabel="P99 TTFT (s)")
        axis.set_yticks(range(len(rows)), list(reversed(rows)), fontsize=8)
        axis.set_xlim(0.5, 900)
        _plainly(axis.xaxis)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle("P99 time to first token: median over the seeds, line from min to max")
    _save(figure, path)


def _curves(point: Mapping[str, Any], path: Path) -> None:
    figure, axis = plt.subplots(figsize=(7.6, 4.6), layout="constrained")
    for name, one in point["policies"].items():
        if name in COLOURS and "cdf" in one:
            wide = 2.4 if name == SHIPPED else 1.4
            left = [1 - share for share in SHARES]
            axis.plot(one["cdf"], left, label=name, color=COLOURS[name], linewidth=wide)
    axis.set(
        xscale="log", yscale="log", xlabel="time to first token (s)", ylim=(1e-3, 1),
        ylabel="requests that wait longer", title="S1: time to first token, one seed",
    )  # fmt: skip
    _plainly(axis.xaxis)
    _plainly(axis.yaxis, percent=True)
    axis.axhline(0.01, color=OTHER, linewidth=0.8, linestyle=":")
    axis.text(axis.get_xlim()[0] * 1.1, 0.0105, "P99", fontsize=8, color="#495057")
    axis.legend(fontsize=8)
    axis.grid(color="#e9ecef")
    _save(figure, path)


def _shares(point: Mapping[str, Any], path: Path) -> None:
    names = [name for name in (LEAST, SHIPPED, BOUND) if name in point["policies"]]
    figure, axis = plt.subplots(figsize=(7.6, 3.8), layout="constrained")
    for place, name in enumerate(names):
        counts = point["policies"][name]["shares"]
        total = sum(counts)
        at = [index + 0.27 * (place - 1) for index in range(len(counts))]
        axis.bar(at, [each / total for each in counts], 0.25, label=name, color=COLOURS[name])
    size = len(point["policies"][names[0]]["shares"])
    labels = [f"{'A100' if index < size // 2 else 'H800'} {index}" for index in range(size)]
    axis.set_xticks(range(size), labels, fontsize=8)
    axis.set(ylabel="share of the requests", title="S2: how requests are spread, one seed")
    axis.yaxis.set_major_locator(mpl.ticker.MultipleLocator(0.05))
    axis.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    axis.legend(fontsize=8)
    _save(figure, path)


def _outage(point: Mapping[str, Any], path: Path) -> None:
    figure, (waits, shares, score) = plt.subplots(
        3, 1, figsize=(8.2, 7.4), sharex=True, layout="constrained",
        gridspec_kw={"height_ratios": [2, 1.2, 1.2]},
    )  # fmt: skip
    for name in (LEAST, PLAIN, SHIPPED, BOUND):
        series = point["policies"].get(name, {}).get("series")
        if series:
            waits.plot(series["at"], series["p95"], label=name, color=COLOURS[name], linewidth=1.4)
            if name != PLAIN:
                shares.plot(series["at"], series["share"], color=COLOURS[name], linewidth=1.4)
    own = point["policies"][SHIPPED]["series"]
    score.plot(own["judged_at"], own["score"], color=COLOURS[SHIPPED])
    _states(score, own)
    for axis in (waits, shares, score):
        for moment, word in ((240, "killed"), (300, "back, half speed"), (330, "full speed")):
            axis.axvline(moment, color="#868e96", linewidth=0.9, linestyle=":")
            if axis is waits:
                axis.text(
                    moment + 1,
                    0.97,
                    word,
                    fontsize=8,
                    transform=axis.get_xaxis_transform(),
                    va="top",
                )
    waits.set(yscale="log", ylabel="P95 TTFT by arrival (s)", xlim=(200, 400))
    waits.set_title("S6: one of eight engines dies and comes back, one seed")
    waits.set_ylim(0.1, None)
    _plainly(waits.yaxis)
    waits.legend(fontsize=8, loc="lower center", ncols=4)
    shares.set(ylabel="its share of picks", ylim=(0, 0.3))
    shares.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0, decimals=0))
    score.set(ylabel="its score", ylim=(0, 105), xlabel="seconds")
    _save(figure, path)


def _states(axis: "plt.Axes", series: Mapping[str, Any]) -> None:
    seen: set[str] = set()
    times, states = series["judged_at"], series["state"]
    for begin, end, state in zip(times, [*times[1:], times[-1]], states, strict=True):
        if state in STATES:
            label = None if state in seen else state
            axis.axvspan(begin, end, color=STATES[state], alpha=0.15, linewidth=0, label=label)
            seen.add(state)
    if seen:
        axis.legend(fontsize=8, loc="lower right")


def _staleness(points: Sequence[Mapping[str, Any]], path: Path) -> None:
    figure, axis = plt.subplots(figsize=(7.6, 4.4), layout="constrained")
    intervals = [float(point["label"].split()[0]) for point in points]
    lines: dict[str, list[Sequence[float]]] = {}
    for point in points:
        for name, row in figures_of(point).items():
            shown = name.partition(",")[0] if name.startswith("endpoint picker") else name
            lines.setdefault(shown, []).append(row[P99])
    colours = {"endpoint picker": "#2f9e44", **COLOURS}
    for name, values in lines.items():
        colour = colours.get(name, OTHER)
        axis.plot(intervals, [median(each) for each in values], "o-", label=name, color=colour)
        lows, highs = [min(each) for each in values], [max(each) for each in values]
        axis.fill_between(intervals, lows, highs, color=colour, alpha=0.12, linewidth=0)
    axis.set(xscale="log", yscale="log", xlabel="seconds between scrapes", ylabel="P99 TTFT (s)")
    axis.set_xticks(intervals, [f"{each:g}" for each in intervals])
    axis.set_yticks((1, 2, 5, 10, 20, 50, 100), ["1", "2", "5", "10", "20", "50", "100"])
    axis.minorticks_off()
    axis.set_title("S7: S1 with older scrapes; median, band from min to max")
    axis.legend(fontsize=8)
    axis.grid(color="#e9ecef")
    _save(figure, path)
