"""What plots need of a run besides its figures: quantiles, and what went on over time."""

from dataclasses import dataclass, field
from math import inf
from typing import Any

from benchmarks.simulator.figures import SETTLED, quantile, ttft
from benchmarks.simulator.ours import Ours
from benchmarks.simulator.world import World
from scorer.core.snapshot import PoolView

SHARES = (*(place / 20 for place in range(1, 19)), 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985,
          0.99, 0.9925, 0.995, 0.9975, 0.999)  # fmt: skip
"""Where the distribution of the times to first token is kept."""
BIN = 5.0
"""Seconds of a run that become one point over time."""


def curve(world: World) -> list[float]:
    """Return the times to first token at :data:`SHARES`, in seconds."""
    waits = sorted(ttft(flow) for flow in world.flows if flow.request.at >= SETTLED)
    return [quantile(waits, share) for share in SHARES]


@dataclass(slots=True)
class Watched:
    """Scores of the targets at each judgement."""

    times: list[float] = field(default_factory=list)
    scores: list[list[float]] = field(default_factory=list)
    states: list[list[str]] = field(default_factory=list)

    def __call__(self, now: float, view: PoolView) -> None:
        """Take what is published."""
        self.times.append(now)
        self.scores.append([target.score or 0.0 for target in view.targets])
        self.states.append([str(target.state) for target in view.targets])


def watched(policy: Ours) -> Watched:
    """Return what will have seen every judgement of a policy."""
    watch = Watched()
    policy.watcher = watch
    return watch


def over_time(world: World, watch: Watched | None) -> dict[str, Any]:
    """Return P95 of the time to first token by arrival, and score and state of what died."""
    outage = world.setting.outage
    bins: dict[int, list[float]] = {}
    placed: dict[int, list[int]] = {}
    for flow in world.flows:
        number = int(flow.request.at / BIN)
        bins.setdefault(number, []).append(min(ttft(flow), 1e4))
        if flow.placed_at < inf:
            placed.setdefault(int(flow.placed_at / BIN), []).append(flow.target)
    target = outage.target if outage else 0
    told: dict[str, Any] = {
        "at": [number * BIN for number in sorted(bins)],
        "p95": [round(quantile(bins[number], 0.95), 3) for number in sorted(bins)],
        "share": [
            round(placed.get(number, []).count(target) / max(1, len(placed.get(number, []))), 3)
            for number in sorted(bins)
        ],
    }
    if watch is not None:
        told["judged_at"] = watch.times[::2]
        told["score"] = [round(scores[target], 1) for scores in watch.scores[::2]]
        told["state"] = [states[target] for states in watch.states[::2]]
    return told
