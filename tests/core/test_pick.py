"""The pick: power of two choices on score and picks not yet seen."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.judge import judge_pool
from scorer.core.pick import Choice, pick, two_distinct
from scorer.core.snapshot import PoolView, TargetView
from scorer.core.view import PoolFacts, choose_candidates, pool_view, target_view
from scorer.inflight import InFlight
from tests.core.builders import REFUSED, failed, page, scrape, target

NOBODY = frozenset[str]()


def view(name: str, score: float | None = 100.0, *results: object) -> TargetView:
    """Return the view of a target that was scraped with ``results``, by default well."""
    health = target(name)
    for second, result in enumerate(results or (page(), page())):
        health.apply(scrape(result, 1.0 + second))
    if score is not None:
        health.score = score
    [judgement] = judge_pool([health], 10.0, lambda _: 0)
    shown = target_view(judgement)
    fields = {key: getattr(shown, key) for key in TargetView.__dataclass_fields__}
    return TargetView(**{**fields, "score": score})


def pool(*targets: TargetView) -> PoolView:
    return pool_view(PoolFacts("chat"), targets, 10.0)


def none_unseen(_: TargetView) -> int:
    return 0


def picks(pool: PoolView, count: int, seed: int = 1) -> Counter[str]:
    """Pick ``count`` times within one scrape, counting each pick as unseen."""
    inflight, dice, shares = InFlight(), random.Random(seed), Counter[str]()
    for _ in range(count):
        choice = pick(pool, NOBODY, inflight.unseen, dice)
        assert choice is not None
        inflight.opened("chat", choice.target.target)
        shares[choice.target.target] += 1
    return shares


def test_pool_without_target_gives_nothing() -> None:
    """There is nobody to pick."""
    assert pick(pool(), NOBODY, none_unseen, random.Random(1)) is None


def test_only_target_is_picked_without_alternate() -> None:
    """A pool of one has no second choice."""
    choice = pick(pool(view("a:1")), NOBODY, none_unseen, random.Random(1))
    assert choice is not None
    assert (choice.target.target, choice.alternates) == ("a:1", ())


def test_higher_score_wins_and_the_loser_is_the_alternate() -> None:
    """Of two the better is picked, the other one is tried next."""
    choice = pick(pool(view("a:1", 40.0), view("b:1", 90.0)), NOBODY, none_unseen, random.Random(1))
    assert choice is not None
    assert (choice.target.target, [each.target for each in choice.alternates]) == ("b:1", ["a:1"])


def test_equal_targets_share_evenly() -> None:
    """Four equal targets, 400 picks, seed 1: each gets 25 ± 7 %."""
    shares = picks(pool(*(view(f"{name}:1") for name in "abcd")), 400)
    assert all(72 <= shares[f"{name}:1"] <= 128 for name in "abcd")


def test_burst_within_one_scrape_does_not_go_to_one_target() -> None:
    """Two targets one point apart, 400 picks, seed 1: none gets above 70 %."""
    shares = picks(pool(view("a:1", 100.0), view("b:1", 99.0)), 400)
    assert max(shares.values()) <= 280


def test_sick_target_gets_next_to_nothing() -> None:
    """A target 40 points behind gets under 10 % of 100 picks within one scrape."""
    shares = picks(pool(view("a:1", 60.0), view("b:1", 100.0)), 100)
    assert shares["a:1"] <= 10


def test_target_without_score_does_not_look_idle() -> None:
    """Not knowing counts as 0: the judged one wins."""
    choice = pick(pool(view("a:1", None), view("b:1", 1.0)), NOBODY, none_unseen, random.Random(1))
    assert choice is not None
    assert choice.target.target == "b:1"


def test_excluded_target_is_never_returned() -> None:
    """A target that was tried is neither picked nor an alternate."""
    everyone = pool(*(view(f"{name}:1") for name in "abc"))
    for seed in range(50):
        choice = pick(everyone, frozenset({"a:1"}), none_unseen, random.Random(seed))
        assert choice is not None
        assert "a:1" not in {choice.target.target, *(each.target for each in choice.alternates)}


def test_all_excluded_gives_nothing() -> None:
    """With every target tried there is no answer."""
    assert pick(pool(view("a:1")), frozenset({"a:1"}), none_unseen, random.Random(1)) is None


def test_unreachable_target_is_better_than_none() -> None:
    """When every eligible target was tried, one that is merely not observed is used."""
    gone = view("b:1", None, failed(), failed(), failed())
    choice = pick(pool(view("a:1"), gone), frozenset({"a:1"}), none_unseen, random.Random(1))
    assert choice is not None
    assert (choice.target.target, choice.panic) == ("b:1", True)


def test_panic_uses_the_unobserved_before_the_dead() -> None:
    """With too few eligible targets those not observed come back, the dead ones do not."""
    good = view("a:1")
    lost = view("b:1", None, failed(), failed(), failed())
    dead = view("c:1", None, REFUSED, REFUSED)
    candidates, panic = choose_candidates([good, lost, dead], 0.5)
    assert ([each.target for each in candidates], panic) == (["a:1", "b:1"], True)


def test_all_dead_pool_still_answers() -> None:
    """The pool is never empty: with everyone dead the dead are offered, marked panic."""
    dead = [view(f"{name}:1", None, REFUSED, REFUSED) for name in "ab"]
    choice = pick(pool(*dead), NOBODY, none_unseen, random.Random(1))
    assert choice is not None
    assert choice.panic


def test_enough_eligible_targets_are_no_panic() -> None:
    """Half of the pool eligible is enough: only those are candidates."""
    candidates, panic = choose_candidates([view("a:1"), view("b:1", None, REFUSED, REFUSED)], 0.5)
    assert ([each.target for each in candidates], panic) == (["a:1"], False)


@given(st.integers(2, 40), st.integers(0, 2**32))
def test_two_draws_are_distinct(size: int, seed: int) -> None:
    """The two candidates are different targets of the pool."""
    first, second = two_distinct(size, random.Random(seed))
    assert first != second
    assert {first, second} <= set(range(size))


def test_every_pair_is_as_likely() -> None:
    """Pairs of four, N=12,000, seed 1: each of the 12 ordered pairs 1000 ± 120."""
    dice = random.Random(1)
    pairs = Counter(two_distinct(4, dice) for _ in range(12_000))
    assert len(pairs) == 12
    assert all(880 <= count <= 1120 for count in pairs.values())


@given(st.integers(1, 12), st.integers(0, 2**32), st.sets(st.integers(0, 11)))
def test_answer_names_distinct_targets(size: int, seed: int, tried: set[int]) -> None:
    """Target and alternates are distinct, not excluded and of the pool."""
    everyone = pool(*(view(f"t{index}:1") for index in range(size)))
    exclude = frozenset(f"t{index}:1" for index in tried)
    choice = pick(everyone, exclude, none_unseen, random.Random(seed))
    left = {each.target for each in everyone.targets} - exclude
    named = names(choice)
    assert len(named) == len(set(named)) == min(len(left), 3)
    assert set(named) <= left


def names(choice: Choice | None) -> list[str]:
    if choice is None:
        return []
    return [choice.target.target, *(each.target for each in choice.alternates)]


@pytest.mark.parametrize("seed", [1, 2])
def test_answer_depends_on_nothing_but_its_arguments(seed: int) -> None:
    """The same pool, picks and dice give the same answer."""
    everyone = pool(*(view(f"t{index}:1") for index in range(8)))
    first = pick(everyone, NOBODY, none_unseen, random.Random(seed))
    assert names(first) == names(pick(everyone, NOBODY, none_unseen, random.Random(seed)))
