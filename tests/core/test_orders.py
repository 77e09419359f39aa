"""Orders of operators: drains, cooldowns by hand, and what they do to state and draw."""

import pytest

from scorer.core.cooldown import Cooldown, CooldownReason
from scorer.core.health import TargetHealth
from scorer.core.judge import judge_pool
from scorer.core.orders import COOLDOWN_SECONDS, Order, ends_at, obey
from scorer.core.outcome import OutcomeClass
from scorer.core.outstanding import NOTHING
from scorer.core.snapshot import TargetView
from scorer.core.table import needs_probe
from scorer.core.view import target_view
from scorer.core.vocabulary import Cause, Reason, State, Verb
from tests.core.builders import page, scrape, target
from tests.core.picking import load
from tests.core.test_conditions import fail, tell

SATURATED, MANUAL = CooldownReason.ENGINE_SATURATED, CooldownReason.MANUAL


def known() -> TargetHealth:
    """Return a healthy target that was judged at 2.0."""
    health = target()
    for at in (1.0, 2.0):
        health.apply(scrape(page(), at))
        view(health, at)
    return health


def view(health: TargetHealth, now: float) -> TargetView:
    """Judge a target and return its view."""
    [judgement] = judge_pool([health], now, lambda _: NOTHING)
    return target_view(judgement, now)


def ordered(verb: Verb, seconds: float | None = None, now: float = 3.0) -> TargetHealth:
    """Return a healthy target about which an order was given."""
    health = known()
    obey(health, Order(verb, seconds, "upgrade"), now)
    return health


def state(health: TargetHealth, now: float) -> tuple[State, Reason]:
    shown = view(health, now)
    return shown.state, shown.state_reason


def test_drain_ends_by_itself() -> None:
    """It takes the target out until its end, and not a moment longer."""
    health = ordered(Verb.DRAIN, 10.0)
    shown = view(health, 12.9)
    assert (shown.state, shown.state_reason) == (State.DRAINING, Reason.MANUAL)
    assert (shown.eligible, shown.weight) == (False, 0.0)
    assert state(health, 13.0) == (State.HEALTHY, Reason.NONE)


def test_drain_keeps_the_score() -> None:
    """Being taken out is no illness: the target comes back with what it is worth."""
    health = ordered(Verb.DRAIN, 10.0)
    assert view(health, 4.0).score == view(health, 13.0).score == 100.0


def test_drain_without_a_duration_holds_until_it_is_taken_back() -> None:
    """It has no end that could be named."""
    health = ordered(Verb.DRAIN)
    shown = view(health, 1e9)
    assert (shown.state, ends_at(shown, Verb.DRAIN)) == (State.DRAINING, None)
    obey(health, Order(Verb.UNDRAIN), 1e9)
    assert view(health, 1e9).state is not State.DRAINING


def test_last_drain_counts() -> None:
    """A drain can be shortened; since when it lasts and what was said of it are told."""
    health = ordered(Verb.DRAIN)
    obey(health, Order(Verb.DRAIN, 5.0, "soon back"), 10.0)
    drain = view(health, 10.0).drain
    assert drain is not None
    assert (drain.since, drain.until, drain.note) == (3.0, 15.0, "soon back")


def test_drain_after_an_ended_one_begins_anew() -> None:
    """What is over is not prolonged."""
    health = ordered(Verb.DRAIN, 2.0)
    obey(health, Order(Verb.DRAIN, 2.0), 20.0)
    drain = view(health, 20.0).drain
    assert drain is not None
    assert drain.since == 20.0


@pytest.mark.parametrize("verb", [Verb.UNDRAIN, Verb.END_COOLDOWN])
def test_taking_back_what_is_not_there_changes_nothing(verb: Verb) -> None:
    """An order may be repeated."""
    shown = view(ordered(verb), 3.0)
    assert (shown.state, shown.drain, shown.cooldown.active) == (State.HEALTHY, None, False)


def test_undrain_leaves_what_discovery_says() -> None:
    """An operator cannot bring back what is going away."""
    health = ordered(Verb.DRAIN)
    health.leaving = True
    obey(health, Order(Verb.UNDRAIN), 4.0)
    assert state(health, 4.0) == (State.DRAINING, Reason.DISCOVERY)


def test_draining_target_is_not_probed() -> None:
    """Failing and draining: not even the trickle goes there."""
    health = ordered(Verb.DRAIN, 60.0)
    fail(health, 9, 3.0)
    shown, idle = view(health, 4.0), load()
    assert shown.probe_only
    assert not needs_probe(shown, idle, 1000, 2, 4.0)
    obey(health, Order(Verb.UNDRAIN), 5.0)
    assert needs_probe(view(health, 5.0), idle, 1000, 2, 5.0)


def test_cooldown_by_hand_costs_no_points() -> None:
    """It halves the weight and keeps long prompts away; the target stays eligible."""
    shown = view(ordered(Verb.COOLDOWN, 20.0), 4.0)
    assert (shown.state, shown.state_reason) == (State.COOLDOWN, Reason.MANUAL)
    assert (shown.score, shown.points_lost[Cause.SATURATION]) == (100.0, 0.0)
    assert (shown.eligible, shown.cooling, shown.weight) == (True, True, 0.5)
    assert ends_at(shown, Verb.COOLDOWN) == 23.0


def test_cooldown_without_a_duration_is_as_long_as_the_longest_automatic_one() -> None:
    """It always has an end."""
    health = ordered(Verb.COOLDOWN)
    end = 3.0 + COOLDOWN_SECONDS
    assert (view(health, end - 0.1).state, view(health, end).state) == (
        State.COOLDOWN, State.HEALTHY,
    )  # fmt: skip


def test_later_deadline_of_two_cooldowns_by_hand_wins() -> None:
    """A shorter one does not shorten it, and is not counted as another."""
    health = ordered(Verb.COOLDOWN, 20.0)
    obey(health, Order(Verb.COOLDOWN, 5.0, "again"), 4.0)
    cooldown = view(health, 4.0).cooldown
    assert (cooldown.began_at, cooldown.until, cooldown.note) == (3.0, 23.0, "again")
    assert cooldown.entered == {MANUAL: 1}


def test_each_cooldown_keeps_its_own_end() -> None:
    """While both last the cause is the automatic one; afterwards the operator's goes on."""
    health = ordered(Verb.COOLDOWN, 60.0)
    tell(health, OutcomeClass.ENGINE_SATURATED, 4.0)
    both, later = view(health, 4.0).cooldown, view(health, 40.0).cooldown
    assert (both.reason, both.until) == (SATURATED, 8.0)
    assert (later.reason, later.until) == (MANUAL, 63.0)
    assert later.entered == {MANUAL: 1, SATURATED: 1}


def test_cooldown_by_hand_is_no_part_of_an_episode() -> None:
    """An automatic one right after it has its plain length."""
    cooldown = Cooldown()
    cooldown.impose(0.0, 10.0)
    cooldown.enter(11.0, SATURATED, 4.0)
    assert cooldown.until == 15.0


def test_time_is_counted_once_by_cause() -> None:
    """Seconds under both are the automatic one's, the rest the operator's."""
    cooldown = Cooldown()
    cooldown.impose(0.0, 10.0)
    cooldown.enter(2.0, SATURATED, 4.0)
    assert cooldown.seconds(100.0) == {MANUAL: 6.0, SATURATED: 4.0}


def test_end_ends_both_and_the_penalty() -> None:
    """Whatever caused them: state, weight and points are back at once."""
    health = ordered(Verb.COOLDOWN, 60.0)
    tell(health, OutcomeClass.ENGINE_SATURATED, 4.0)
    obey(health, Order(Verb.END_COOLDOWN), 5.0)
    shown = view(health, 5.0)
    assert (shown.cooldown.active, shown.cooldown.note) == (False, "")
    assert (shown.cooling, shown.points_lost[Cause.SATURATION]) == (False, 0.0)
    assert ends_at(shown, Verb.END_COOLDOWN) is None


def test_end_of_a_fault_cooldown_leaves_the_probes_to_lift_the_cap() -> None:
    """An operator ends a pause, not an illness."""
    health = known()
    fail(health, 9, 3.0)
    obey(health, Order(Verb.END_COOLDOWN), 4.0)
    shown = view(health, 4.0)
    assert (shown.state, shown.state_reason) == (State.DEGRADED, Reason.FAILING)
    assert shown.probe_only


def test_draining_outweighs_cooldown() -> None:
    """One state at a time; the cooldown goes on beneath and is shown beside."""
    health = ordered(Verb.DRAIN, 10.0)
    obey(health, Order(Verb.COOLDOWN, 20.0), 3.0)
    shown = view(health, 4.0)
    assert (shown.state, shown.cooldown.active) == (State.DRAINING, True)
    assert (ends_at(shown, Verb.DRAIN), ends_at(shown, Verb.COOLDOWN)) == (13.0, 23.0)
    assert state(health, 13.0) == (State.COOLDOWN, Reason.MANUAL)


def test_orders_leave_transitions_with_their_reason() -> None:
    """In and out again, as any other change of state."""
    health = ordered(Verb.DRAIN, 10.0)
    for now in (3.0, 13.0):
        view(health, now)
    changes = [(each.before, each.after, each.reason) for each in health.transitions][-2:]
    assert changes == [
        (State.HEALTHY, State.DRAINING, Reason.MANUAL),
        (State.DRAINING, State.HEALTHY, Reason.NONE),
    ]


def test_engine_that_says_it_is_full_starts_another_cooldown_after_the_end() -> None:
    """Ending one does not make the daemon deaf."""
    health = ordered(Verb.END_COOLDOWN)
    obey(health, Order(Verb.END_COOLDOWN), 4.0)
    tell(health, OutcomeClass.ENGINE_SATURATED, 5.0)
    assert state(health, 5.0) == (State.COOLDOWN, Reason.ENGINE_SATURATED)
