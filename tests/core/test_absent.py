"""Orders that wait for their target: which, for how long, and how many."""

import math

import pytest

from scorer.core.absent import KEPT_FOR, MOST, Orders, back, forget, gone
from scorer.core.health import TargetHealth
from scorer.core.orders import Order, obey
from scorer.core.overrides import Override
from scorer.core.vocabulary import Verb
from tests.core.builders import target

NAME = target().id.target


def ordered(verb: Verb, seconds: float | None = None) -> TargetHealth:
    """Return a target about which an order was given at 10.0."""
    health = target()
    obey(health, Order(verb, seconds, "upgrade"), 10.0)
    return health


def returned(orders: Orders | None, now: float) -> TargetHealth:
    health = target()
    back(orders, health, now)
    return health


@pytest.mark.parametrize("verb", [Verb.DRAIN, Verb.COOLDOWN])
def test_order_comes_back_as_it_was_given(verb: Verb) -> None:
    """Since when, until when and why: nothing is begun anew."""
    health = ordered(verb, 60.0)
    waiting = gone({}, [health], 12.0)
    again = returned(waiting[NAME], 14.0)
    assert (again.drain, again.cooldown.by_hand) == (health.drain, health.cooldown.by_hand)
    assert again.cooldown.active(69.0) == (verb is Verb.COOLDOWN)
    assert sum(again.cooldown.seconds(20.0).values()) == (6.0 if verb is Verb.COOLDOWN else 0.0)


def test_order_ends_while_its_target_is_away() -> None:
    """Time passes for it as for any other."""
    waiting = gone({}, [ordered(Verb.DRAIN, 60.0)], 12.0)
    assert returned(waiting[NAME], 69.9).drain is not None
    assert returned(waiting[NAME], 70.0).drain is None


def test_drain_without_end_is_forgotten_with_a_target_that_stays_away() -> None:
    """Its address may be somebody else's by then."""
    waiting = gone({}, [ordered(Verb.DRAIN)], 12.0)
    assert returned(waiting[NAME], 12.0 + KEPT_FOR - 0.1).drain is not None
    assert returned(waiting[NAME], 12.0 + KEPT_FOR).drain is None
    assert gone(waiting, [], 12.0 + KEPT_FOR) == {}


def test_target_without_orders_leaves_nothing() -> None:
    """Neither does one whose orders are over, and it takes what waited before with it."""
    over = ordered(Verb.DRAIN, 1.0)
    assert gone({}, [target(), over], 12.0) == {}
    waiting = gone({}, [ordered(Verb.DRAIN)], 12.0)
    assert gone(waiting, [target()], 13.0) == {}


def test_those_that_left_first_are_forgotten_beyond_the_limit() -> None:
    """Memory is bounded however many names discovery makes up."""
    drain = Override(0.0, math.inf)
    full = {f"t{number}:1": Orders(1.0, drain, None) for number in range(MOST)}
    kept = gone(full, [ordered(Verb.DRAIN)], 12.0)
    assert len(kept) == MOST
    assert (next(iter(kept)), NAME in kept) == ("t1:1", True)


def test_forgetting_leaves_the_automatic_cooldown() -> None:
    """Only what people ordered is forgotten."""
    health = ordered(Verb.DRAIN)
    obey(health, Order(Verb.COOLDOWN, 60.0), 10.0)
    health.saturate(11.0, 0.5)
    forget(health)
    assert (health.drain, health.cooldown.by_hand) == (None, None)
    assert health.cooldown.active(11.5)
