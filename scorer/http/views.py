"""The published view as JSON data: plain dicts of strict JSON values.

Times are RFC 3339 in UTC, durations and ages seconds, scores and points 0-100. A
value that is not a finite number is null: no client meets ``NaN``.
"""

import math
from collections import Counter
from typing import Any

from scorer.clocks import Clocks
from scorer.core.orders import ends_at
from scorer.core.overrides import Override
from scorer.core.pick import PROBE
from scorer.core.snapshot import PoolView, ScrapeView, SignalView, TargetView, Transition
from scorer.core.vocabulary import State, Verb
from scorer.decisions import Decision
from scorer.http.ports import Ports

Data = dict[str, Any]
DIGITS = 4


def number(value: float | None) -> float | None:
    """Return ``value`` to four decimals, None when it is not a finite number."""
    return None if value is None or not math.isfinite(value) else round(value, DIGITS)


def target_data(view: TargetView, ports: Ports) -> Data:
    """Return one target as ``/api/v1/targets`` shows it."""
    clocks = ports.clocks
    load = ports.inflight.reading(view.pool, view.target, clocks.monotonic())
    return {
        "target": view.target,
        "pool": view.pool,
        "url": view.url,
        "engine": view.engine,
        "engine_version": view.engine_version,
        "mapping": view.mapping,
        "model_names": list(view.model_names),
        "score": number(view.score),
        "raw_score": number(view.raw_score),
        "state": view.state,
        "state_since": clocks.rfc3339(view.state_since),
        "state_reason": view.state_reason,
        "eligible": view.eligible,
        "weight": number(view.weight),
        "warmup_ratio": number(view.warmup_ratio),
        "confidence": number(view.confidence),
        "points_lost": {cause: number(points) for cause, points in view.points_lost.items()},
        "signals": {name: signal_data(signal, clocks) for name, signal in view.signals.items()},
        "running": number(view.running),
        "stalled_engines": list(view.stalled),
        "in_flight": load.in_flight,
        "expected_wait": number(load.wait),
        "picks": load.picks,
        "picks_per_second": number(ports.rates.rate(view.pool, view.target)),
        "probes": load.probes,
        "restarts": view.restarts,
        "cooldowns": view.cooldown.count,
        "cooldown_seconds": number(view.cooldown.spent),
        "cooldown_until": moment(view.cooldown.until if view.cooldown.active else None, clocks),
        "drain": drain_data(view.drain, clocks),
        "last_scrape": scrape_data(view.last_scrape, clocks),
    }


def signal_data(signal: SignalView, clocks: Clocks) -> Data:
    """Return a signal's value, age and source, or the reason why it is unavailable."""
    if not signal.available:
        return {"unavailable": signal.unavailable}
    age = None if signal.at is None else number(clocks.age(signal.at))
    return {"value": number(signal.value), "age": age, "source": signal.source}


def scrape_data(scrape: ScrapeView | None, clocks: Clocks) -> Data | None:
    """Return how the last scrape went; None before the first one ended."""
    if scrape is None:
        return None
    return {
        "ok": scrape.ok,
        "age": number(clocks.age(scrape.at)),
        "duration": number(scrape.duration),
        "reason": scrape.reason,
        "detail": scrape.detail or None,
    }


def transition_data(transition: Transition, clocks: Clocks) -> Data:
    """Return one state change."""
    return {
        "at": clocks.rfc3339(transition.at),
        "from": transition.before,
        "to": transition.after,
        "reason": transition.reason,
    }


def drain_data(drain: Override | None, clocks: Clocks) -> Data | None:
    """Return an operator's drain; ``until`` is None when it has no end."""
    if drain is None:
        return None
    since, until = clocks.rfc3339(drain.since), moment(drain.until, clocks)
    return {"since": since, "until": until, "note": drain.note}


def cooldown_data(view: TargetView, clocks: Clocks) -> Data:
    """Return the cooldown of a target as ``/api/v1/cooldowns`` shows it."""
    cooldown = view.cooldown
    return {
        "target": view.target,
        "pool": view.pool,
        "since": moment(cooldown.began_at, clocks),
        "until": moment(cooldown.until, clocks),
        "reason": cooldown.reason,
        "count": cooldown.count,
        "note": cooldown.note,
    }


def order_data(view: TargetView, verb: Verb, clocks: Clocks) -> Data:
    """Return what applies to a target once an order was carried out."""
    return {
        "target": view.target,
        "pool": view.pool,
        "state": view.state,
        "state_reason": view.state_reason,
        "until": moment(ends_at(view, verb), clocks),
    }


def moment(at: float | None, clocks: Clocks) -> str | None:
    """Return a monotonic time as RFC 3339, None for no time, or one that never comes."""
    return None if at is None or not math.isfinite(at) else clocks.rfc3339(at)


def decision_data(decision: Decision, clocks: Clocks) -> Data:
    """Return one pick with all that decided it; costs in seconds."""
    choice = decision.choice
    return {
        "at": clocks.rfc3339(decision.at),
        "pool": decision.pool,
        "pick_id": decision.pick_id,
        "target": choice.row.target,
        "alternates": [row.target for row in choice.alternates],
        "reason": choice.reason,
        "relaxed": choice.relaxed or None,
        "panic": choice.panic,
        "probe": choice.reason == PROBE,
        "prompt_tokens": decision.tokens,
        "prompt_tokens_known": decision.known,
        "excluded": decision.excluded,
        "key": decision.key,
        "lora": decision.lora,
        "candidates": [
            {"target": row.target, "health": number(row.health), "cost": number(cost),
             "cold": index in choice.cold}
            for index, (row, cost) in enumerate(zip(choice.sample, choice.costs, strict=True))
        ],
        "draws": list(decision.draws),
    }  # fmt: skip


def pool_data(pool: PoolView, clocks: Clocks) -> Data:
    """Return one pool as ``/api/v1/pools`` shows it; ``targets`` is how many it has."""
    return {
        "pool": pool.name,
        "models": list(pool.models),
        "targets": len(pool.targets),
        "states": state_counts(pool),
        "eligible": pool.eligible,
        "panic": pool.panic,
        "scored": pool.scored,
        "judged_at": clocks.rfc3339(pool.judged_at),
        "score_thresholds": {name: number(at) for name, at in pool.thresholds.score.items()},
    }


def state_counts(pool: PoolView) -> dict[State, int]:
    """Return how many targets of the pool are in each state; every state is there."""
    counts = Counter(view.state for view in pool.targets)
    return {state: counts[state] for state in State}
