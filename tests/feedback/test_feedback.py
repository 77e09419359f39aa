"""What feedback does: whose outcome it is, what is learned, what it leaves alone."""

import pytest

from scorer.core.outcome import OutcomeClass
from scorer.core.rules import Fact
from scorer.feedback import MOST_WAITING, REMEMBERED, Refused, Taken, Told
from scorer.feedback.stats import Rejection
from tests.feedback.world import WALL, A, B, C, World

BUSY = '{"error":{"message":"The engine is currently busy","code":503}}'


@pytest.fixture
def world():
    """Return pools with targets and nothing going on."""
    return World()


def test_success_is_delivered_to_the_targets_pool(world):
    """With its TTFT, at the time it was told."""
    outcome = world.outcome(target=A, status=200, ttft_seconds=0.412, prompt_tokens=812)
    assert (outcome.outcome, outcome.reason, outcome.at) == ("success", "success", 100.0)
    assert (outcome.ttft, outcome.prompt_tokens, outcome.had_first_token) == (0.412, 812, True)
    assert world.stats.outcomes("chat", A)[OutcomeClass.SUCCESS] == 1


def test_failure_has_no_ttft(world):
    """However fast it was."""
    assert world.outcome(target=A, status=503, ttft_seconds=0.002).ttft is None


def test_error_inside_a_200_has_no_ttft(world):
    """The status does not make it a success."""
    outcome = world.outcome(target=A, status=200, ttft_seconds=0.002, error_body="boom")
    assert (outcome.outcome, outcome.ttft) == (OutcomeClass.ENGINE_FAULT, None)


def test_target_in_two_pools_is_told_in_both(world):
    """It is one engine; the pool that is named narrows it down."""
    assert world.take(target=B, status=200) == Taken((Told(B, "success", "success"),) * 2)
    assert len(world.outcomes("chat")) == len(world.outcomes("code")) == 1
    world.take(target=B, status=200, pool="code")
    assert (len(world.outcomes("chat")), len(world.outcomes("code"))) == (0, 1)


def test_target_in_another_spelling_is_found(world):
    """With its scheme and a slash at the end."""
    assert world.outcome(target=f"http://{A}/", status=200).outcome is OutcomeClass.SUCCESS


def test_pick_alone_names_its_target(world):
    """The lease knows where the request went, and when."""
    world.pick("p1", A, tokens=500)
    world.now += 2.0
    outcome = world.outcome(pick_id="p1", status=200, ttft_seconds=0.5)
    assert (outcome.picked_at, outcome.at, outcome.prompt_tokens) == (100.0, 102.0, 500)


def test_lease_is_released(world):
    """Once; a second report of the same end is accepted and counts nothing."""
    world.pick("p1")
    world.take(pick_id="p1", status=200)
    assert world.inflight.find("p1") is None
    assert world.take(pick_id="p1", status=200) == Taken()
    assert world.take(pick_id="p1", target=A, status=200) == Taken()
    assert len(world.outcomes()) == 1
    assert world.stats.rejected()[Rejection.DUPLICATE] == 2


def test_dry_run_changes_nothing(world):
    """It only classifies."""
    world.pick("p1")
    told = world.take(pick_id="p1", status=503, error_body=BUSY, dry_run=True)
    assert told == Taken((Told(A, "engine_saturated", "saturation_words"),))
    assert isinstance(world.take(target="x:1", dry_run=True), Refused)
    assert world.take(pick_id="unknown", dry_run=True) == Taken()
    assert world.outcomes() == []
    assert world.inflight.find("p1") is not None
    assert not any(world.stats.rejected().values())


def test_unknown_target_creates_nothing(world):
    """It is refused and counted without its name."""
    assert world.error(target="10.9.9.9:1", status=200) == (
        "target: must be a known target, got 10.9.9.9:1"
    )
    assert world.stats.rejected()[Rejection.UNKNOWN_TARGET] == 1
    assert set(world.registry.pools) == {"chat", "code"}


def test_unknown_pool_is_refused(world):
    """Even if the target is known."""
    assert world.error(target=A, pool="none") == "pool: must be a configured pool, got none"
    assert world.stats.rejected()[Rejection.UNKNOWN_POOL] == 1


def test_unknown_pick_without_target_is_an_orphan(world):
    """Accepted, and there is nothing to do for it."""
    assert world.take(pick_id="nobody", status=200) == Taken()
    assert world.stats.rejected()[Rejection.ORPHAN] == 1


def test_unknown_pick_with_target_counts_each_time(world):
    """It is an outcome without lease."""
    for _ in range(3):
        world.take(pick_id="nobody", target=A, status=200)
    assert [outcome.picked_at for _, outcome in world.outcomes()] == [None] * 3


def test_malformed_item_is_counted(world):
    """And changes nothing."""
    assert world.error(target=A, status=True).startswith("status: must be a number")
    assert world.stats.rejected()[Rejection.MALFORMED] == 1


def test_each_attempt_is_an_outcome_of_its_own(world):
    """The lease moves along and is closed where the last attempt went."""
    world.pick("p1", A)
    world.take(pick_id="p1", target=f"{A}, {B}", status="502, 200", ttft_seconds=0.3)
    told = [(target, each.outcome, each.ttft) for target, each in world.outcomes()]
    assert told == [(A, "engine_fault", None), (B, "success", 0.3)]
    assert world.inflight.find("p1") is None
    assert world.inflight.reading("chat", A, 100.0).in_flight == 0


def test_repeated_503_counts_half(world):
    """The target of an earlier attempt was asked."""
    world.take(target=f"{A}, {B}", status="503, 200", pool="chat")
    (_, first), _ = world.outcomes()
    assert (first.outcome, first.weight) == (OutcomeClass.ENGINE_FAULT, 0.5)


def test_body_is_that_of_the_last_attempt(world):
    """What the client got does not tell on those before."""
    world.take(target=f"{A}, {B}", status="429, 503", error_body=BUSY, pool="chat")
    assert [each.outcome for _, each in world.outcomes()] == ["unknown", "engine_saturated"]


STRANGER = "target: must be a known target, got x:1"


@pytest.mark.parametrize(
    ("targets", "told"),
    [
        (f"x:1, {A}", [(A, "success")]),
        (f"{A}, x:1", [(A, "engine_fault")]),
        (f"x:1, {A}, {B}", [(A, "engine_fault"), (B, "success")]),
        (f"{A}, x:1, {B}", [(A, "engine_fault"), (B, "success")]),
    ],
)
def test_known_attempts_count_beside_a_strangers(world, targets, told):
    """What is told of a known target is no less true for it; the stranger is named."""
    status = ["502"] * targets.count(",") + ["200"]
    taken = world.take(target=targets, status=status, pool="chat")
    assert [(target, each.outcome) for target, each in world.outcomes()] == told
    assert taken.skipped == STRANGER
    assert world.stats.rejected()[Rejection.UNKNOWN_TARGET] == 1
    assert set(world.registry.pools["chat"].targets) == {A, B}


def test_body_of_a_strangers_attempt_is_nobodys(world):
    """What the client got is told of the last attempt, known or not."""
    world.take(target=f"{A}, x:1", status="429, 503", error_body=BUSY, ttft_seconds=0.1)
    [(target, outcome)] = world.outcomes()
    assert (target, outcome.outcome, outcome.ttft) == (A, "unknown", None)


def test_lease_is_released_where_a_known_attempt_went(world):
    """The request is over, and a repeated report counts once, as any."""
    world.pick("p1", A)
    for _ in range(2):
        world.take(pick_id="p1", target=f"{A}, x:1", status="502, 200")
    assert world.inflight.find("p1") is None
    assert world.inflight.reading("chat", A, 100.0).in_flight == 0
    assert [target for target, _ in world.outcomes()] == [A]


def test_many_strangers_are_named_once_and_cut(world):
    """A message does not grow with what a gateway makes up."""
    names = ["x:1", "x:1", *(f"stranger-{number}:1" for number in range(14))]
    message = world.error(target=names, status=[502] * 16)
    assert message.count("x:1") == 1
    assert message.endswith("…")
    assert len(message) < 100


@pytest.mark.parametrize("targets", ["x:1, y:2", "x:1, -"])
def test_record_about_strangers_only_is_refused(world, targets):
    """They are all named."""
    assert world.error(target=targets, status="429, 200").endswith(targets.removesuffix(", -"))
    assert world.outcomes() == []


def test_attempt_at_nobody_is_no_stranger(world):
    """A proxy that found nobody to ask says so: nothing is wrong with the others."""
    assert world.take(target=f"{A}, -", status="502, 502").skipped == ""
    assert [target for target, _ in world.outcomes()] == [A]
    assert not any(world.stats.rejected().values())


def test_first_token_is_about_the_last_attempt_only(world):
    """Whoever was asked before need not be known; the one that answered must be."""
    first = {"status": "502, 200", "event": "first_token", "ttft_seconds": 0.4}
    assert world.take(target=f"x:1, {A}", **first).skipped == ""
    assert [(target, each.ttft) for target, each in world.outcomes()] == [(A, 0.4)]
    assert world.error(target=f"{A}, x:1", **first) == STRANGER


def test_dry_run_names_strangers_and_counts_none(world):
    """It only tells."""
    assert world.take(target=f"{A}, x:1", status="502, 200", dry_run=True).skipped == STRANGER
    assert world.outcomes() == []
    assert not any(world.stats.rejected().values())


def test_request_that_went_elsewhere_moves_its_lease(world):
    """The gateway used the alternate."""
    world.pick("p1", A)
    assert world.take(pick_id="p1", target=B, status=200).told[0].target == B
    assert [target for target, _ in world.outcomes()] == [B]
    assert world.outcomes("code") == []


def test_first_token_teaches_at_once_and_is_no_outcome(world):
    """It weighs nothing, and the end does not teach the same again."""
    world.pick("p1")
    first = world.outcome(pick_id="p1", event="first_token", ttft_seconds=0.4)
    assert (first.ttft, first.weight, first.outcome) == (0.4, 0.0, OutcomeClass.SUCCESS)
    assert world.inflight.find("p1").first_token_at == 100.0
    assert not any(world.stats.outcomes("chat", A).values())
    last = world.outcome(pick_id="p1", status=200, ttft_seconds=0.4)
    assert (last.ttft, last.weight, last.had_first_token) == (None, 1.0, True)


def test_first_token_told_twice_teaches_once(world):
    """A repeated event is accepted."""
    world.pick("p1")
    for _ in range(2):
        world.take(pick_id="p1", event="first_token", ttft_seconds=0.4)
    assert len(world.outcomes()) == 1


def test_first_token_without_time_releases_only(world):
    """Nothing is made up."""
    world.pick("p1")
    world.take(pick_id="p1", event="first_token")
    assert world.outcomes() == []
    assert world.inflight.find("p1").first_token_at == 100.0


def test_client_that_left_after_the_first_token_was_served(world):
    """The event told it, the end need not."""
    world.pick("p1")
    world.take(pick_id="p1", event="first_token")
    assert world.outcome(pick_id="p1", status=499).outcome is OutcomeClass.SUCCESS


def test_abandoned_request_bounds_the_ttft(world):
    """Its duration is how long nothing came."""
    outcome = world.outcome(target=A, status=499, duration_seconds=60.0)
    assert (outcome.outcome, outcome.duration) == (OutcomeClass.CLIENT_ABORT, 60.0)
    assert not outcome.had_first_token


def test_abandoned_stream_bounds_nothing(world):
    """Nobody knows how many tokens a 200 had carried when its client left."""
    outcome = world.outcome(target=A, status=200, termination="CD--", duration_seconds=60.0)
    assert (outcome.outcome, outcome.duration) == (OutcomeClass.CLIENT_ABORT, None)


def test_nobody_waited_for_a_target_that_was_not_asked(world):
    """The gateway's own queue is not the target's."""
    world.pick("p1")
    outcome = world.outcome(pick_id="p1", target="-", status=499, duration_seconds=60.0)
    assert (outcome.outcome, outcome.duration) == (OutcomeClass.CLIENT_ABORT, None)


@pytest.mark.parametrize(("waited", "outcome"), [(0.1, "client_abort"), (2.0, "engine_fault")])
def test_408_depends_on_the_ceiling(world, waited, outcome):
    """The pool's TTFT ceiling is what a wait is long by."""
    assert world.outcome(target=A, status=408, duration_seconds=waited).outcome == outcome


@pytest.mark.parametrize(
    ("pressure", "outcome"),
    [
        ({}, "unknown"),
        ({"waiting": 1.0}, "engine_saturated"),
        ({"kv_cache": 0.8}, "engine_saturated"),
        ({"kv_cache": 0.79}, "unknown"),
        ({"waiting": 9.0, "name": B}, "unknown"),
    ],
)
def test_bare_429_is_saturation_under_pressure(world, pressure, outcome):
    """The target's own last numbers decide what the answer does not say."""
    world.publish(**pressure)
    assert world.outcome(target=A, status=429).outcome == outcome


def test_answer_may_carry_its_own_pressure(world):
    """What the engine says with the refusal is newer than any scrape."""
    outcome = world.outcome(target=A, status=429, waiting=3)
    assert (outcome.outcome, outcome.waiting) == ("engine_saturated", 3.0)
    assert outcome.reason == "refused_without_reason_under_pressure"


def test_nothing_but_a_refusal_is_saturation_under_pressure(world):
    """An item that does not say how the request ended stays unknown."""
    world.publish(waiting=5.0)
    assert world.outcome(target=A).reason == "no_status"


def test_item_without_status_is_a_success_when_it_had_a_token(world):
    """That much is known."""
    assert world.outcome(target=A, ttft_seconds=0.4).outcome is OutcomeClass.SUCCESS


def test_item_without_status_may_say_otherwise(world):
    """An error body, a stream error or termination flags speak for themselves."""
    assert world.outcome(target=A, stream_error=True).outcome == "engine_fault"
    assert world.outcome(target=A, termination="CH--").outcome == "client_abort"
    assert world.outcome(target=A, error_body=BUSY).outcome == "engine_saturated"


def test_retry_after_is_read(world):
    """Seconds from now, for a date too, at most half a minute."""
    headers = {"Retry-After": "7"}
    assert world.outcome(target=A, status=429, headers=headers).retry_after == 7.0
    headers = {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}
    assert world.outcome(target=A, status=429, headers=headers).retry_after == 30.0
    assert WALL < 4e9


def test_fault_holds_the_lease_back(world):
    """The picker is told that the request failed."""
    world.pick("p1", tokens=4000)
    world.take(pick_id="p1", status=502)
    assert world.inflight.reading("chat", A, 100.5).outstanding > 0


def test_own_rule_decides():
    """An operator's rule from the configuration."""
    world = World('{rules: [{match: {status: 503, body_regex: "^shed"}, class: gateway_fault}]}')
    outcome = world.outcome(target=A, status=503, error_body="Shed by edge")
    assert (outcome.outcome, outcome.reason) == ("gateway_fault", "feedback.rules[0]")


def test_full_inbox_refuses(world):
    """Feedback that nobody applies does not pile up."""
    inbox = world.registry.pools["chat"].inbox
    inbox.extend([None] * MOST_WAITING)
    assert world.error(target=A, status=200) == "too much feedback is waiting to be applied"
    assert len(inbox) == MOST_WAITING
    assert world.stats.rejected()[Rejection.OVERFLOW] == 1


def test_memory_of_ended_picks_is_bounded(world):
    """Only the last ones are known to have ended."""
    for number in range(REMEMBERED + 10):
        world.pick(f"p{number}")
        world.take(pick_id=f"p{number}", status=200)
    assert len(world.feedback._ended) == REMEMBERED


def test_strangers_leave_no_trace(world):
    """Made-up targets, pools, picks, words and flags cost counters only."""
    for number in range(2_000):
        world.take(target=f"10.1.{number % 256}.{number // 256}:1", status=200)
        world.take(pick_id=f"x{number}", status=200)
        world.take(target=A, pool=f"pool{number}", status=200)
    rejected = world.stats.rejected()
    assert rejected[Rejection.UNKNOWN_TARGET] == rejected[Rejection.ORPHAN] == 2_000
    assert world.outcomes() == []
    assert not world.feedback._ended


def test_counts_of_departed_targets_are_dropped(world):
    """A target that left the configuration leaves the page."""
    world.take(target=C, status=200)
    world.stats.keep({("chat", A)})
    assert not any(world.stats.outcomes("code", C).values())


def test_facts_do_not_share_bits():
    """Each is a bit of its own."""
    bits = [value for name, value in vars(Fact).items() if name.isupper()]
    assert sum(bits) == 2 ** len(bits) - 1


@pytest.mark.parametrize("first", [A, f"http://{A}"])
@pytest.mark.parametrize("again", [A, f"http://{A}", f"HTTP://{A}/", None])
def test_repeated_report_counts_once_however_its_target_is_spelled(world, first, again):
    """A target has one name; a proxy that writes URLs repeats its reports as any other does."""
    world.pick("p1")
    world.take(pick_id="p1", target=first, status=500)
    named = {} if again is None else {"target": again}
    assert world.take(pick_id="p1", status=500, **named) == Taken()
    assert world.stats.rejected()[Rejection.DUPLICATE] == 1
    assert len(world.outcomes()) == 1
