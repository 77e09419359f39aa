"""From scrapes to score and state: what a target goes through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.health import TargetHealth
from scorer.core.judge import Judgement, judge_pool
from scorer.core.outstanding import NOTHING, Outstanding
from scorer.core.samples import Page, ScrapeFailed
from scorer.core.vocabulary import Cause, Reason, ScrapeFailure, State
from tests.core.builders import REFUSED, failed, page, scrape, target

NOTHING_SAMPLES = Page(None)


def judge(health: TargetHealth, now: float, *others: TargetHealth) -> Judgement:
    return judge_pool([health, *others], now, lambda _: NOTHING)[0]


def feed(health: TargetHealth, *results: Page | ScrapeFailed, at: float = 1.0) -> Judgement:
    """Scrape once a second from ``at`` on, judging after each; return the last judgement."""
    judgement = None
    for second, result in enumerate(results):
        health.apply(scrape(result, at + second))
        judgement = judge(health, at + second)
    assert judgement is not None
    return judgement


def settled(health: TargetHealth) -> TargetHealth:
    """Return the target after the two scrapes that its first judgement needs, at t=1 and t=2."""
    feed(health, page(), page())
    return health


def test_fleet_is_not_new_because_the_daemon_is() -> None:
    """A target known from the start has its full score from the second scrape on."""
    health = target()
    assert feed(health, page()).score is None
    assert feed(health, page(), at=2.0).score == 100.0
    assert health.state is State.HEALTHY


def test_target_without_a_judgement_is_in_warmup_and_may_be_picked() -> None:
    """After one good scrape there is no score, but the target is known to be there."""
    health = target()
    judgement = feed(health, page())
    assert (health.state, health.reason) == (State.WARMUP, Reason.NOT_SCORED)
    assert judgement.eligible


def test_late_target_starts_at_zero_and_climbs_15_points_a_second() -> None:
    """A target that joins a running daemon warms up from its first good scrape."""
    health = target(late=True)
    scores = [feed(health, page(), at=1.0 + second).score for second in range(9)]
    assert scores == [0, 15, 30, 45, 60, 75, 90, 100, 100]


def test_warmup_ends_when_the_ramp_meets_the_raw_score() -> None:
    """State warmup lasts until the score has caught up."""
    health = target(late=True)
    feed(health, *[page()] * 7)
    assert (health.state, health.reason) == (State.WARMUP, Reason.FIRST_SEEN)
    feed(health, page(), at=8.0)
    assert health.state is State.HEALTHY


def test_moved_start_time_is_a_restart() -> None:
    """A new start time puts the target at 0, counts a restart and forgets its TTFT."""
    health = settled(target())
    feed(health, page(ttft=(10, 10.0)), at=3.0)
    feed(health, page(start_time=5000.0), at=4.0)
    assert (health.score, health.restarts, health.ttft.current(99.0).value) == (0.0, 1, None)
    assert (health.state, health.reason) == (State.WARMUP, Reason.RESTARTED)


def test_boot_time_adjusted_by_a_second_is_no_restart() -> None:
    """A start time that moves by the host's clock correction means nothing."""
    health = settled(target())
    feed(health, page(start_time=1001.0), at=3.0)
    assert health.restarts == 0


def test_progress_going_back_is_a_restart_without_a_start_time() -> None:
    """Pages without a start time tell a restart by their counters."""
    health = target()
    feed(health, *[page(start_time=None, tokens=5000.0)] * 2)
    feed(health, page(start_time=None, tokens=7.0), at=3.0)
    assert (health.restarts, health.score) == (1, 0.0)


def test_three_failures_in_a_row_are_unreachable() -> None:
    """Two failed scrapes change nothing, the third takes the target out."""
    health = settled(target())
    assert feed(health, failed(), failed(), at=3.0).score == 100.0
    judgement = feed(health, failed(), at=5.0)
    assert (judgement.score, judgement.eligible) == (0.0, False)
    assert judgement.condition is not None
    assert not judgement.condition.dead
    assert (health.state, health.reason) == (State.UNREACHABLE, Reason.SCRAPES_FAILED)


def test_two_refused_connections_are_observed_dead() -> None:
    """Nobody listens: two scrapes are enough, and the target counts as seen dead."""
    health = settled(target())
    judgement = feed(health, REFUSED, REFUSED, at=3.0)
    assert judgement.score == 0.0
    assert judgement.condition is not None
    assert judgement.condition.dead
    assert health.reason is Reason.CONNECTION_REFUSED


def test_target_that_never_answered_is_unreachable_with_score_zero() -> None:
    """A target that is down from the start is judged all the same."""
    health = target()
    assert feed(health, failed(), failed(), failed()).score == 0.0


def test_return_from_unreachable_warms_up() -> None:
    """A good scrape brings the target back at 0, not at once."""
    health = settled(target())
    feed(health, failed(), failed(), failed(), at=3.0)
    assert feed(health, page(), at=6.0).score == 0.0
    assert (health.state, health.reason) == (State.WARMUP, Reason.RECOVERED)
    assert feed(health, page(), at=7.0).score == 15.0


def test_blind_target_is_degraded_and_scores_as_its_pool() -> None:
    """A page of no known engine is no idle engine."""
    healthy, health = settled(target("b:1")), target()
    for at in (1.0, 2.0):
        health.apply(scrape(NOTHING_SAMPLES, at))
    assert judge(health, 2.0, healthy).score == 70.0
    assert (health.state, health.reason) == (State.DEGRADED, Reason.BLIND)


def test_sleeping_engine_gets_nothing() -> None:
    """Asleep looks perfectly idle; its score is 0 and no pick goes there."""
    health = settled(target())
    judgement = feed(health, page(asleep=True), at=3.0)
    assert (judgement.score, judgement.eligible) == (0.0, False)
    assert (health.state, health.reason) == (State.DEGRADED, Reason.ASLEEP)


def test_waking_engine_warms_up() -> None:
    """An engine that wakes climbs from 0."""
    health = settled(target())
    feed(health, page(asleep=True), page(asleep=False), at=3.0)
    assert (health.score, health.reason) == (0.0, Reason.WOKE_UP)


def test_low_score_is_degraded_until_five_points_above() -> None:
    """Degraded below 70, healthy again from 75: no flapping in between."""
    health = settled(target())
    feed(health, page(waiting=60, ttft=(10, 30.0)), at=3.0)
    assert health.state is State.DEGRADED
    health.score = 72.0
    health.apply(scrape(page(waiting=60, ttft=(10, 30.0)), 4.0))
    seen = judge(health, 4.0).score
    assert seen is not None
    assert health.state is State.DEGRADED


def test_transitions_are_kept_and_counted() -> None:
    """Each change of state is remembered with its reason."""
    health = settled(target())
    feed(health, REFUSED, REFUSED, at=3.0)
    last = health.transitions[-1]
    assert (last.before, last.after, last.at) == (State.HEALTHY, State.UNREACHABLE, 4.0)
    assert health.transition_counts[State.HEALTHY, State.UNREACHABLE] == 1


def test_idle_target_recovers_towards_its_pool() -> None:
    """An idle target's TTFT falls towards the pool's median; its score follows."""
    fast, slow = settled(target("b:1")), settled(target())
    fast.apply(scrape(page(ttft=(1, 0.1)), 3.0))
    slow.apply(scrape(page(ttft=(1, 3.0)), 3.0))
    judge(slow, 3.0, fast)
    assert slow.ttft.current(99.0).value == 3.0
    judge(slow, 13.0, fast)
    assert slow.ttft.current(99.0).value == pytest.approx(0.1 + 2.9 / 2)


def test_idle_target_does_not_hold_itself_up() -> None:
    """The only target with observations recovers too, towards a quarter of the ceiling."""
    silent, slow = settled(target("b:1")), settled(target())
    slow.apply(scrape(page(ttft=(1, 4.0)), 3.0))
    judge(slow, 3.0, silent)
    assert slow.ttft.current(99.0).value == 4.0
    judge(slow, 13.0, silent)
    assert slow.ttft.current(99.0).value == pytest.approx(0.5 + 3.5 / 2)


def test_target_with_picks_under_way_is_not_idle() -> None:
    """A pick that no scrape has seen keeps the TTFT where it is: silence heals nothing."""
    health = settled(target())
    health.apply(scrape(page(ttft=(1, 3.0)), 3.0))
    judge_pool([health], 3.0, lambda _: Outstanding(requests=1))
    judge_pool([health], 33.0, lambda _: Outstanding(requests=1))
    assert health.ttft.current(99.0).value == 3.0


def test_failures_never_raise_a_score() -> None:
    """The same target with failures scores no higher than without."""
    clean, faulty = settled(target()), settled(target())
    without = feed(clean, page(successes=50), at=3.0).score
    with_failures = feed(faulty, page(successes=50, failures=5), at=3.0).score
    assert with_failures == pytest.approx(100.0 - 40.0 * 5 * 5 / 55)
    assert without == 100.0


def test_failed_scrape_is_counted_by_reason() -> None:
    """Each failure counts under its reason."""
    health = target()
    feed(health, failed(), failed(ScrapeFailure.PARSE), failed())
    assert health.failures == {ScrapeFailure.TIMEOUT: 2, ScrapeFailure.PARSE: 1}


results = st.one_of(
    st.builds(
        page,
        waiting=st.none() | st.floats(0, 200),
        running=st.none() | st.floats(0, 200),
        kv_cache=st.none() | st.floats(0, 1),
        ttft=st.none() | st.tuples(st.floats(0, 1e4), st.floats(0, 1e5)),
        failures=st.floats(0, 100),
        successes=st.floats(0, 100),
        tokens=st.floats(0, 1e6),
        start_time=st.sampled_from([None, 1000.0, 2000.0]),
        asleep=st.sampled_from([None, True, False]),
    ),
    st.sampled_from([failed(), REFUSED, NOTHING_SAMPLES]),
)


@given(st.lists(results, max_size=25), st.booleans())
def test_every_history_gives_bounded_damped_accounted_scores(
    history: list[Page | ScrapeFailed], late: bool
) -> None:
    """Whatever comes in: 0-100, rise at most 15 points a second, points lost add up."""
    health, before = target(late=late), None
    for second, result in enumerate(history):
        judgement = feed(health, result, at=1.0 + second)
        score = judgement.score
        if score is not None:
            assert 0.0 <= score <= 100.0
            lost = sum(judgement.points_lost.values())
            assert 100.0 - lost == pytest.approx(score, abs=1e-9)
            assert set(judgement.points_lost) == set(Cause)
            assert before is None or score <= before + 15.0 + 1e-9
        assert (health.state is State.UNREACHABLE) == (health.unreachable is not None)
        before = score
