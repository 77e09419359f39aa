"""What feedback teaches, and the conditions of a target: cooldown, failing, frozen and others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.health import TargetHealth
from scorer.core.judge import Judgement, judge_pool
from scorer.core.learn import Circumstances, learn
from scorer.core.outcome import Outcome, OutcomeClass
from scorer.core.outstanding import NOTHING, Outstanding
from scorer.core.overrides import Override
from scorer.core.samples import ScrapeFailed
from scorer.core.view import target_view
from scorer.core.vocabulary import Cause, Reason, ScrapeFailure, State
from tests.core.builders import REFUSED, failed, page, scrape, target

AROUND = Circumstances()
HARMLESS = (
    OutcomeClass.CLIENT_RATE_LIMIT,
    OutcomeClass.CLIENT_ERROR,
    OutcomeClass.GATEWAY_FAULT,
    OutcomeClass.UNKNOWN,
)


def known(now: float = 2.0, **page_changes: float) -> TargetHealth:
    """Return a target that was judged once at ``now``."""
    health = target()
    for at in (now - 1.0, now):
        health.apply(scrape(page(**page_changes), at))
        judge(health, at)
    return health


def judge(health: TargetHealth, now: float, picks: Outstanding = NOTHING) -> Judgement:
    return judge_pool([health], now, lambda _: picks)[0]


def tell(health: TargetHealth, outcome: OutcomeClass, at: float, **facts: float) -> None:
    learn(health, Outcome(outcome, "test", at, **facts), AROUND)


def fail(health: TargetHealth, count: int, at: float) -> None:
    for index in range(count):
        tell(health, OutcomeClass.ENGINE_FAULT, at + index * 0.002)


def works(health: TargetHealth, now: float, tokens: float) -> Judgement:
    health.apply(scrape(page(running=3, tokens=tokens), now))
    return judge(health, now)


def test_saturation_costs_all_that_errors_can_and_starts_a_cooldown() -> None:
    """A full engine loses 40 points at once and takes no long prompts, but stays eligible."""
    health = known()
    tell(health, OutcomeClass.ENGINE_SATURATED, 3.0)
    judgement = judge(health, 3.0)
    assert (judgement.score, judgement.points_lost[Cause.SATURATION]) == (60.0, 40.0)
    assert (health.state, health.reason) == (State.COOLDOWN, Reason.ENGINE_SATURATED)
    assert judgement.eligible


def test_saturation_penalty_fades_after_the_cooldown() -> None:
    """Five seconds after its end half of the penalty is left."""
    health = known()
    tell(health, OutcomeClass.ENGINE_SATURATED, 3.0)
    ends = health.cooldown.until
    assert judge(health, ends + 5.0).points_lost[Cause.SATURATION] == pytest.approx(20.0)


def test_retry_after_sets_the_length() -> None:
    """What the engine asks for is what it gets."""
    health = known()
    tell(health, OutcomeClass.ENGINE_SATURATED, 3.0, retry_after=12.0)
    assert health.cooldown.until == 15.0


def test_refusals_the_engine_counts_itself_are_saturation() -> None:
    """Without feedback, vLLM's admission rejections start the cooldown."""
    health = known()
    rejecting = page()
    assert rejecting.samples is not None
    key = ("vllm:admission_rejections_total", ())
    outcomes = rejecting.samples.outcomes
    counted = type(outcomes)(outcomes.failures, outcomes.successes, {key: 4.0})
    fields = {name: getattr(rejecting.samples, name) for name in rejecting.samples.__slots__}
    samples = type(rejecting.samples)(**{**fields, "outcomes": counted})
    health.apply(scrape(type(rejecting)(samples), 3.0))
    assert judge(health, 3.0).points_lost[Cause.SATURATION] == 40.0


@pytest.mark.parametrize("outcome", HARMLESS)
def test_what_is_not_the_targets_fault_changes_nothing(outcome: OutcomeClass) -> None:
    """Client limits, client errors and the gateway's own answers cost no point."""
    health = known()
    for index in range(50):
        tell(health, outcome, 3.0 + index * 0.01)
    assert judge(health, 4.0).score == 100.0
    assert health.state is State.HEALTHY


def test_fast_failures_never_look_like_low_latency() -> None:
    """A failed request contributes no TTFT."""
    health = known()
    fail(health, 2, 3.0)
    assert health.ttft.current(3.0).value is None


def test_feedback_ttft_is_believed_before_the_engines() -> None:
    """What the gateway measured counts while it is fresh, the engine's own afterwards."""
    health = known()
    health.apply(scrape(page(ttft=(5, 0.5)), 3.0))
    tell(health, OutcomeClass.SUCCESS, 3.5, ttft=1.0)
    assert health.ttft.current(4.0).value == pytest.approx(1.0)
    assert health.ttft.chosen(60.0) == "feedback"
    health.apply(scrape(page(ttft=(6, 0.6)), 50.0))
    assert health.ttft.chosen(50.0) == "engine"


def test_abandoned_request_raises_the_ttft_and_never_lowers_it() -> None:
    """Its waiting time is a lower bound."""
    health = known()
    tell(health, OutcomeClass.SUCCESS, 3.0, ttft=1.0)
    tell(health, OutcomeClass.CLIENT_ABORT, 3.1, duration=0.2)
    assert health.ttft.current(3.1).value == 1.0
    tell(health, OutcomeClass.CLIENT_ABORT, 3.2, duration=3.0)
    assert health.ttft.current(3.2).value == pytest.approx(1.4)


def test_load_told_with_an_answer_counts_when_it_is_newer() -> None:
    """The newest of page and answer is the queue that is judged."""
    health = known()
    tell(health, OutcomeClass.SUCCESS, 2.5, waiting=30.0)
    assert judge(health, 2.6).score == 75.0
    health.apply(scrape(page(waiting=0), 3.0))
    assert judge(health, 3.0).goal == 100.0


def test_five_failures_that_are_most_outcomes_are_failing() -> None:
    """The target is capped at 20, in cooldown for every prompt, and only probed."""
    health = known()
    fail(health, 5, 3.0)
    judgement = judge(health, 3.1)
    assert judgement.score == 20.0
    assert (health.state, health.reason) == (State.COOLDOWN, Reason.ENGINE_FAULT)
    assert judgement.condition is not None
    assert (judgement.eligible, judgement.condition.probed) == (False, True)


def test_failing_is_not_over_by_time_alone() -> None:
    """After the cooldown it stays capped until a request succeeds."""
    health = known()
    fail(health, 5, 3.0)
    health.apply(scrape(page(), 60.0))
    assert judge(health, 60.0).score == 20.0
    assert (health.state, health.reason) == (State.DEGRADED, Reason.FAILING)


def test_one_successful_probe_ends_failing() -> None:
    """A success of a request picked since lifts the cap; the score then climbs."""
    health = known()
    fail(health, 5, 3.0)
    judge(health, 3.1)
    tell(health, OutcomeClass.SUCCESS, 12.0, picked_at=11.0)
    judgement = judge(health, 12.0)
    assert judgement.condition is None
    assert judgement.score is not None
    assert 20.0 < judgement.score <= 20.0 + 45.0


def test_success_of_a_request_picked_before_does_not_end_failing() -> None:
    """An answer that was under way says nothing about what came since."""
    health = known()
    fail(health, 5, 3.0)
    tell(health, OutcomeClass.SUCCESS, 3.5, picked_at=1.0)
    assert judge(health, 3.5).condition is not None


def test_three_failures_in_a_row_without_success_are_failing() -> None:
    """Few requests, but none of them worked for ten seconds."""
    health = known()
    tell(health, OutcomeClass.SUCCESS, 3.0)
    fail(health, 2, 5.0)
    assert judge(health, 6.0).condition is None
    fail(health, 1, 14.0)
    assert judge(health, 14.0).condition is not None


def test_engine_that_has_work_and_does_not_move_is_frozen() -> None:
    """Ten seconds and five scrapes without a token: capped at 20, only probed."""
    health = known(tokens=1000.0, running=3.0)
    for second in range(3, 11):
        assert works(health, float(second), 1000.0).condition is None
    judgement = works(health, 11.0, 1000.0)
    assert (judgement.score, health.reason) == (20.0, Reason.FROZEN)
    assert (judgement.eligible, judgement.goal) == (False, 20.0)
    assert target_view(judgement, 11.0).frozen


def test_frozen_engine_that_moves_again_is_back() -> None:
    """One token is enough."""
    health = known(tokens=1000.0, running=3.0)
    for second in range(3, 14):
        works(health, float(second), 1000.0)
    assert works(health, 14.0, 1001.0).condition is None


def test_long_prefill_under_way_is_not_frozen() -> None:
    """An engine within one long step gets the time that its largest prompt needs."""
    health = known(tokens=1000.0, running=3.0)
    for second in range(3, 16):
        works(health, float(second), 1000.0)
    assert judge(health, 16.0, Outstanding(largest_prefill=20.0)).condition is None


def test_engine_without_progress_counters_is_never_frozen() -> None:
    """Where progress moves only at request end, standing still means nothing."""
    health = target()
    quiet = page(running=3)
    assert quiet.samples is not None
    fields = {name: getattr(quiet.samples, name) for name in quiet.samples.__slots__}
    samples = type(quiet.samples)(**{**fields, "progress": {}})
    for second in range(30):
        health.apply(scrape(type(quiet)(samples), float(second)))
    assert judge(health, 30.0).condition is None


def test_idle_engine_that_swallows_requests_is_stuck() -> None:
    """It says idle, three leases ended without a word, and nothing was heard for five seconds."""
    health = known()
    tell(health, OutcomeClass.SUCCESS, 3.0)
    silent = Outstanding(lost_in_row=3)
    assert judge(health, 7.0, silent).condition is None
    assert not judge(health, 7.0, silent).frozen
    judgement = judge(health, 8.0, silent)
    assert (health.state, health.reason, health.score) == (State.DEGRADED, Reason.STUCK, 20.0)
    assert target_view(judgement, 8.0).frozen
    tell(health, OutcomeClass.SUCCESS, 9.0)
    assert not judge(health, 9.0, silent).frozen


def test_hung_engine_does_not_recover_by_silence() -> None:
    """While a request waits for its first token its age is a lower bound of the TTFT."""
    health = known()
    tell(health, OutcomeClass.SUCCESS, 3.0, ttft=0.1)
    waiting = Outstanding(requests=1, oldest_wait=2.0)
    assert judge(health, 5.0, waiting).points_lost[Cause.TTFT] == pytest.approx(35.0)


def test_loading_engine_gets_nothing_and_comes_back_by_time() -> None:
    """A model that is loading: score 0, no pick; asked again after ten seconds."""
    health = known()
    tell(health, OutcomeClass.LOADING, 3.0)
    assert judge(health, 3.0).score == 0.0
    assert (health.state, health.reason) == (State.DEGRADED, Reason.LOADING)
    assert judge(health, 13.0).condition is None


def test_loaded_engine_warms_up() -> None:
    """A page that shows it working ends loading, from 0."""
    health = known(tokens=10.0)
    tell(health, OutcomeClass.LOADING, 3.0)
    judge(health, 3.0)
    health.apply(scrape(page(running=1, tokens=20.0), 4.0))
    judge(health, 4.0)
    assert (health.state, health.reason, health.score) == (State.WARMUP, Reason.LOADED, 0.0)


def test_engine_that_refuses_and_empties_is_draining() -> None:
    """New requests fail while the running ones end: not eligible, not probed."""
    health = target()
    for second, running in enumerate([5, 5, 4, 3]):
        health.apply(scrape(page(running=running, tokens=100.0 * (second + 1)), float(second)))
    fail(health, 3, 3.5)
    judgement = judge(health, 3.6)
    assert judgement.condition is not None
    assert judgement.condition.reason is Reason.ENGINE_DRAINING
    assert (judgement.condition.probed, judgement.eligible, judgement.goal) == (False, False, 0.0)


def test_good_feedback_keeps_an_unscraped_target_in_use() -> None:
    """Scrapes time out, requests succeed: blind and degraded, not unreachable."""
    health = known()
    for second in range(3, 8):
        health.apply(scrape(failed(), float(second)))
        tell(health, OutcomeClass.SUCCESS, second + 0.5, ttft=0.2)
    judgement = judge(health, 8.0)
    assert (health.state, health.reason) == (State.DEGRADED, Reason.BLIND)
    assert judgement.eligible
    assert judgement.score is not None
    assert judgement.score > 90.0


def test_refused_connections_outweigh_older_feedback() -> None:
    """Only a success since the refusals shows that somebody still listens."""
    health = known()
    tell(health, OutcomeClass.SUCCESS, 2.9, ttft=0.2)
    for at in (3.0, 4.0):
        health.apply(scrape(REFUSED, at))
    judge(health, 4.0)
    assert health.state is State.UNREACHABLE


def test_draining_comes_before_everything() -> None:
    """A target that an operator takes out is shown as such, whatever else is wrong."""
    health = known()
    health.drain = Override(3.0, 60.0)
    fail(health, 9, 3.0)
    judgement = judge(health, 3.1)
    assert (health.state, health.reason) == (State.DRAINING, Reason.MANUAL)
    assert not judgement.eligible


outcomes = st.builds(
    Outcome,
    outcome=st.sampled_from(OutcomeClass),
    reason=st.just("test"),
    at=st.just(3.0),
    picked_at=st.none() | st.floats(0, 3),
    weight=st.sampled_from([0.5, 1.0]),
    ttft=st.none() | st.floats(0, 100),
    duration=st.none() | st.floats(0, 100),
    retry_after=st.none() | st.floats(0.1, 30),
    waiting=st.none() | st.floats(0, 1000),
    kv_cache=st.none() | st.floats(0, 1),
)


@given(st.lists(outcomes, max_size=40))
def test_score_stays_accounted_for_whatever_is_told(told: list[Outcome]) -> None:
    """Any feedback: 0-100, points lost add up, no state but the six."""
    health = known()
    for outcome in told:
        learn(health, outcome, AROUND)
    for now in (3.0, 3.5, 10.0, 60.0):
        judgement = judge(health, now)
        assert judgement.score is not None
        assert 0.0 <= judgement.score <= 100.0
        assert 100.0 - sum(judgement.points_lost.values()) == pytest.approx(judgement.score)


@given(st.integers(0, 30), st.integers(0, 30))
def test_failures_never_raise_a_score(successes: int, failures: int) -> None:
    """The same feedback with failures in it scores no higher."""
    clean, faulty = known(), known()
    for health in (clean, faulty):
        for index in range(successes):
            tell(health, OutcomeClass.SUCCESS, 3.0 + index * 0.001)
    fail(faulty, failures, 3.5)
    assert (judge(faulty, 4.0).score or 0.0) <= (judge(clean, 4.0).score or 0.0)


@pytest.mark.parametrize(("patience", "state"), [(10.0, State.UNREACHABLE), (60.0, State.HEALTHY)])
def test_target_that_no_scrape_ends_for_is_not_observed(patience: float, state: State) -> None:
    """Scrapes that neither succeed nor fail do not leave it healthy for ever."""
    health = known()
    health.patience = patience
    judged = [judge(health, 2.0 + 0.5 * step) for step in range(1, 30)][-1]
    assert health.state is state
    assert (judged.score == 0.0) is (state is State.UNREACHABLE)


def test_daemon_that_stood_still_does_not_blame_its_targets() -> None:
    """After 45 s without a judgement it has seen nothing, and judges by what it knows."""
    health = known()
    health.patience = 10.0
    assert judge(health, 47.0).score == 100.0
    assert health.state is State.HEALTHY


def test_want_of_our_own_resources_is_not_blamed_on_the_target() -> None:
    """However often: the target keeps what is known of it until that is too old."""
    health = known()
    health.patience = 10.0
    for second in range(3, 10):
        health.apply(scrape(ScrapeFailed(ScrapeFailure.LOCAL, "too many open files"), second))
        judge(health, float(second))
    assert health.state is State.HEALTHY
    assert health.failures[ScrapeFailure.LOCAL] == 7
    for second in range(10, 20):
        judge(health, float(second))
    assert health.state is State.UNREACHABLE


def test_first_token_does_not_end_failing() -> None:
    """An engine that says one token and dies goes on failing."""
    health = known()
    for second in range(3, 8):
        learn(
            health,
            Outcome(OutcomeClass.SUCCESS, "first_token", float(second), weight=0.0, ttft=0.1),
            AROUND,
        )
        tell(health, OutcomeClass.ENGINE_FAULT, second + 0.1)
    judge(health, 8.0)
    assert health.failing.since is not None


def test_success_ends_the_cooldown_of_the_failing() -> None:
    """State and picks agree: what is eligible again is not in cooldown for failing."""
    health = known()
    for number in range(5):
        tell(health, OutcomeClass.ENGINE_FAULT, 3.0 + number / 10.0)
    judge(health, 3.6)
    assert health.state is State.COOLDOWN
    tell(health, OutcomeClass.SUCCESS, 4.0, picked_at=3.7)
    assert judge(health, 4.1).eligible
    assert health.state is not State.COOLDOWN
