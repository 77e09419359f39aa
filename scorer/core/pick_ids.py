"""Names of picks: opaque to gateways, and enough for a replica that did not make the pick.

``1fKx0vY2aB3kQ9_zA1f4`` is the version (1), the work class (f: the binary order of the
prompt's tokens), the tag of pool and target (Kx0vY2aB), the process that made the pick
(3kQ9_zA) and its number (1f4, hexadecimal).
"""

import base64
import hashlib
from functools import lru_cache
from typing import NamedTuple

VERSION = "1"
TAG = slice(2, 10)
TAG_BYTES = 6
LONGEST = 32
CLASSES = "abcdefghijklmnopqrstuvwxyz"
"""A letter for each power of two that a prompt's tokens may have."""


class Named(NamedTuple):
    """What a pick id says: the tag of its target, and about how many tokens the prompt had."""

    tag: str
    tokens: int


@lru_cache(8192)
def tag_of(pool: str, target: str) -> str:
    """Return the eight characters that stand for a target in every replica."""
    name = f"{pool}\0{target}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(name, digest_size=TAG_BYTES).digest()
    return base64.urlsafe_b64encode(digest).decode()


def read(pick_id: str) -> Named | None:
    """Return what a pick id says, None for one that no scorer made."""
    if not pick_id.startswith(VERSION) or not TAG.stop < len(pick_id) <= LONGEST:
        return None
    order = CLASSES.find(pick_id[1])
    if order < 0:
        return None
    return Named(pick_id[TAG], 3 * 2**order // 4)
