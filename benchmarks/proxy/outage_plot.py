"""Plot of an outage of the daemon: a column per way; head, first token and shares over time."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import matplotlib as mpl

from benchmarks.proxy.outage_report import Asked, Outage

mpl.use("Agg")
import matplotlib.pyplot as plt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BIN = 2.0
"""Seconds over which shares and medians are taken."""
COLOURS = ("#1c7ed6", "#2f9e44", "#9c36b5", "#e8590c")
DOTS = {"s": 3, "alpha": 0.35, "linewidths": 0, "color": "#868e96"}


def draw(outages: Sequence[Outage], engines: Sequence[str], path: Path) -> None:
    """Draw the outages beside each other and write them to ``path``."""
    figure, axes = plt.subplots(
        3, len(outages), figsize=(5.2 * len(outages), 8.4), sharex=True, sharey="row",
        squeeze=False, layout="constrained",
    )  # fmt: skip
    for column, outage in enumerate(outages):
        _column(axes[:, column], outage, engines)
    axes[0, 0].set_ylabel("time to head, ms")
    axes[1, 0].set_ylabel("time to first token, ms")
    axes[2, 0].set_ylabel(f"share of requests in {BIN:g} s")
    axes[2, 0].legend(loc="upper left", fontsize=8, ncols=2)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _column(axes: "Sequence[Axes]", outage: Outage, engines: Sequence[str]) -> None:
    head, ttft, share = axes
    served = [each for each in outage.requests if not each.failed]
    failed = [each for each in outage.requests if each.failed]
    for axis, name in ((head, "head"), (ttft, "ttft")):
        axis.scatter([e.at for e in served], [1000 * getattr(e, name) for e in served], **DOTS)
        middles = [(at, 1000 * median(getattr(e, name) for e in part))
                   for at, part in _bins(served) if part]  # fmt: skip
        axis.plot(*zip(*middles, strict=True), color="#1a1a1a", linewidth=1.6)
        axis.set_yscale("log")
        axis.vlines([each.at for each in failed], *axis.get_ylim(), color="#c92a2a", linewidth=1)
    for name, colour in zip(engines, COLOURS, strict=True):
        shares = [(at, sum(each.engine == name for each in part) / len(part))
                  for at, part in _bins(served) if part]  # fmt: skip
        share.plot(*zip(*shares, strict=True), color=colour, linewidth=1.4, label=name)
    share.set(ylim=(0, 1), xlabel="seconds")
    for axis in axes:
        axis.axvspan(outage.killed, outage.ready, color="#c92a2a", alpha=0.08, linewidth=0)
        axis.axvline(outage.started, color="#c92a2a", linewidth=0.8, linestyle=":")
    head.set_title(f"{outage.way}: {len(outage.requests):,} requests, {len(failed)} failed",
                   fontsize=10)  # fmt: skip


def _bins(requests: Sequence[Asked]) -> list[tuple[float, list[Asked]]]:
    """Return the middle of each span of time and what was sent in it."""
    count = int(max(each.at for each in requests) / BIN)
    spans: list[tuple[float, list[Asked]]] = [((k + 0.5) * BIN, []) for k in range(count + 1)]
    for each in requests:
        spans[int(each.at / BIN)][1].append(each)
    return spans[:count] or spans
