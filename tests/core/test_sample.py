"""The sample of a pick: who may be compared."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import strategies as st

from scorer.core.sample import Ask, Draws, sampled
from scorer.core.table import PickTable, room_of
from tests.core.picking import given, row, seeded, table


def names(pool: PickTable, tokens: int = 100, draws: Draws | None = None, **ask: object):
    """Return the targets of one sample, and the filter that had to be dropped."""
    sample, relaxed, _ = sampled(pool, Ask(tokens, **ask), tokens, draws or seeded())
    return [each.target for each in sample], relaxed


def pool_of(size: int, **fields: object) -> PickTable:
    return table(*(row(f"t{number}:1", **fields) for number in range(size)))


def test_small_pool_is_compared_whole() -> None:
    """Up to eight targets no draw is needed."""
    assert names(pool_of(8), draws=given()) == ([f"t{number}:1" for number in range(8)], "")


def test_large_pool_is_sampled_by_two_draws() -> None:
    """Of 20, runs of four that start at 10 and at 10 + 4 + 6 = 20, which is 0."""
    found, _ = names(pool_of(20), draws=given(0.5, 0.5))
    assert found == [f"t{number}:1" for number in (10, 11, 12, 13, 0, 1, 2, 3)]


def test_runs_go_on_at_the_start() -> None:
    """Of 9, a run that starts at the last one continues with the first."""
    found, _ = names(pool_of(9), draws=given(0.9, 0.0))
    assert found == [f"t{number}:1" for number in (8, 0, 1, 2, 3, 4, 5, 6)]


@hypothesis_given(st.integers(9, 60), st.integers(0, 2**32), st.booleans())
def test_sample_has_eight_different_targets(size: int, seed: int, looked_at: bool) -> None:
    """Whatever the draws, and whether or not each target must be looked at."""
    pool = pool_of(size)
    pool.warming = looked_at
    found, _ = names(pool, draws=seeded(seed))
    assert len(set(found)) == len(found) == 8


def test_every_target_is_as_likely() -> None:
    """20 targets, N=10,000 samples, seed 1: each in 40 ± 4 % of them."""
    pool, draws = pool_of(20), seeded(1)
    shares = Counter(name for _ in range(10_000) for name in names(pool, draws=draws)[0])
    assert len(shares) == 20
    assert all(3600 <= count <= 4400 for count in shares.values())


def test_excluded_targets_are_replaced() -> None:
    """A request that tried eight of twenty gets eight others."""
    tried = frozenset(f"t{number}:1" for number in range(8))
    for seed in range(50):
        found, _ = names(pool_of(20), draws=seeded(seed), exclude=tried)
        assert len(found) == 8
        assert not tried & set(found)


@hypothesis_given(st.integers(1, 60), st.data())
def test_whoever_is_left_is_found(size: int, data: st.DataObject) -> None:
    """However much of a pool is excluded, those left are in the sample."""
    left = data.draw(st.integers(1, min(size, 8)))
    kept = {f"t{number}:1" for number in random.Random(size).sample(range(size), left)}
    tried = frozenset(f"t{number}:1" for number in range(size)) - kept
    assert set(names(pool_of(size), exclude=tried)[0]) == kept


def test_all_excluded_leaves_nobody() -> None:
    """There is nothing to compare."""
    tried = frozenset({"t0:1", "t1:1"})
    assert sampled(pool_of(2), Ask(1, tried), 1, seeded())[0] == []


def test_others_of_the_pool_are_the_last_resort() -> None:
    """When every candidate was tried, those that are out of the draw are used, in panic."""
    pool = table(row("a:1"), rest=[row("b:1")])
    sample, _, panic = sampled(pool, Ask(1, frozenset({"a:1"})), 1, seeded())
    assert ([each.target for each in sample], panic) == (["b:1"], True)


def test_long_prompts_skip_cooldown() -> None:
    """A target in saturation cooldown takes short prompts only."""
    pool = table(row("a:1", cooling=True), row("b:1"), row("c:1"))
    assert names(pool, 4095) == (["a:1", "b:1", "c:1"], "")
    assert names(pool, 4096) == (["b:1", "c:1"], "")


def test_cooldown_gives_way_when_nothing_else_is_left() -> None:
    """With every target cooling a long prompt still goes somewhere."""
    pool = table(row("a:1", cooling=True), row("b:1", cooling=True))
    assert names(pool, 4096) == (["a:1", "b:1"], "cooldown")


def test_guard_skips_targets_short_of_room() -> None:
    """What was picked since the scrape and this prompt must fit."""
    busy = row("a:1", room=1000.0)
    busy.load.fresh = 600
    pool = table(busy, row("b:1"))
    assert names(pool, 400) == (["a:1", "b:1"], "")
    assert names(pool, 401) == (["b:1"], "")


@pytest.mark.parametrize(
    ("used", "room"), [(0.0, 850.0), (0.35, 500.0), (0.9, -50.0), (None, 850.0)]
)
def test_room_of_a_cache(used: float | None, room: float) -> None:
    """A usage that is not known, or no more, never leaves more room than an empty cache."""
    assert room_of(used, 1000.0, 0.85) == pytest.approx(room)


def test_without_a_capacity_there_is_no_guard() -> None:
    """However full it is said to be."""
    assert room_of(0.99, None, 0.85) == room_of(None, None, 0.85) == math.inf


def test_guard_gives_way_first() -> None:
    """A full target that takes long prompts is better than one in cooldown."""
    pool = table(row("full:1", room=0.0), row("cool:1", cooling=True))
    assert names(pool, 5000) == (["full:1"], "kv_guard")


@pytest.mark.parametrize("size", [3, 9, 40])
def test_full_pool_is_sampled_without_a_search(size: int) -> None:
    """When no candidate has room, the sample is the same as one without the guard."""
    full, roomy = pool_of(size, room=50.0), pool_of(size)
    for seed in range(20):
        wanted = names(roomy, 100, seeded(seed))[0]
        assert names(full, 100, seeded(seed)) == (wanted, "kv_guard")


def test_warming_target_enters_with_its_probability() -> None:
    """A target at 30 % of its ramp is in 30 ± 3 % of N=5,000 samples, seed 1."""
    pool, draws = table(row("warm:1", admit=0.3), row("b:1")), seeded(1)
    entered = sum("warm:1" in names(pool, draws=draws)[0] for _ in range(5000))
    assert 1350 <= entered <= 1650


def test_warm_up_gives_way_last() -> None:
    """A pool that only just starts is used nevertheless."""
    assert names(table(row("a:1", admit=0.0), row("b:1", admit=0.0))) == (
        ["a:1", "b:1"],
        "warmup",
    )


def test_targets_left_out_are_replaced_by_those_that_follow() -> None:
    """Of 20 the odd ones are full: eight even ones are found."""
    pool = table(*(row(f"t{n}:1", room=0.0 if n % 2 else math.inf) for n in range(20)))
    for seed in range(50):
        found, relaxed = names(pool, draws=seeded(seed))
        assert (len(found), relaxed) == (8, "")
        assert all(int(name[1:-2]) % 2 == 0 for name in found)


def test_search_ends_at_24_targets() -> None:
    """In a large pool where everybody is full the guard is dropped without looking at all."""
    found, relaxed = names(pool_of(1000, room=0.0))
    assert (len(found), relaxed) == (8, "kv_guard")


@pytest.mark.parametrize("size", [9, 200])
def test_preferred_target_is_in_every_sample(size: int) -> None:
    """A key finds its target however large the pool."""
    pool = pool_of(size)
    preferred = pool.preferred("session-1", frozenset())
    assert preferred is not None
    for seed in range(50):
        assert preferred.target in names(pool, draws=seeded(seed), key="session-1")[0]


def test_two_that_run_the_adapter_are_in_every_sample() -> None:
    """Of a hundred targets three run it: at least two of them are compared."""
    runs = {"t3:1", "t50:1", "t99:1"}
    pool = table(*(row(f"t{n}:1", loras=["sql"] if f"t{n}:1" in runs else []) for n in range(100)))
    for seed in range(50):
        found, _ = names(pool, draws=seeded(seed), lora="sql")
        assert len(found) == 8
        assert len(runs & set(found)) >= 2
