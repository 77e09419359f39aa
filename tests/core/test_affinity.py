"""Rendezvous hashing in constant time."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.affinity import PRIME, Ring, mixed, point


def names(count: int) -> list[str]:
    return [f"10.0.{number // 250}.{number % 250}:8000" for number in range(count)]


@pytest.mark.parametrize(
    ("text", "hashed"), [("", 1), ("a", 353), ("10.0.0.1:8000", 21_496_156), ("é", 115_625)]
)
def test_hash_is_arithmetic_that_other_languages_repeat(text: str, hashed: int) -> None:
    """Bytes after a 1 as a number, modulo a prime: computed by hand, byte by byte."""
    value = 1
    for byte in text.encode():
        value = (value * 256 + byte) % PRIME
    assert point(text) == value == hashed


@given(st.text(max_size=30), st.text(max_size=30))
def test_hashes_fit_a_double(one: str, other: str) -> None:
    """Every intermediate product is exact in a 53-bit float."""
    assert 0 <= mixed(point(one), point(other)) < PRIME
    assert PRIME**2 + PRIME < 2**53


@pytest.mark.parametrize("size", [2, 4, 8])
def test_small_pool_is_shared_evenly(size: int) -> None:
    """Up to eight targets, 2,000 keys each: every target has its share ± 15 %."""
    ring = Ring(names(size))
    shares = Counter(ring.preferred(f"session-{number}") for number in range(2000 * size))
    assert all(1700 <= shares[index] <= 2300 for index in range(size))


def test_large_pool_leaves_nobody_out() -> None:
    """100 targets, 20,000 keys: none has more than 2.5 times its share or under a quarter."""
    ring = Ring(names(100))
    shares = Counter(ring.preferred(f"session-{number}") for number in range(20_000))
    assert all(50 <= shares[index] <= 500 for index in range(100))


@pytest.mark.parametrize("size", [8, 9, 100])
def test_departure_moves_few_keys(size: int) -> None:
    """5,000 keys, one target leaves: at most 2.5 / n of the keys move."""
    before = names(size)
    after = before[:3] + before[4:]
    old, new = Ring(before), Ring(after)
    keys = [f"session-{number}" for number in range(5000)]
    moved = sum(before[old.preferred(key)] != after[new.preferred(key)] for key in keys)
    assert moved <= 2.5 / size * len(keys)


def test_order_of_the_targets_does_not_matter() -> None:
    """Replicas that list targets differently prefer the same one."""
    one, other = names(30), names(30)[::-1]
    for number in range(200):
        key = f"session-{number}"
        assert one[Ring(one).preferred(key)] == other[Ring(other).preferred(key)]


def test_targets_left_out_do_not_count() -> None:
    """A retry prefers the second best; with the whole window out there is nobody."""
    targets = names(4)
    ring = Ring(targets)
    first = targets[ring.preferred("k")]
    second = targets[ring.preferred("k", {first})]
    assert first != second
    assert ring.preferred("k", set(targets)) is None
