"""From judgements to the published view of a pool, and who may be picked from it.

Candidates are the eligible targets while there are enough of them. In panic, when
fewer than the threshold share of the pool's targets is eligible, those merely not
observed are used again; those observed dead only when no other is left. So a pool
that has a target always has a candidate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from scorer.core.cooldown import Cooldown, CooldownReason
from scorer.core.health import TargetHealth
from scorer.core.judge import Judgement
from scorer.core.lost import LOST_LIMIT
from scorer.core.params import PickParams
from scorer.core.snapshot import (
    NO_THRESHOLDS,
    CapView,
    CooldownView,
    PoolView,
    SignalView,
    TargetView,
    Thresholds,
)
from scorer.core.sourced import Source
from scorer.core.vocabulary import Cause, Gap, Reason, ScrapeFailure, SignalName, State

NO_FAILURES: Mapping[ScrapeFailure, int] = MappingProxyType({})
NO_LORAS = frozenset[str]()
NEVER_COOLED = CooldownView()
COOLING_SHARE = 0.5
"""Share of its weight that a target keeps in a saturation cooldown."""
REFUSAL_COUNTS_FOR = 5.0
"""Seconds for which a target that the limit refused a cooldown counts as overloaded."""


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """What the view says of a pool besides its targets.

    ``panic_threshold`` is the share 0-1 of the targets below which too few are
    eligible; ``thresholds`` are those of alerts.
    """

    name: str
    models: tuple[str, ...] = ()
    panic_threshold: float = 0.5
    thresholds: Thresholds = NO_THRESHOLDS
    pick: PickParams = field(default_factory=PickParams)


def pool_view(facts: PoolFacts, targets: Sequence[TargetView], now: float) -> PoolView:
    """Return the view of a pool with these targets, in their order."""
    candidates, panic = choose_candidates(targets, facts.panic_threshold)
    eligible = [target for target in targets if target.eligible]
    return PoolView(
        name=facts.name,
        models=facts.models,
        targets=tuple(targets),
        candidates=candidates,
        eligible=len(eligible),
        panic=panic,
        judged_at=now,
        scored=all(target.score is not None for target in targets),
        thresholds=facts.thresholds,
        pick=facts.pick,
        overloaded=bool(eligible) and all(_spared(target, now) for target in eligible),
    )


def choose_candidates(
    targets: Sequence[TargetView], panic_threshold: float
) -> tuple[tuple[TargetView, ...], bool]:
    """Return who picks draw from, and whether the pool is in panic.

    Targets that are draining are never drawn.
    """
    wanted = tuple(target for target in targets if target.state is not State.DRAINING)
    eligible = tuple(target for target in wanted if target.eligible)
    if not wanted or (eligible and len(eligible) >= panic_threshold * len(wanted)):
        return eligible, False
    return tuple(target for target in wanted if not target.observed_dead) or wanted, True


def _spared(target: TargetView, now: float) -> bool:
    """Whether a target is in cooldown, or was lately refused one by the limit."""
    refused = target.refused_cooldown_at
    return target.cooldown.active or (refused is not None and now - refused < REFUSAL_COUNTS_FOR)


def target_view(judgement: Judgement, now: float) -> TargetView:
    """Return the published view of one judged target."""
    health, condition = judgement.health, judgement.condition
    samples, cooldown = health.samples, _cooldown_view(health.cooldown, now)
    cooling = cooldown.active and cooldown.reason is not CooldownReason.ENGINE_FAULT
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
        weight=_weight(judgement, cooling=cooling),
        warmup_ratio=_warmup_ratio(judgement),
        confidence=judgement.confidence,
        eligible=judgement.eligible,
        observed_dead=condition is not None and condition.dead,
        points_lost=judgement.points_lost,
        signals=signal_views(judgement, now),
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
        cooldown=cooldown,
        cooling=cooling,
        probe_only=condition is not None and condition.probed,
        refused_cooldown_at=health.cooldown.refused_at,
        last_errors=tuple(health.last_errors),
        caps=caps_of(judgement),
        drain=health.drain if health.drain and health.drain.active(now) else None,
        frozen=judgement.frozen,
        stalled=judgement.stalled,
        read=judgement.signals,
        params=health.params,
        penalty=health.cooldown.penalty(now),
        kv_capacity=samples.capacity.value if samples else None,
        loras=samples.loras if samples else NO_LORAS,
    )


def _weight(judgement: Judgement, *, cooling: bool) -> float:
    weight = (judgement.score or 0.0) / 100.0 if judgement.eligible else 0.0
    return weight * COOLING_SHARE if cooling else weight


def _warmup_ratio(judgement: Judgement) -> float:
    score, goal = judgement.score, judgement.goal
    return score / goal if judgement.health.ramp and score is not None and goal else 1.0


def caps_of(judgement: Judgement) -> tuple[CapView, ...]:
    """Return what limits the score besides the signals, the lowest limit first."""
    condition, signals, raw = judgement.condition, judgement.signals, judgement.raw_score
    caps = [CapView(condition.reason, condition.cap)] if condition else []
    if signals is not None and signals.blind and raw is not None:
        caps.append(CapView(Reason.BLIND, raw + judgement.points_lost[Cause.ERRORS]))
    elif judgement.lost and condition is None:
        caps.append(CapView(Reason.SIGNAL_LOST, LOST_LIMIT))
    return tuple(sorted(caps, key=lambda cap: cap.limit))


def _cooldown_view(cooldown: Cooldown, now: float) -> CooldownView:
    """Return the cooldown under way; when there is none, the one that ended last."""
    if not cooldown.entered and not cooldown.active(now):
        return NEVER_COOLED
    cause, by_hand = cooldown.cause(now), cooldown.by_hand
    began_at, until, reason = cooldown.began_at, cooldown.until, cooldown.reason
    if by_hand is not None and (began_at is None or by_hand.until >= until):
        began_at, until, reason = by_hand.since, by_hand.until, CooldownReason.MANUAL
    return CooldownView(
        active=cause is not None,
        began_at=began_at,
        until=until,
        reason=cause or reason,
        entered=dict(cooldown.entered),
        seconds=cooldown.seconds(now),
        note=by_hand.note if by_hand and by_hand.active(now) else "",
    )


def signal_views(judgement: Judgement, now: float) -> Mapping[SignalName, SignalView]:
    """Return each signal with its value, source and time, or why it is unavailable.

    A target out of reach shows what was read last.
    """
    health, read = judgement.health, judgement.signals
    samples = health.samples
    gap = Gap.NO_MAPPING if health.good_scrapes else Gap.NOT_SCRAPED
    ttft, source = health.ttft.current(now), health.ttft.chosen(now)
    seen = ttft.observed_at is not None or (samples is not None and not samples.ttft.gap)
    told = samples is not None and not samples.outcomes.gap
    judged_by = health.outcomes.chosen(now)
    heard = judged_by is not Source.ENGINE
    return {
        SignalName.TTFT: SignalView(read.ttft if read else ttft.value, ttft.observed_at, source)
        if seen
        else SignalView(None, unavailable=samples.ttft.gap if samples else gap),
        SignalName.ERRORS: SignalView(
            health.outcomes.ratio(now),
            health.outcome_at if judged_by is Source.FEEDBACK else health.last_good_at,
            judged_by,
        )
        if told or heard
        else SignalView(None, unavailable=samples.outcomes.gap if samples else gap),
        SignalName.QUEUE: _load_view(
            SignalName.QUEUE,
            read.queue if read else None,
            samples.waiting.gap if samples else gap,
            health,
        ),
        SignalName.KV_CACHE: _load_view(
            SignalName.KV_CACHE,
            read.kv_cache if read else None,
            samples.kv_cache.gap if samples else gap,
            health,
        ),
    }


def _load_view(
    name: SignalName, value: float | None, gap: Gap | None, health: TargetHealth
) -> SignalView:
    """Return queue or kv_cache: what was judged, which is a page's or an answer's."""
    held = health.watch.held(name)
    if value is None and held is not None:
        value = held.value
    if value is None:
        return SignalView(None, unavailable=gap or Gap.NO_MAPPING)
    if held is not None and value == held.value:
        return SignalView(value, held.at, Source.ENGINE)
    return SignalView(value, health.reported.at if health.reported else None, Source.FEEDBACK)
