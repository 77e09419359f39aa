"""What the picker knows of a target between two scrapes, as far as judging needs it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outstanding:
    """Picks under way on a target.

    ``requests`` are picks that the engine's numbers may not contain yet, at least; with any,
    the target is not idle. ``oldest_wait`` is the age in seconds of the oldest one that
    waits for its first token, known in feedback mode only, and 0 otherwise: a lower
    bound of the TTFT. ``largest_prefill`` is the estimated prefill of the largest
    prompt, in seconds. ``lost_in_row`` counts leases that ended without any word.
    """

    requests: int = 0
    oldest_wait: float = 0.0
    largest_prefill: float = 0.0
    lost_in_row: int = 0


NOTHING = Outstanding()
