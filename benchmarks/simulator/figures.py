"""The figures of one run, and what several runs come to."""

import statistics
from collections.abc import Mapping, Sequence
from math import ceil, inf, isfinite

from benchmarks.simulator.world import Flow, World

SETTLED = 60.0
"""Seconds of each run that no figure contains: every policy starts with empty engines."""
SHORT = 8192
"""Tokens up to which a prompt counts as short."""
GOOD_TTFT, GOOD_TPOT = 2.0, 0.1
"""Seconds to the first token, and per further token, within which an answer is good."""


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least ``share`` of the values do not exceed."""
    if not values:
        return 0.0
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def ttft(flow: Flow) -> float:
    """Return the seconds from the first arrival to the first token; infinite without one."""
    return flow.first - flow.request.at


def tpot(flow: Flow) -> float:
    """Return the seconds per token after the first, 0 for an answer of one token."""
    more = flow.request.output - 1
    return (flow.end - flow.first) / more if more else 0.0


def figures(world: World) -> dict[str, float]:
    """Return the figures of a run that is over, by name; seconds, tokens a second, shares."""
    flows = [flow for flow in world.flows if flow.request.at >= SETTLED]
    found: dict[str, float] = {}
    parts = {
        "all": flows,
        "short": [flow for flow in flows if flow.request.prompt <= SHORT],
        "long": [flow for flow in flows if flow.request.prompt > SHORT],
    }
    for part, chosen in parts.items():
        waits = [ttft(flow) for flow in chosen]
        for percent in (50, 95, 99):
            found[f"ttft_p{percent}_{part}"] = quantile(waits, percent / 100)
    answered = [flow for flow in flows if flow.end < inf]
    good = [flow for flow in answered if ttft(flow) <= GOOD_TTFT and tpot(flow) <= GOOD_TPOT]
    seconds = world.setting.seconds - SETTLED
    found["tpot_p99"] = quantile([tpot(flow) for flow in answered], 0.99)
    found["goodput"] = sum(flow.request.output for flow in good) / seconds
    found["good_share"] = len(good) / len(flows) if flows else 0.0
    found["unanswered"] = len(flows) - len(answered)
    found["requests"] = len(flows)
    found["preemptions"] = world.preemptions
    found["timeouts"] = world.timeouts
    found["errors"] = world.refused
    found["kv_full"] = world.full_samples / max(1, world.samples)
    found["most_waiting"] = world.most_waiting
    return found


def median(values: Sequence[float]) -> float:
    """Return the median; of infinities too."""
    return (
        statistics.median_low(values)
        if not all(map(isfinite, values))
        else statistics.median(values)
    )


def paired(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return the ratio of each pair of runs on the same seed; 1 where both are 0."""
    return [
        1.0 if own == other else inf if not other else own / other
        for own, other in zip(ours, theirs, strict=True)
    ]


def spread(values: Sequence[float]) -> Mapping[str, float]:
    """Return median, minimum and maximum."""
    return {"median": median(values), "low": min(values), "high": max(values)}
