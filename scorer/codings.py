"""What a client accepts, as its headers say, and answers compressed for those who want it."""

import gzip

SMALLEST = 1024
"""Bytes from which on a body is compressed: a smaller one fits in a packet as it is."""
LEVEL = 4
"""A page of 500 targets shrinks to a twentieth at this level; higher ones gain little."""


def packed(body: bytes) -> bytes:
    """Return a body compressed by gzip; the same body gives the same bytes."""
    return gzip.compress(body, LEVEL, mtime=0)


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an ``Accept-Encoding`` header names gzip and does not rule it out."""
    for item in accept_encoding.lower().split(","):
        coding, _, weight = item.partition(";")
        if coding.strip() == "gzip":
            return not refused(weight.partition("=")[2].strip())
    return False


def refused(quality: str) -> bool:
    """Return whether a ``q`` value of 0 rules its item out."""
    return quality.startswith("0") and not quality.strip("0.")
