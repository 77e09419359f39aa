"""Orders in a running fleet: at once, past reloads, in the log, and in no pick."""

from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from scorer.core.absent import KEPT_FOR
from scorer.core.outcome import Outcome, OutcomeClass
from scorer.core.vocabulary import Reason, State, Verb
from tests.core.builders import REFUSED, scrape
from tests.ordered import DEEP, POOLS, SIX, A, B, World


@pytest.fixture
def world() -> World:
    """Return two healthy pools."""
    return World()


def states(world: World, target: str) -> list[State]:
    """Return the state of a target in each pool that has it."""
    found = (world.view(target, pool) for pool in POOLS)
    return [view.state for view in found if view is not None]


def test_order_takes_effect_at_once(world: World) -> None:
    """The published view has it before the next regular judgement."""
    [shown] = world.give(Verb.DRAIN, seconds=60.0)
    assert shown is world.view()
    assert (shown.state, shown.state_reason) == (State.DRAINING, Reason.MANUAL)
    assert A not in world.picks(200)


def test_order_holds_in_the_pools_it_names(world: World) -> None:
    """The same address in another pool is another target."""
    assert len(world.give(Verb.DRAIN, B, ("chat", "code"))) == 2
    world.give(Verb.UNDRAIN, B, ("code",))
    assert states(world, B) == [State.DRAINING, State.HEALTHY]


def test_drained_target_is_in_no_pick_even_when_nothing_else_works(world: World) -> None:
    """Panic uses the dead before it uses what an operator took out."""
    world.give(Verb.DRAIN)
    pool = world.registry.pools["chat"]
    for name in (B, SIX):
        for at in (0.1, 0.2):
            pool.inbox.append((pool.targets[name], scrape(REFUSED, world.now + at)))
    world.now += 1.0
    world.judge("chat")
    assert world.registry.snapshot.pools["chat"].panic
    assert world.picks(200) == {B, SIX}


def test_pool_that_is_drained_whole_has_no_pick(world: World) -> None:
    """The one case in which a pool with targets returns none."""
    for name in POOLS["chat"]:
        world.give(Verb.DRAIN, name)
    view = world.registry.snapshot.pools["chat"]
    assert (view.candidates, view.panic) == ((), False)


def test_failing_and_drained_target_gets_no_probe(world: World) -> None:
    """Two thousand picks over 200 s would have probed it."""
    pool = world.registry.pools["chat"]
    fault = Outcome(OutcomeClass.ENGINE_FAULT, "test", world.now)
    pool.inbox.extend([(pool.targets[A], fault)] * 9)
    world.judge("chat")
    world.give(Verb.DRAIN)
    shown = world.view()
    assert shown is not None
    assert shown.probe_only
    seen: set[str] = set()
    for _ in range(20):
        world.now += 10.0
        world.judge("chat")
        seen |= world.picks(100)
    assert seen == {B, SIX}


def test_drain_survives_a_reload(world: World) -> None:
    """What an operator said is no part of the file."""
    world.give(Verb.DRAIN, B, ("chat", "code"))
    world.apply({**POOLS, "chat": [B, A]})
    world.second()
    assert states(world, B) == [State.DRAINING, State.DRAINING]


def test_orders_outlive_a_short_absence(world: World) -> None:
    """Discovery drops a target and finds it again: it warms up, and stays drained."""
    world.give(Verb.DRAIN, B, ("chat", "code"))
    world.give(Verb.UNDRAIN, B, ("code",))
    world.apply({"chat": [A, SIX], "code": [DEEP]})
    assert world.view(B) is None
    world.now += 2.0
    world.apply(POOLS)
    assert states(world, B) == [State.DRAINING, State.WARMUP]
    assert B not in world.picks(200)
    world.give(Verb.UNDRAIN, B)
    world.apply({**POOLS, "chat": [A, SIX]})
    world.apply(POOLS)
    assert states(world, B) == [State.WARMUP, State.WARMUP]


def test_orders_are_forgotten_with_a_target_that_stays_away(world: World) -> None:
    """One that comes back much later under the same name is another one."""
    world.give(Verb.DRAIN)
    world.apply({**POOLS, "chat": [B, SIX]})
    world.now += KEPT_FOR
    world.apply(POOLS)
    shown = world.view()
    assert shown is not None
    assert (shown.state, shown.drain) == (State.WARMUP, None)


def test_orders_outlive_a_configuration_that_is_not_taken(world: World) -> None:
    """What is restored is the target with its drain, and no order waits beside it."""
    world.give(Verb.DRAIN)
    restore = world.registry.remembered()
    world.apply({**POOLS, "chat": [B, SIX]})
    restore()
    world.judge("chat")
    assert states(world, A) == [State.DRAINING]
    assert world.registry.pools["chat"].absent == {}


@pytest.mark.parametrize("pools", [(), ("gone",), ("code",)])
def test_order_about_nobody_is_told(world: World, pools: tuple[str, ...]) -> None:
    """A target that left while the order was read: nothing happens, nothing is logged."""
    with capture_logs() as logs:
        assert world.give(Verb.DRAIN, A, pools) == []
    assert logs == []


def lines(logs: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return the lines about orders."""
    return [line for line in logs if line["event"] == "Operator's order carried out"]


def test_order_is_one_line(world: World) -> None:
    """Whatever the number of pools: what, of whom, until when, why, and from where."""
    with capture_logs() as logs:
        world.give(Verb.DRAIN, B, ("chat", "code"), seconds=60.0, note="upgrade")
    assert lines(logs) == [
        {
            "event": "Operator's order carried out", "log_level": "info", "order": "drain",
            "target": B, "pool": "chat,code", "until": "2030-03-17T17:47:43.000Z",
            "note": "upgrade", "peer": "127.0.0.1",
        }
    ]  # fmt: skip


def test_order_without_end_and_reason_says_neither(world: World) -> None:
    """No empty values in the log."""
    with capture_logs() as logs:
        world.give(Verb.UNDRAIN, DEEP, ("code",))
    [line] = lines(logs)
    assert not {"until", "note"} & set(line)


def test_end_of_a_drain_is_a_line_and_a_transition(world: World) -> None:
    """Nobody has to do anything for it."""
    world.give(Verb.DRAIN, seconds=2.0)
    with capture_logs() as logs:
        world.second()
        world.second()
    assert [line["event"] for line in logs] == ["Target became healthy"]
    assert A in world.picks(200)


def test_judgement_that_was_late_does_not_bring_back_what_ended(world: World) -> None:
    """A regular tick that read the clock before an order and got the lock after it."""
    world.give(Verb.COOLDOWN)
    early = world.now
    world.now += 0.001
    world.give(Verb.END_COOLDOWN)
    world.cycles["chat"].tick(early)
    assert states(world, A) == [State.HEALTHY]


def test_operators_cooldown_counts_towards_the_limit(world: World) -> None:
    """Half of the pool may cool; an operator's order itself is never refused."""
    for name in (A, B):
        world.give(Verb.COOLDOWN, name)
    pool = world.registry.pools["chat"]
    full = Outcome(OutcomeClass.ENGINE_SATURATED, "test", world.now)
    pool.inbox.append((pool.targets[SIX], full))
    world.judge("chat")
    shown = world.view(SIX)
    assert shown is not None
    assert (shown.cooldown.active, shown.refused_cooldown_at) == (False, world.now)
    assert states(world, A) == [State.COOLDOWN]
