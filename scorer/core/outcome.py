"""Outcome of a request as the gateway tells it: what happened, and whose fault it was.

Three verdicts are kept apart: the target failed (``engine_fault``), it was full
(``engine_saturated``), or it had no part in it. Only the first two may ever cost a
target points.
"""

from enum import StrEnum
from typing import NamedTuple


class OutcomeClass(StrEnum):
    """Whose fault an outcome is; label value of ``scorer_feedback_total``."""

    SUCCESS = "success"
    ENGINE_SATURATED = "engine_saturated"
    """The engine refused because it is full: no failure, but a reason to spare it."""
    CLIENT_RATE_LIMIT = "client_rate_limit"
    """A limit of the client's own key, account or tenant."""
    CLIENT_ERROR = "client_error"
    CLIENT_ABORT = "client_abort"
    """The client left, or its own deadline passed, before the first token."""
    ENGINE_FAULT = "engine_fault"
    LOADING = "loading"
    """The engine says that its model is not served yet."""
    GATEWAY_FAULT = "gateway_fault"
    """The gateway's own answer: its limits, its queue, no upstream to ask."""
    UNKNOWN = "unknown"
    """A refusal that does not say why."""


class Outcome(NamedTuple):
    """One outcome of one target. Times are monotonic seconds, durations seconds.

    ``reason`` is the name of the rule that decided. ``picked_at`` is when the request
    was picked, None without a lease. ``weight`` is the share 0-1 of a success or
    failure that it counts as. ``ttft`` is set for successes only; ``duration`` of a
    ``client_abort`` is a lower bound of the time to first token unless
    ``had_first_token``. ``retry_after`` counts from ``at``. ``waiting`` (requests) and
    ``kv_cache`` (ratio 0-1) are what the engine said of itself with the answer.
    """

    outcome: OutcomeClass
    reason: str
    at: float
    picked_at: float | None = None
    weight: float = 1.0
    ttft: float | None = None
    prompt_tokens: int | None = None
    duration: float | None = None
    had_first_token: bool = False
    retry_after: float | None = None
    waiting: float | None = None
    kv_cache: float | None = None


class LastError(NamedTuple):
    """Something that went wrong with a target, remembered for whoever asks why.

    ``at`` is monotonic seconds. ``source`` is who told: a scrape, feedback of a gateway,
    or the counters of the engine or a gateway. ``kind`` is an :class:`OutcomeClass` or
    ``scrape_failed``; ``reason`` the rule that decided, the way the scrape failed, or
    ``counted``. ``times`` is how many it stands for: counters tell several at once, and
    equal failures of scrapes in a row are one error.
    """

    at: float
    source: str
    kind: str
    reason: str
    detail: str = ""
    times: float = 1.0
