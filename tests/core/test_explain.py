"""Why a target has its score: the account is complete, and remedies keep their word."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.cooldown import CooldownReason
from scorer.core.curves import Curve, Shape
from scorer.core.explain import Explanation, explain
from scorer.core.health import TargetHealth
from scorer.core.judge import judge_pool
from scorer.core.learn import Circumstances, learn
from scorer.core.outcome import Outcome, OutcomeClass
from scorer.core.outstanding import NOTHING
from scorer.core.overrides import Override
from scorer.core.params import ScoreParams
from scorer.core.remedies import Lever, Remedy, _case
from scorer.core.samples import Page
from scorer.core.snapshot import TargetView
from scorer.core.view import target_view
from scorer.core.vocabulary import Cause, Reason, SignalName, State
from tests.core.builders import REFUSED, failed, page, scrape, target

ODD = ScoreParams(
    ttft_weight=0.2,
    errors_weight=0.3,
    queue_weight=0.5,
    ttft=Curve(ceiling=4.0, knee=0.5, shape=Shape.EXPONENTIAL),
    queue=Curve(ceiling=10.0, knee=2.0, shape=Shape.QUADRATIC),
    rise_limit=5.0,
)


def views(targets: Sequence[TargetHealth], now: float) -> list[TargetView]:
    return [target_view(each, now) for each in judge_pool(targets, now, lambda _: NOTHING)]


def seen(health: TargetHealth, *results: object, at: float = 1.0) -> TargetView:
    """Scrape once a second from ``at`` on, judging after each; return the last view."""
    [view] = views([health], at)
    for second, result in enumerate(results or (page(), page())):
        health.apply(scrape(result, at + second))
        [view] = views([health], at + second)
    return view


def tell(health: TargetHealth, outcome: OutcomeClass, at: float, count: int = 1) -> None:
    for _ in range(count):
        learn(health, Outcome(outcome, "test", at), Circumstances())


def only(explanation: Explanation, lever: Lever) -> Remedy:
    [remedy] = [each for each in explanation.remedies if each.lever is lever]
    return remedy


def levers(explanation: Explanation) -> list[Lever]:
    return [remedy.lever for remedy in explanation.remedies]


numbers = st.one_of(st.none(), st.floats(0.0, 80.0))
ratios = st.one_of(st.none(), st.floats(0.0, 1.0))
pages = st.builds(
    page,
    waiting=numbers,
    running=st.sampled_from([0.0, 3.0]),
    kv_cache=ratios,
    ttft=st.one_of(st.none(), st.tuples(st.sampled_from([10.0, 20.0, 40.0]), st.floats(0, 400))),
    failures=st.sampled_from([0.0, 5.0, 30.0]),
    successes=st.sampled_from([0.0, 10.0, 90.0]),
    tokens=st.sampled_from([0.0, 5.0, 9.0]),
    start_time=st.sampled_from([1000.0, 9000.0]),
    asleep=st.sampled_from([None, False, False, True]),
)
events = st.one_of(
    pages,
    pages,
    st.sampled_from([failed(), REFUSED, Page(None)]),
    st.tuples(st.sampled_from(list(OutcomeClass)), st.integers(1, 6)),
    st.sampled_from(["drain", "cooldown", "leaving"]),
)


def happen(health: TargetHealth, event: object, now: float) -> None:
    if isinstance(event, tuple):
        tell(health, event[0], now, event[1])
    elif event == "drain":
        health.drain = Override(now, now + 7.0)
    elif event == "cooldown":
        health.cooldown.impose(now, 4.0)
    elif event == "leaving":
        health.leaving = True
    else:
        health.apply(scrape(event, now))


@given(
    st.lists(st.lists(events, max_size=8), min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([ScoreParams(), ODD]),
)
def test_account_is_complete(histories, late, params):
    """Whatever happened: the points lost are 100 - score, and the re-run formula is the judge's."""
    targets = [target(f"{n}:1", late=late, params=params) for n in range(len(histories))]
    for second in range(1, 10):
        for health, history in zip(targets, histories, strict=True):
            if second <= len(history):
                happen(health, history[second - 1], float(second))
        for view in views(targets, float(second)):
            _check(view, second + 0.4)


def _check(view: TargetView, now: float) -> None:
    explanation = explain(view, now)
    if view.score is None:
        assert explanation.points_lost == 0.0
        assert (explanation.goal, explanation.score) == (None, None)
        return
    assert explanation.points_lost == pytest.approx(100.0 - view.score, abs=1e-9)
    case = _case(view)
    if case is not None:
        assert case.goal() == pytest.approx(explanation.goal, abs=1e-9)
    elif explanation.goal is not None:
        assert explanation.goal == pytest.approx(0.0, abs=1e-9)
    for row in explanation.signals:
        assert row.points <= 100.0 * row.weight * row.factor + 1e-9
    for remedy in explanation.remedies:
        if remedy.points is not None:
            assert -1e-9 <= remedy.points <= 100.0 - view.score + 1e-9
        assert remedy.seconds is None or remedy.seconds >= 0.0


def test_queue_of_12_gives_back_what_it_costs():
    """With everything else at its best, the queue's remedy is the queue's loss."""
    explanation = explain(seen(target(), *[page(waiting=12)] * 2), 2.0)
    assert explanation.remedies == (Remedy(Lever.QUEUE, pytest.approx(10.0), 12.0, 0.0),)
    queue = explanation.signals[2]
    assert (queue.name, queue.weight, queue.factor) == (SignalName.QUEUE, 0.25, 0.4)
    assert queue.points == pytest.approx(10.0)


def test_curve_is_told_by_its_knots():
    """Five points from the knee to the ceiling, with what each costs."""
    ttft = explain(seen(target()), 2.0).signals[0]
    values = [0.0, 0.5, 1.0, 1.5, 2.0]
    points = [0.0, 2.1875, 8.75, 19.6875, 35.0]
    assert ttft.knots == [(v, pytest.approx(p)) for v, p in zip(values, points, strict=True)]


def test_unreadable_ttft_leaves_its_weight_to_the_queue():
    """What is read carries the whole 0.60, and reading ttft would take some of it back."""
    explanation = explain(seen(target(), *[page(waiting=30, ttft=None)] * 2), 2.0)
    assert [row.weight for row in explanation.signals] == [0.0, 0.40, 0.60, 0.60]
    remedy = only(explanation, Lever.TTFT)
    assert (remedy.points, remedy.value) == (pytest.approx(35.0), None)


def test_queue_beside_a_full_kv_cache_gives_the_difference():
    """One alone gives what the other leaves over; both together give all."""
    full = page(waiting=30, kv_cache=0.9)
    explanation = explain(seen(target(), full, full), 2.0)
    assert only(explanation, Lever.QUEUE).points == pytest.approx(12.5)
    assert only(explanation, Lever.QUEUE_AND_KV_CACHE).points == pytest.approx(25.0)
    assert Lever.KV_CACHE not in levers(explanation)


def test_equally_bad_queue_and_kv_cache_help_only_together():
    """Neither alone raises the score, and that is what is said."""
    full = page(waiting=30, kv_cache=1.0)
    assert levers(explain(seen(target(), full, full), 2.0)) == [Lever.QUEUE_AND_KV_CACHE]


def test_signals_below_a_cap_give_nothing_until_it_is_gone():
    """A failing target with a queue: the cap comes first."""
    health = target()
    seen(health, *[page(waiting=12)] * 2)
    tell(health, OutcomeClass.ENGINE_FAULT, 3.0, 6)
    [view] = views([health], 3.0)
    explanation = explain(view, 3.0)
    [cap] = explanation.caps
    assert (cap.reason, cap.limit, cap.points) == (Reason.FAILING, 20.0, pytest.approx(30.0))
    assert only(explanation, Lever.CAP).points == pytest.approx(30.0)
    assert Lever.QUEUE not in levers(explanation)


def test_unreachable_target_has_an_unknown_gain():
    """Nothing is read of it: what a good scrape gives is not known, and not 0."""
    explanation = explain(seen(target(), page(), page(), REFUSED, REFUSED), 4.0)
    assert explanation.remedies == (Remedy(Lever.CAP, None, reason=Reason.CONNECTION_REFUSED),)
    assert explanation.caps[0].points == 100.0


def test_blind_target_gains_by_being_seen():
    """Its limit is a cap of its own, and errors cost besides."""
    health = target()
    view = seen(health, *[page(waiting=None, kv_cache=None, ttft=None)] * 2)
    explanation = explain(view, 2.0)
    assert [(cap.reason, cap.points) for cap in explanation.caps] == [(Reason.BLIND, 30.0)]
    assert only(explanation, Lever.SIGHT).points == pytest.approx(30.0)


def test_cooldown_tells_when_it_ends_and_what_that_gives():
    """Forty points of saturation, back after the cooldown."""
    health = target()
    seen(health)
    tell(health, OutcomeClass.ENGINE_SATURATED, 3.0)
    [view] = views([health], 3.0)
    remedy = only(explain(view, 3.5), Lever.COOLDOWN)
    assert remedy.points == pytest.approx(40.0)
    assert remedy.seconds == pytest.approx(health.cooldown.until - 3.5)
    assert remedy.reason is Reason.ENGINE_SATURATED


def test_penalty_after_a_cooldown_fades():
    """Ten seconds after its end ten points are left: below one point in 5 s × log2(10)."""
    health = target()
    seen(health)
    tell(health, OutcomeClass.ENGINE_SATURATED, 3.0)
    now = health.cooldown.until + 10.0
    [view] = views([health], now)
    remedy = only(explain(view, now), Lever.SATURATION)
    assert remedy.points == pytest.approx(10.0)
    assert remedy.seconds == pytest.approx(16.61, abs=0.01)


def test_cooldown_by_hand_costs_no_points():
    """An operator's cooldown takes picks, not points."""
    health = target()
    seen(health)
    health.cooldown.impose(3.0, 60.0)
    [view] = views([health], 3.0)
    remedy = only(explain(view, 13.0), Lever.COOLDOWN)
    assert (remedy.points, remedy.seconds, remedy.reason) == (0.0, 50.0, Reason.MANUAL)
    assert view.cooldown.reason is CooldownReason.MANUAL


def test_warmup_tells_when_it_is_over():
    """At 15 points a second, 85 points take 5.7 s."""
    view = seen(target(late=True), page(), page())
    remedy = only(explain(view, 2.0), Lever.WARMUP)
    assert (remedy.points, remedy.seconds) == (pytest.approx(85.0), pytest.approx(85 / 15))


def test_draining_costs_picks_and_no_points():
    """Score 100, no picks, and the end of it is named."""
    health = target()
    seen(health)
    health.drain = Override(2.0, 602.0, "kernel update")
    [view] = views([health], 3.0)
    assert view.state is State.DRAINING
    remedy = only(explain(view, 3.0), Lever.DRAIN)
    assert (remedy.points, remedy.seconds, remedy.reason) == (0.0, 599.0, Reason.MANUAL)


def test_first_score_is_what_is_missing():
    """Before the second good scrape there is nothing to explain."""
    explanation = explain(seen(target(), page()), 1.0)
    assert (explanation.score, levers(explanation)) == (None, [Lever.FIRST_SCORE])


def test_healthy_target_needs_nothing():
    """Score 100: no remedy."""
    view = seen(target())
    assert explain(view, 2.0).remedies == ()
    assert view.points_lost == dict.fromkeys(Cause, 0.0)
