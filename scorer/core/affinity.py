"""Affinity: which target a key prefers, by rendezvous hashing in constant time.

Every target has a point on a ring, and a key looks at the :data:`WINDOW` targets that
follow its own point; among those the highest hash of key and target wins. Up to
:data:`WINDOW` targets this is plain rendezvous hashing. When a target leaves, only keys
that had it in their window can move: about twice as many as were its own.

Hashes are arithmetic on integers below 2^53, so that Lua computes the same with floats.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence

PRIME = 67_108_859
"""The largest prime below 2^26: products of two residues are exact in a double."""
WINDOW = 8


def point(text: str) -> int:
    """Return the hash of a text: its UTF-8 bytes after a 1 as a number, modulo the prime."""
    return int.from_bytes(b"\x01" + text.encode("utf-8", "surrogatepass"), "big") % PRIME


def mixed(one: int, other: int) -> int:
    """Return a hash of two points that says nothing of either."""
    value = (one + other) % PRIME
    value = (value * value + one) % PRIME
    value = (value * value + other) % PRIME
    return (value * value + one) % PRIME


class Ring:
    """Targets by their place on the ring."""

    __slots__ = ("_order", "_places", "_points", "_targets")

    def __init__(self, targets: Sequence[str]) -> None:
        """Place each target; the answers are indexes of ``targets``."""
        points = [point(target) for target in targets]
        placed = sorted(
            (mixed(each, 0), target, index)
            for index, (each, target) in enumerate(zip(points, targets, strict=True))
        )
        self._places = [place for place, _, _ in placed]
        self._order = [index for _, _, index in placed]
        self._points = points
        self._targets = targets

    def preferred(self, key: str, out: Collection[str] = ()) -> int | None:
        """Return the index of the target in the window of ``key`` that it prefers.

        Targets in ``out`` do not count; None when the whole window is out.
        """
        order, points, own = self._order, self._points, point(key)
        size = len(order)
        start = bisect_left(self._places, mixed(own, 0))
        best, highest = None, -1
        for step in range(start, start + min(WINDOW, size)):
            index = order[step % size]
            if out and self._targets[index] in out:
                continue
            value = mixed(own, points[index])
            if value > highest or (value == highest and best is not None and index < best):
                best, highest = index, value
        return best
