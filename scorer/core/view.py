"""From judgements to the published view of a pool, and who may be picked from it.

Candidates are the eligible targets while there are enough of them. In panic, when
fewer than the threshold share of the pool's targets is eligible, those merely not
observed are used again; those observed dead only when no other is left. So a pool
that has a target always has a candidate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from scorer.core.health import TargetHealth
from scorer.core.judge import Judgement
from scorer.core.samples import EngineSamples, Reading
from scorer.core.snapshot import PoolView, SignalView, TargetView
from scorer.core.vocabulary import Gap, ScrapeFailure, SignalName

ENGINE_SOURCE = "engine"
NO_FAILURES: Mapping[ScrapeFailure, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """What the view says of a pool besides its targets.

    ``panic_threshold`` is the share 0-1 of the targets below which too few are
    eligible; ``score_thresholds`` are points by alert severity.
    """

    name: str
    models: tuple[str, ...] = ()
    panic_threshold: float = 0.5
    score_thresholds: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


def pool_view(facts: PoolFacts, targets: Sequence[TargetView], now: float) -> PoolView:
    """Return the view of a pool with these targets, in their order."""
    candidates, panic = choose_candidates(targets, facts.panic_threshold)
    return PoolView(
        name=facts.name,
        models=facts.models,
        targets=tuple(targets),
        candidates=candidates,
        eligible=sum(target.eligible for target in targets),
        panic=panic,
        judged_at=now,
        scored=all(target.score is not None for target in targets),
        score_thresholds=facts.score_thresholds,
    )


def choose_candidates(
    targets: Sequence[TargetView], panic_threshold: float
) -> tuple[tuple[TargetView, ...], bool]:
    """Return who picks draw from, and whether the pool is in panic."""
    eligible = tuple(target for target in targets if target.eligible)
    if not targets or (eligible and len(eligible) >= panic_threshold * len(targets)):
        return eligible, False
    return tuple(target for target in targets if not target.observed_dead) or tuple(targets), True


def target_view(judgement: Judgement) -> TargetView:
    """Return the published view of one judged target."""
    health = judgement.health
    samples = health.samples
    return TargetView(
        target=health.id.target,
        pool=health.id.pool,
        url=health.id.url,
        engine=samples.engine if samples else "",
        mapping=samples.mapping if samples else "",
        engine_version=samples.version if samples else "",
        model_names=samples.model_names if samples else (),
        state=health.state,
        state_reason=health.reason,
        state_since=health.since,
        score=judgement.score,
        raw_score=judgement.raw_score,
        weight=(judgement.score or 0.0) / 100.0 if judgement.eligible else 0.0,
        warmup_ratio=judgement.warmup_ratio,
        confidence=judgement.confidence,
        eligible=judgement.eligible,
        observed_dead=judgement.observed_dead,
        points_lost=judgement.points_lost,
        signals=_signal_views(health, samples, judgement.error_ratio),
        running=samples.running.value if samples else None,
        preemptions=samples.preemptions.value if samples else None,
        picks_seen=health.picks_seen,
        last_scrape=health.last_scrape,
        last_good_scrape_at=health.last_good_at,
        scrapes=health.scrapes,
        scrape_failures=dict(health.failures) if health.failures else NO_FAILURES,
        restarts=health.restarts,
        transitions=tuple(health.transitions),
        transition_counts=dict(health.transition_counts),
    )


def _signal_views(
    health: TargetHealth, samples: EngineSamples | None, error_ratio: float
) -> Mapping[SignalName, SignalView]:
    if samples is None:
        gap = Gap.NO_MAPPING if health.good_scrapes else Gap.NOT_SCRAPED
        return dict.fromkeys(SignalName, SignalView(None, unavailable=gap))
    at = health.last_good_at
    return {
        SignalName.TTFT: SignalView(None, unavailable=samples.ttft.gap)
        if samples.ttft.gap
        else SignalView(health.ttft.value, health.ttft.observed_at, ENGINE_SOURCE),
        SignalName.ERRORS: SignalView(None, unavailable=samples.outcomes.gap)
        if samples.outcomes.gap
        else SignalView(error_ratio, at, ENGINE_SOURCE),
        SignalName.QUEUE: _reading_view(samples.waiting, at),
        SignalName.KV_CACHE: _reading_view(samples.kv_cache, at),
    }


def _reading_view(reading: Reading, at: float | None) -> SignalView:
    if reading.value is None:
        return SignalView(None, unavailable=reading.gap or Gap.FAMILY_ABSENT)
    return SignalView(reading.value, at, ENGINE_SOURCE)
