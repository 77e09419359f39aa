"""The closed sets of words shared by code, API, metrics, logs and pages.

Every enum here is a closed set on purpose: its members become label values, so
their number bounds the number of series.
"""

from enum import StrEnum


class State(StrEnum):
    """State of a target; exactly one at a time, precedence in ``docs/scoring.md``."""

    HEALTHY = "healthy"
    WARMUP = "warmup"
    DEGRADED = "degraded"
    COOLDOWN = "cooldown"
    DRAINING = "draining"
    UNREACHABLE = "unreachable"


class SignalName(StrEnum):
    """A named value that the score rests on."""

    TTFT = "ttft"
    ERRORS = "errors"
    QUEUE = "queue"
    KV_CACHE = "kv_cache"


class Cause(StrEnum):
    """What a target loses points to; 100 minus their sum is the score."""

    TTFT = "ttft"
    ERRORS = "errors"
    QUEUE = "queue"
    KV_CACHE = "kv_cache"
    SATURATION = "saturation"
    CAP = "cap"
    WARMUP = "warmup"


class Engine(StrEnum):
    """Engine kind of a target."""

    VLLM = "vllm"
    TENSORRT_LLM = "tensorrt_llm"
    TRITON = "triton"
    SGLANG = "sglang"
    TGI = "tgi"
    LLAMACPP = "llamacpp"
    LMDEPLOY = "lmdeploy"
    NIM = "nim"
    OTHER = "other"
    """Described by a mapping of the user's own."""


class Gap(StrEnum):
    """Why a signal cannot be read. Missing is not zero: a gap is never a value."""

    NOT_SCRAPED = "not_scraped"
    """No good scrape of the target yet."""
    FAMILY_ABSENT = "family_absent"
    """The page has none of the metric families that carry the signal."""
    NO_SAMPLES = "no_samples"
    """The family is declared (HELP/TYPE) but has no sample yet."""
    NOT_A_NUMBER = "not_a_number"
    """The sample is NaN or infinite."""
    NEGATIVE = "negative"
    """The sample is below zero; engines print -1 for unknown."""
    OUT_OF_RANGE = "out_of_range"
    """A ratio above 1.05: a percentage, or not a ratio at all."""
    NO_MAPPING = "no_mapping"
    """The page matches no known engine."""
    NOT_OFFERED = "not_offered"
    """The engine has no such metric in any configuration."""
    OTHER_ENGINE = "other_engine"
    """The page is of another engine than the one that the pool is configured for."""
    IDLE = "idle"
    """The engine has had nothing to report yet."""
    DRAINED = "drained"
    """Somebody else reads the engine's records, and reading takes them away."""
    QUERY_FAILED = "query_failed"
    """Prometheus does not answer the query for the signal."""


class ScrapeFailure(StrEnum):
    """Why a scrape failed; label value of ``scorer_scrape_failures_total``."""

    TIMEOUT = "timeout"
    CONNECT = "connect"
    TLS = "tls"
    HTTP_STATUS = "http_status"
    TOO_LARGE = "too_large"
    TRUNCATED = "truncated"
    PARSE = "parse"
    EMPTY = "empty"
    WRONG_CONTENT = "wrong_content"
    AUTH = "auth"
    LOCAL = "local"
    """The daemon has run out of files or memory: no fault of the target."""


class Verb(StrEnum):
    """What an operator may order about a target; the last part of a URL, and a command."""

    DRAIN = "drain"
    """Take it out: no pick, until the drain ends or is taken back."""
    UNDRAIN = "undrain"
    COOLDOWN = "cooldown"
    """Keep long prompts away from it for a while."""
    END_COOLDOWN = "end-cooldown"


class Reason(StrEnum):
    """Why a target is in its state (``state_reason`` in API, page and logs)."""

    NONE = "none"
    NOT_SCORED = "not_scored"
    """Fewer than two good scrapes since it is known: nothing to judge yet."""
    MANUAL = "manual"
    """Drained or cooled down by hand."""
    DISCOVERY = "discovery"
    """Discovery says that it is going away."""
    ENGINE_SATURATED = "engine_saturated"
    ENGINE_FAULT = "engine_fault"
    FIRST_SEEN = "first_seen"
    RESTARTED = "restarted"
    WOKE_UP = "woke_up"
    LOADED = "loaded"
    RECOVERED = "recovered"
    """Back from ``unreachable`` by a good scrape."""
    LOW_SCORE = "low_score"
    BLIND = "blind"
    """Neither ttft nor queue can be read."""
    SIGNAL_LOST = "signal_lost"
    """The page had a signal and has it no more: not observed, which must not look idle."""
    FAILING = "failing"
    """Most requests failed; only probes go there until one succeeds."""
    FROZEN = "frozen"
    """It has work and nothing moves; only probes go there."""
    STUCK = "stuck"
    """It says that it is idle and answers nothing; only probes go there."""
    ASLEEP = "asleep"
    LOADING = "loading"
    ENGINE_DRAINING = "engine_draining"
    """It refuses new requests while it finishes those it has."""
    SCRAPES_FAILED = "scrapes_failed"
    """Three scrapes in a row failed: not observed."""
    CONNECTION_REFUSED = "connection_refused"
    """Two connections in a row were refused: observed dead."""
