"""Plot of a replay: score, waiting and kv_cache over time, states as bands of colour."""

from collections.abc import Sequence
from itertools import cycle, groupby
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

if TYPE_CHECKING:
    from benchmarks.replay.replay import Point

mpl.use("Agg")
import matplotlib.pyplot as plt

STATE_COLOURS = {
    "healthy": "#2f9e44",
    "warmup": "#1c7ed6",
    "degraded": "#f2b705",
    "cooldown": "#e8590c",
    "draining": "#9c36b5",
    "unreachable": "#c92a2a",
}


def plot(points: "Sequence[Point]", title: str, path: Path) -> None:
    """Draw one column of panels per target and write them to ``path``."""
    names = sorted({point.view.target for point in points})
    figure, axes = plt.subplots(
        3, len(names), figsize=(6.4 * len(names), 6.4), sharex=True, squeeze=False,
        gridspec_kw={"height_ratios": [3, 1.3, 1.3]}, layout="constrained",
    )  # fmt: skip
    for column, name in enumerate(names):
        own = [point for point in points if point.view.target == name]
        _column(axes[:, column], own, name)
    figure.suptitle(f"Replay: {title}")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _column(axes: "Sequence[plt.Axes]", points: "Sequence[Point]", name: str) -> None:
    score, waiting, kv_cache = axes
    times = [point.at for point in points]
    _states(score, points)
    score.plot(times, [point.view.score for point in points], color="#1a1a1a", linewidth=1.8)
    score.set(title=name, ylabel="score", ylim=(0, 118), yticks=range(0, 101, 20))
    for label, axis, signal in (("waiting", waiting, "queue"), ("kv cache", kv_cache, "kv_cache")):
        values = [point.view.signals[signal].value for point in points]
        axis.step(times, values, where="post", color="#495057")
        axis.set(ylabel=label, ylim=(0, None))
    kv_cache.set(xlabel="seconds", ylim=(0, 1.05))
    _phases(axes, points)


def _states(axis: "plt.Axes", points: "Sequence[Point]") -> None:
    seen = set()
    end = points[-1].at
    runs = [list(run) for _, run in groupby(points, key=lambda point: point.view.state)]
    for index, run in enumerate(runs):
        state = str(run[0].view.state)
        until = runs[index + 1][0].at if index + 1 < len(runs) else end
        label = None if state in seen else state
        axis.axvspan(run[0].at, until, color=STATE_COLOURS[state], alpha=0.18, label=label)
        seen.add(state)
    axis.legend(loc="lower left", fontsize=8, framealpha=0.9)


def _phases(axes: "Sequence[plt.Axes]", points: "Sequence[Point]") -> None:
    heights = cycle((116, 109))
    for phase, run in groupby(points, key=lambda point: point.phase):
        began = next(iter(run)).at
        for axis in axes:
            axis.axvline(began, color="#adb5bd", linewidth=0.8, linestyle=":")
        axes[0].text(began, next(heights), f" {phase}", fontsize=7, color="#495057", va="top")
