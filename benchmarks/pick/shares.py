"""Shares of picks by score, as the shipped picker gives them out, as a plot.

    python -m benchmarks.pick.shares

On the left, a target in warm-up beside three warm ones; on the right, one that is worth
less beside three of 100 points. Requests are short and over at once, so nothing but the
scores decides. Writes ``benchmarks/results/pick-shares.png``; needs matplotlib.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.pick.inside import Inside
from scorer.core.sample import Ask
from scorer.core.snapshot import PoolView, TargetView
from scorer.core.vocabulary import Cause, State
from scorer.decisions import Decisions
from scorer.inflight import InFlight
from scorer.picker import Picker

PICKS, SEEDS, TARGETS = 4_000, (1, 2, 3), 4
APART = 0.1
"""Seconds between two picks."""
WARMING, WORSE = range(0, 101, 5), range(80, 101)
PATH = Path(__file__).parents[1] / "results" / "pick-shares.png"

Change = Callable[[TargetView, float], TargetView]


def warming(view: TargetView, score: float) -> TargetView:
    """Return a target that is on its way to 100 points."""
    lost = {**view.points_lost, Cause.WARMUP: 100.0 - score}
    return replace(
        view, state=State.WARMUP, score=score, raw_score=100.0, warmup_ratio=score / 100.0,
        points_lost=lost,
    )  # fmt: skip


def worse(view: TargetView, score: float) -> TargetView:
    """Return a target whose signals are worth less."""
    return replace(view, score=score, raw_score=score)


def warm_pool() -> PoolView:
    """Return a pool of targets that are worth 100 points each."""
    view = Inside(TARGETS).registry.snapshot.pools["chat"]
    none = dict.fromkeys(Cause, 0.0)
    targets = [
        replace(
            each, score=100.0, raw_score=100.0, state=State.HEALTHY, warmup_ratio=1.0,
            points_lost=none, eligible=True, kv_capacity=None,
        )
        for each in view.targets
    ]  # fmt: skip
    return with_targets(view, targets)


def with_targets(view: PoolView, targets: Sequence[TargetView]) -> PoolView:
    """Return the pool with these targets, all of which may be picked."""
    return replace(view, targets=tuple(targets), candidates=tuple(targets), panic=False)


def share(pool: PoolView, change: Change, score: float, seed: int) -> float:
    """Return the share of the picks that the first target gets with a ``score``."""
    first, *others = pool.targets
    view = with_targets(pool, [change(first, score), *others])
    inflight, now, got = InFlight(), view.judged_at, 0
    picker = Picker(inflight, Decisions(), random.Random(seed).random)
    inflight.load(view.name, first.target).probed_at = now + PICKS * APART
    for _ in range(PICKS):
        now += APART
        done = picker.pick(view, Ask(100), now)
        if done is not None:
            choice, pick_id = done
            inflight.done(pick_id, now, fault=False)
            got += choice.row.target == first.target
    return got / PICKS


def main() -> None:
    """Count the shares and draw them."""
    import matplotlib as mpl  # noqa: PLC0415 - only needed to draw

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    pool = warm_pool()
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
    panels: tuple[tuple[str, Change, range], ...] = (
        ("in warm-up, beside three warm ones", warming, WARMING),
        ("worth less, beside three of 100 points", worse, WORSE),
    )
    for axis, (title, change, scores) in zip(axes, panels, strict=True):
        for seed in SEEDS:
            shares = [100 * share(pool, change, float(score), seed) for score in scores]
            axis.plot(scores, shares, marker="o", markersize=3, linewidth=1, label=f"seed {seed}")
            print(f"{title}, seed {seed}: " + " ".join(f"{each:.1f}" for each in shares))
        axis.axhline(100 / TARGETS, color="#adb5bd", linewidth=0.8, linestyle=":")
        axis.set(title=title, xlabel="score", ylim=(0, None))
    axes[0].set_ylabel(f"% of N = {PICKS:,} picks")
    axes[0].legend(loc="upper left")
    PATH.parent.mkdir(exist_ok=True)
    figure.savefig(PATH, dpi=110)


if __name__ == "__main__":
    main()
