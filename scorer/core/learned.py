"""What picks have learned of targets and pools, as plain JSON types, and back.

How fast a target works prompts off and how long a pool's prompts are changes slowly, so it
outlives a restart by a day. How the gateway's feedback goes is what was seen, and is
believed for a minute as scores are.
"""

from collections import deque
from typing import Any

from scorer.core.feedback_mode import BUCKET, BUCKETS, FeedbackMode
from scorer.core.health import BELIEVED_FOR
from scorer.core.load import TargetLoad
from scorer.core.plain import (
    NotPlainError,
    fields,
    made,
    number,
    optional,
    row,
    several,
    step,
    whole,
)
from scorer.core.prefill import HIGHEST, LOWEST
from scorer.core.prompts import KNOWN, MOST_TOKENS, Prompts

LEARNED_FOR = 86_400.0
"""Seconds for which speeds and lengths of prompts are believed."""
MOST_BUCKETS = 100 * BUCKETS
_COUNT = whole(0, 10**9)


def _buckets(rows: list[tuple[int, ...]]) -> deque[list[int]]:
    numbers = [each[0] for each in rows]
    nested = all(each[1] >= each[2] >= each[3] >= each[4] for each in rows)
    if sorted(set(numbers)) != numbers or not nested:
        raise NotPlainError("must be buckets in their order, each count within the one before")
    return deque(list(each) for each in rows)


_LOAD = fields(rate=optional(number(LOWEST, HIGHEST)), lost_in_row=_COUNT)
_PROMPTS = fields(mean=whole(0, MOST_TOKENS), known=whole(0, KNOWN))
_MODE = fields(
    _buckets=made(
        several(row(step(BUCKET), _COUNT, _COUNT, _COUNT, _COUNT), MOST_BUCKETS), _buckets
    )
)


def remember_load(load: TargetLoad | None) -> dict[str, Any]:
    """Return what survives of a target's load; leases do not."""
    if load is None:
        return {"rate": None, "lost_in_row": 0}
    return {"rate": load.rate if load.taught else None, "lost_in_row": load.lost_in_row}


def recall_load(data: object, load: TargetLoad, elapsed: float) -> bool:
    """Give a load what was remembered ``elapsed`` seconds ago; return whether it was understood."""
    try:
        values = _LOAD.read(data, 0.0)
    except NotPlainError:
        return False
    if values["rate"] is not None and elapsed <= LEARNED_FOR:
        load.rate, load.taught = values["rate"], True
        load.use(load.rate, told=load.told)
    if 0.0 <= elapsed <= BELIEVED_FOR:
        load.lost_in_row = values["lost_in_row"]
    return True


def remember_pool(prompts: Prompts, mode: FeedbackMode, now: float) -> dict[str, Any]:
    """Return what survives of a pool's prompts and feedback."""
    return {"prompts": _PROMPTS.write(prompts, now), "feedback": _MODE.write(mode, now)}


def recall_pool(
    data: object, prompts: Prompts, mode: FeedbackMode, now: float, elapsed: float
) -> bool:
    """Give a pool what was remembered ``elapsed`` seconds ago; return whether it was understood."""
    both = data if isinstance(data, dict) and data.keys() == {"prompts", "feedback"} else {}
    try:
        lengths = _PROMPTS.read(both.get("prompts"), now)
        buckets = _MODE.read(both.get("feedback"), now - max(0.0, elapsed))
    except NotPlainError:
        return False
    if elapsed <= LEARNED_FOR:
        prompts.recall(**lengths)
    if 0.0 <= elapsed <= BELIEVED_FOR:
        for name, value in buckets.items():
            setattr(mode, name, value)
        mode.refresh(now)
    return True
