"""The pick: costs, cold set, two choices, alternates."""

import math

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from scorer.core.pick import probing, weigh
from tests.core.picking import NOW, given, load, pick, picked, row, seeded, table


def cost(tokens: int = 0, **fields: object) -> float:
    """Return the cost of one target."""
    return weigh([row("a:1", **fields)], tokens, NOW)[0]  # type: ignore[arg-type]


def test_pool_without_target_gives_nothing() -> None:
    """There is nobody to pick."""
    assert pick(table()) is None


def test_only_target_is_picked_without_a_draw() -> None:
    """A pool of one has no second choice."""
    choice = pick(table(row("a:1")), draws=given())
    assert choice is not None
    assert (choice.row.target, choice.alternates, choice.reason) == ("a:1", [], "cold")


@pytest.mark.parametrize(
    ("fields", "tokens", "wanted"),
    [
        ({}, 0, 0.0),
        ({}, 8000, 1.16),
        ({"outstanding": 16_000.0}, 0, 2.0),
        ({"speed": 16_000.0}, 8000, 0.58),
        ({"in_flight": 25}, 0, 0.1),
        ({"resident": 16_000}, 0, 0.1),
        ({"health": 50.0}, 8000, 2.32),
        ({"health": 0.0}, 8000, 58.0),
    ],
)
def test_cost_is_the_expected_wait_discounted_by_health(
    fields: dict[str, float], tokens: int, wanted: float
) -> None:
    """Work ahead, own work and decoding over the rate, divided by health of at least 2 %."""
    assert cost(tokens, **fields) == pytest.approx(wanted)


@pytest.mark.parametrize("told", [True, False])
def test_cost_is_what_the_load_says(told: bool) -> None:
    """The arithmetic written out in the pick is that of the load."""
    one = row("a:1")
    one.load = load(told=told)
    for number, tokens in enumerate((9000, 50, 20_000)):
        one.load.open(str(number), tokens, tokens * (1 + tokens / 50_000), NOW - 2.0)
    assert weigh([one], 700, NOW) == [pytest.approx(one.load.wait(700, NOW))]


@pytest.mark.parametrize(("tokens", "wanted"), [(8000, 1.2), (20_000, 3.54), (40_000, 12.54)])
def test_long_prompt_costs_those_who_decode_beside_it(tokens: int, wanted: float) -> None:
    """Each of ten requests adds 7 % of its work beyond 32,000 token-equivalents."""
    assert cost(tokens, in_flight=10) == pytest.approx(wanted)


def test_long_prompt_rather_waits_than_holds_up_many() -> None:
    """It goes behind a second of work where few decode, a short one to where nobody waits."""
    few, many = row("few:1", outstanding=8000.0), row("many:1", in_flight=80)
    for tokens, wanted in ((60_000, "few:1"), (500, "many:1")):
        chosen = [pick(table(few, many), tokens=tokens, draws=seeded(seed)) for seed in range(20)]
        assert {each.row.target for each in chosen if each} == {wanted}


def test_blocked_target_gets_no_short_prompt() -> None:
    """Behind a 32K prompt waits nobody while others are cold: N=1,000 picks, seed 1."""
    blocked = row("blocked:1", outstanding=54_243.0)
    assert "blocked:1" not in picked(table(blocked, row("b:1"), row("c:1")), 1000)


def test_cold_set_ends_100_ms_and_a_quarter_above_the_cheapest() -> None:
    """Cheapest 1 s: 1.35 s is cold, 1.36 s is not."""
    pool = table(*(row(f"{each}:1", outstanding=8000.0 * each) for each in (1.0, 1.34, 1.36)))
    choice = pick(pool, 0)
    assert choice is not None
    assert list(choice.cold) == [0, 1]


@pytest.mark.parametrize(
    ("points", "coin", "winner"),
    [
        (0.0, 0.49, "a:1"), (0.0, 0.51, "b:1"), (2.0, 0.59, "a:1"), (2.0, 0.61, "b:1"),
        (10.0, 0.999, "a:1"), (50.0, 0.999, "a:1"), (-2.0, 0.39, "a:1"), (-2.0, 0.41, "b:1"),
        (-10.0, 0.0, "b:1"),
    ],
)  # fmt: skip
def test_better_one_wins_the_more_surely_the_further_it_is_ahead(
    points: float, coin: float, winner: str
) -> None:
    """With a ahead by d points it wins below 0.5 + d/20; the draws are first, second, coin."""
    pool = table(row("a:1", health=90.0), row("b:1", health=90.0 - points))
    choice = pick(pool, 0, given(0.0, 0.0, coin))
    assert choice is not None
    assert choice.row.target == winner


def test_a_tenth_of_a_second_is_worth_ten_points() -> None:
    """Cost weighs 100 points a second in the comparison."""
    pool = table(row("a:1"), row("b:1", outstanding=800.0))
    choice = pick(pool, 0, given(0.0, 0.0, 0.99))
    assert choice is not None
    assert choice.row.target == "a:1"


def test_loser_is_the_first_alternate_and_one_of_the_rest_the_second() -> None:
    """Of four cold ones: drawn 0 and 2, 0 wins, then the second of the two left."""
    pool = table(*(row(f"{each}:1") for each in "abcd"))
    choice = pick(pool, 0, given(0.0, 0.5, 0.0, 0.5))
    assert choice is not None
    assert choice.row.target == "a:1"
    assert [each.target for each in choice.alternates] == ["c:1", "d:1"]


def test_alternates_are_cold_ones_before_others() -> None:
    """A blocked target is named last."""
    pool = table(row("a:1"), row("b:1", outstanding=1e6), row("c:1"))
    for seed in range(20):
        choice = pick(pool, 0, seeded(seed))
        assert choice is not None
        assert [each.target for each in choice.alternates][1] == "b:1"


def test_filtered_targets_are_alternates_at_last() -> None:
    """A target short of KV room is better to retry at than none."""
    choice = pick(table(row("a:1"), row("full:1", room=0.0)), 100)
    assert choice is not None
    assert [each.target for each in choice.alternates] == ["full:1"]


def test_three_choices_let_each_meet_the_best_so_far() -> None:
    """With d = 3 the best of three far apart always wins in a pool of three."""
    pool = table(*(row(f"{each}:1", health=float(each)) for each in (60, 75, 90)), choices=3)
    assert set(picked(pool, 200, 0)) == {"90:1"}


def test_more_choices_than_targets_are_all_of_them() -> None:
    """A pool smaller than the number of choices is no mistake."""
    pool = table(row("a:1", health=60.0), row("b:1", health=90.0), choices=9)
    assert set(picked(pool, 50, 0)) == {"b:1"}


def test_all_choices_take_the_lowest_cost() -> None:
    """``all`` is the argmin, without a draw."""
    busy = [row(f"{each}:1", outstanding=100.0) for each in "ac"]
    pool = table(busy[0], row("b:1"), busy[1], choices=0)
    choice = pick(pool, 0, given(0.9))
    assert choice is not None
    assert (choice.row.target, choice.reason) == ("b:1", "all")


def test_equal_costs_are_drawn() -> None:
    """Of equally cheap ones none is always first: N=400, seed 1, each 25 ± 7 %."""
    shares = picked(table(*(row(f"{each}:1") for each in "abcd"), choices=0), 400)
    assert all(72 <= shares.count(f"{each}:1") <= 128 for each in "abcd")


def test_key_wins_while_its_target_is_cold() -> None:
    """The same session goes to the same target."""
    pool = table(*(row(f"t{number}:1") for number in range(20)))
    assert len(set(picked(pool, 50, key="session-1"))) == 1


def test_key_gives_way_when_its_target_is_not_cold() -> None:
    """Affinity never builds a hot spot."""
    pool = table(*(row(f"t{number}:1") for number in range(4)))
    preferred = pool.preferred("session-1", frozenset())
    assert preferred is not None
    preferred.load.see_strangers(1_000_000)
    assert preferred.target not in picked(pool, 100, key="session-1")


def test_key_of_a_tried_target_moves_on() -> None:
    """A retry with the same key has one next target, not any."""
    pool = table(*(row(f"t{number}:1") for number in range(4)))
    first = picked(pool, 1, key="session-1")[0]
    second = set(picked(pool, 50, key="session-1", exclude=frozenset({first})))
    assert len(second) == 1
    assert first not in second


def test_adapter_is_preferred_within_the_cold_set() -> None:
    """Who runs the adapter gets its requests."""
    pool = table(row("a:1"), row("b:1", loras=["sql"]), row("c:1"))
    assert set(picked(pool, 50, lora="sql")) == {"b:1"}


def test_adapter_gives_way_when_its_target_is_not_cold() -> None:
    """Loading an adapter is cheaper than waiting behind a long prompt."""
    pool = table(row("a:1"), row("b:1", loras=["sql"], outstanding=1e6), row("c:1"))
    assert "b:1" not in picked(pool, 50, lora="sql")


def test_probe_names_the_winner_of_the_rule_as_first_alternate() -> None:
    """If the probed target fails, the request goes where it would have gone."""
    choice = pick(table(row("a:1"), row("b:1")))
    assert choice is not None
    probe = probing(row("sick:1"), choice)
    assert (probe.row.target, probe.reason) == ("sick:1", "probe")
    assert list(probe.alternates) == [choice.row, choice.alternates[0]]


FIELDS = st.fixed_dictionaries(
    {
        "health": st.floats(0.0, 100.0),
        "admit": st.sampled_from([0.0, 0.3, 1.0]),
        "cooling": st.booleans(),
        "room": st.sampled_from([-1.0, 2000.0, math.inf]),
        "outstanding": st.floats(0.0, 1e6),
        "in_flight": st.integers(0, 300),
        "speed": st.floats(300.0, 1e5),
        "loras": st.sampled_from([[], ["x"]]),
    }
)


@hypothesis_given(
    st.lists(FIELDS, min_size=1, max_size=14),
    st.sampled_from([0, 2, 3, 20]),
    st.integers(0, 20_000),
    st.sets(st.integers(0, 14)),
    st.sampled_from(["", "k"]),
    st.sampled_from(["", "x"]),
    st.integers(0, 2**32),
)
def test_every_pick_names_different_targets_that_were_not_tried(
    targets, choices, tokens, tried, key, lora, seed
) -> None:
    """Target and alternates are of the pool, distinct, not excluded; as many as there are."""
    rows = [row(f"t{number}:1", **fields) for number, fields in enumerate(targets)]
    out = frozenset(f"t{number}:1" for number in tried)
    choice = pick(
        table(*rows, choices=choices), tokens, seeded(seed), exclude=out, key=key, lora=lora
    )
    left = {each.target for each in rows} - out
    named = [] if choice is None else [each.target for each in (choice.row, *choice.alternates)]
    assert len(named) == len(set(named)) == min(len(left), 3)
    assert set(named) <= left


@hypothesis_given(st.lists(FIELDS, min_size=1, max_size=14), st.integers(0, 2**32))
def test_answer_depends_on_nothing_but_its_arguments(targets, seed) -> None:
    """The same targets, request and draws give the same choice, and no draw is wasted."""
    rows = [row(f"t{number}:1", **fields) for number, fields in enumerate(targets)]
    draws = seeded(seed)
    first = pick(table(*rows), 500, draws)
    again = pick(table(*rows), 500, given(*draws.taken))
    assert first is not None
    assert again is not None
    assert (first.row, list(first.alternates)) == (again.row, list(again.alternates))
