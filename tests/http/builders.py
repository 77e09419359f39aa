"""Views, snapshots and ports to test what renders them."""

import random
from collections.abc import Mapping
from types import MappingProxyType

from scorer.clocks import Clocks
from scorer.core.snapshot import (
    PoolView,
    ScrapeView,
    SignalView,
    Snapshot,
    TargetView,
    Thresholds,
    Transition,
)
from scorer.core.vocabulary import Cause, Gap, Reason, ScrapeFailure, SignalName, State
from scorer.http.ports import Ports
from scorer.inflight import InFlight
from scorer.pick_stats import PickStats

NOW = 1000.0
"""Monotonic seconds at which every test runs."""
WALL = 1_900_000_000.0
"""Unix seconds at that moment: 2030-03-17T17:46:40Z."""

SIGNALS = {
    SignalName.TTFT: SignalView(0.42, NOW - 2.0, "engine"),
    SignalName.ERRORS: SignalView(0.0, NOW - 0.5, "engine"),
    SignalName.QUEUE: SignalView(3.0, NOW - 0.5, "engine"),
    SignalName.KV_CACHE: SignalView(0.63, NOW - 0.5, "engine"),
}


def losses(**points: float) -> dict[Cause, float]:
    """Return points lost by cause, 0 where nothing is said."""
    return {cause: points.get(cause, 0.0) for cause in Cause}


def target(name: str = "10.0.0.7:8000", pool: str = "chat", **changes: object) -> TargetView:
    """Return a healthy target with score 87.5, lost to its queue; ``changes`` replace fields."""
    fields: dict[str, object] = {
        "target": name,
        "pool": pool,
        "url": f"http://{name}",
        "engine": "vllm",
        "mapping": "vllm-v1",
        "engine_version": "0.11.0",
        "model_names": ("llama-3.1-8b",),
        "state": State.HEALTHY,
        "state_reason": Reason.NONE,
        "state_since": NOW - 90.0,
        "score": 87.5,
        "raw_score": 87.5,
        "weight": 0.875,
        "warmup_ratio": 1.0,
        "confidence": 1.0,
        "eligible": True,
        "observed_dead": False,
        "points_lost": losses(queue=12.5),
        "signals": SIGNALS,
        "running": 7.0,
        "preemptions": 2.0,
        "picks_seen": 0,
        "last_scrape": ScrapeView(ok=True, at=NOW - 0.5, duration=0.012),
        "last_good_scrape_at": NOW - 0.5,
        "scrapes": 120,
        "scrape_failures": {ScrapeFailure.TIMEOUT: 2},
        "restarts": 1,
        "transitions": (Transition(NOW - 90.0, State.WARMUP, State.HEALTHY, Reason.NONE),),
        "transition_counts": {(State.WARMUP, State.HEALTHY): 1},
    }
    return TargetView(**(fields | changes))  # type: ignore[arg-type]


def unscored(name: str = "10.0.0.8:8000", pool: str = "chat") -> TargetView:
    """Return a target that was never scraped."""
    return target(
        name,
        pool,
        engine="",
        mapping="",
        engine_version="",
        model_names=(),
        state=State.DEGRADED,
        state_reason=Reason.NOT_SCORED,
        score=None,
        raw_score=None,
        weight=0.0,
        confidence=0.0,
        points_lost=losses(),
        signals=dict.fromkeys(SignalName, SignalView(None, unavailable=Gap.NOT_SCRAPED)),
        running=None,
        preemptions=None,
        last_scrape=None,
        last_good_scrape_at=None,
        scrapes=0,
        scrape_failures={},
        restarts=0,
        transitions=(),
        transition_counts={},
    )


def unreachable(name: str = "10.0.0.9:8000", pool: str = "chat", detail: str = "") -> TargetView:
    """Return a target whose scrapes fail with ``detail``."""
    return target(
        name,
        pool,
        state=State.UNREACHABLE,
        state_reason=Reason.CONNECTION_REFUSED,
        score=0.0,
        weight=0.0,
        eligible=False,
        observed_dead=True,
        points_lost=losses(queue=12.5, cap=87.5),
        last_scrape=ScrapeView(
            ok=False, at=NOW - 0.2, duration=0.001, reason=ScrapeFailure.CONNECT, detail=detail
        ),
    )


def pool(
    *targets: TargetView,
    name: str = "chat",
    models: tuple[str, ...] = (),
    panic: bool = False,
) -> PoolView:
    """Return a pool of ``targets``, from which the eligible ones are picked."""
    eligible = tuple(view for view in targets if view.eligible)
    return PoolView(
        name=name,
        models=models,
        targets=targets,
        candidates=eligible or targets,
        eligible=len(eligible),
        panic=panic,
        judged_at=NOW - 0.1,
        scored=all(view.score is not None for view in targets),
        thresholds=Thresholds(
            score=MappingProxyType({"warning": 70.0, "critical": 50.0}),
            kv_cache=MappingProxyType({"warning": 0.9, "critical": 0.97}),
            ttft=MappingProxyType({"warning": 2.0}),
        ),
    )


def chat(size: int = 2) -> PoolView:
    """Return a pool named chat of ``size`` healthy targets."""
    return pool(*(target(f"10.0.0.{number}:8000") for number in range(1, size + 1)))


def snapshot(*pools: PoolView, version: int = 1) -> Snapshot:
    """Return a snapshot of ``pools`` in their order."""
    return Snapshot(version, MappingProxyType({view.name: view for view in pools}))


def frozen_clocks() -> Clocks:
    """Return clocks that stand still at :data:`NOW` and :data:`WALL`."""
    return Clocks(lambda: NOW, lambda: WALL)


def no_exposition(*_: object) -> tuple[list[tuple[str, str]], bytes]:
    """Return an empty metrics page."""
    return [("Content-Type", "text/plain")], b""


def ports(*pools: PoolView, **changes: object) -> Ports:
    """Return ports that publish ``pools``; ``changes`` replace fields."""
    published = snapshot(*pools)
    fields: Mapping[str, object] = {
        "snapshot": lambda: published,
        "inflight": InFlight(),
        "stats": PickStats(),
        "ready": lambda: None,
        "exposition": no_exposition,
        "dice": random.Random(7),
        "version": "0.1.0",
        "clocks": frozen_clocks(),
    }
    return Ports(**{**fields, **changes})  # type: ignore[arg-type]
