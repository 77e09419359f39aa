"""Who may be picked: candidates, panic, draining."""

import dataclasses

from scorer.core.judge import judge_pool
from scorer.core.outstanding import NOTHING
from scorer.core.snapshot import TargetView
from scorer.core.view import choose_candidates, target_view
from scorer.core.vocabulary import State
from tests.core.builders import REFUSED, failed, page, scrape, target


def view(name: str, *results: object) -> TargetView:
    """Return the view of a target that was scraped with ``results``, by default well."""
    health = target(name)
    for second, result in enumerate(results or (page(), page())):
        health.apply(scrape(result, 1.0 + second))
    [judgement] = judge_pool([health], 10.0, lambda _: NOTHING)
    return target_view(judgement, 10.0)


def drained(name: str) -> TargetView:
    return dataclasses.replace(view(name), state=State.DRAINING, eligible=False)


def lost(name: str) -> TargetView:
    return view(name, failed(), failed(), failed())


def dead(name: str) -> TargetView:
    return view(name, REFUSED, REFUSED)


def candidates(*targets: TargetView) -> tuple[list[str], bool]:
    found, panic = choose_candidates(targets, 0.5)
    return [each.target for each in found], panic


def test_panic_uses_the_unobserved_before_the_dead() -> None:
    """With too few eligible targets those not observed come back, the dead ones do not."""
    assert candidates(view("a:1"), lost("b:1"), dead("c:1")) == (["a:1", "b:1"], True)


def test_enough_eligible_targets_are_no_panic() -> None:
    """Half of the pool eligible is enough: only those are candidates."""
    assert candidates(view("a:1"), dead("b:1")) == (["a:1"], False)


def test_dead_targets_are_used_when_nothing_else_is_left() -> None:
    """The pool is never empty while it has a target that is not draining."""
    assert candidates(dead("a:1"), dead("b:1")) == (["a:1", "b:1"], True)


def test_draining_target_is_no_candidate_in_panic_either() -> None:
    """What an operator takes out stays out."""
    assert candidates(drained("a:1"), dead("b:1")) == (["b:1"], True)


def test_draining_targets_do_not_cause_panic() -> None:
    """The share of eligible targets is that of those not draining."""
    assert candidates(view("a:1"), drained("b:1"), drained("c:1")) == (["a:1"], False)
