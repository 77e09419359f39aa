"""The snapshot as local pickers need it: what the rule of a pick looks at, as JSON data.

Its schema is ``tests/vectors/snapshot.schema.json``; a picker in another language must
come to the same choices from it. Figures of load are as of the moment of rendering.
"""

import math

from scorer.clocks import Clocks
from scorer.core.params import ALL_CHOICES
from scorer.core.prefill import INITIAL
from scorer.core.snapshot import PoolView, Snapshot, TargetView
from scorer.core.table import health_of
from scorer.core.vocabulary import SignalName, State
from scorer.http.views import Data, number
from scorer.inflight import InFlight


def snapshot_data(snapshot: Snapshot, instance: str, inflight: InFlight, clocks: Clocks) -> Data:
    """Return the whole snapshot; ``instance`` names the process whose versions these are."""
    now = clocks.monotonic()
    return {
        "version": snapshot.version,
        "instance": instance,
        "at": clocks.rfc3339(now),
        "pools": [_pool(pool, inflight, clocks, now) for pool in snapshot.pools.values()],
    }


def _pool(pool: PoolView, inflight: InFlight, clocks: Clocks, now: float) -> Data:
    params = pool.pick
    drawn = {view.target for view in pool.candidates}
    return {
        "pool": pool.name,
        "models": list(pool.models),
        "panic": pool.panic,
        "overloaded": pool.overloaded,
        "mean_prompt_tokens": inflight.pool(pool.name).prompts.mean,
        "choices": "all" if params.choices == ALL_CHOICES else params.choices,
        "kv_guard": params.kv_guard,
        "long_prompt_tokens": params.long_prompt_tokens,
        "targets": [
            _target(view, inflight, clocks, now) | {"candidate": view.target in drawn}
            for view in pool.targets
        ],
    }


def _target(view: TargetView, inflight: InFlight, clocks: Clocks, now: float) -> Data:
    load = inflight.reading(view.pool, view.target, now)
    until = view.cooldown.until
    capacity = view.kv_capacity
    return {
        "target": view.target,
        "url": view.url,
        "score": number(view.score),
        "raw_score": number(view.raw_score),
        "health": health_of(view),
        "admit": view.warmup_ratio,
        "state": view.state,
        "state_reason": view.state_reason,
        "eligible": view.eligible,
        "draining": view.state is State.DRAINING,
        "cooling": view.cooling,
        "cooldown_until": clocks.rfc3339(until) if view.cooldown.active and until else None,
        "prefill_rate": load.rate or INITIAL,
        "outstanding": load.outstanding,
        "in_flight": load.in_flight,
        "resident_tokens": load.resident,
        "fresh_tokens": load.fresh,
        "kv_cache": view.signals[SignalName.KV_CACHE].value,
        "kv_capacity": capacity if capacity and math.isfinite(capacity) else None,
        "loras": sorted(view.loras),
    }
