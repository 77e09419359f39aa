"""The closed sets of words, and numbers, as people read them on the status page."""

from scorer.core.vocabulary import Cause, Gap, Reason, ScrapeFailure

REASONS = {
    Reason.NONE: "",
    Reason.NOT_SCORED: "waiting for two good scrapes",
    Reason.FIRST_SEEN: "first seen, ramping up",
    Reason.RESTARTED: "engine restarted, ramping up",
    Reason.WOKE_UP: "woke from sleep, ramping up",
    Reason.RECOVERED: "reachable again, ramping up",
    Reason.LOW_SCORE: "low score",
    Reason.BLIND: "neither TTFT nor queue can be read",
    Reason.SIGNAL_LOST: "a signal can no longer be read",
    Reason.MANUAL: "by an operator",
    Reason.DISCOVERY: "discovery says that it is going away",
    Reason.ENGINE_SATURATED: "engine says that it is full",
    Reason.ENGINE_FAULT: "requests keep failing",
    Reason.LOADED: "model loaded, ramping up",
    Reason.FAILING: "most requests fail, only probes go there",
    Reason.FROZEN: "has work and does not move, only probes go there",
    Reason.STUCK: "says idle and answers nothing, only probes go there",
    Reason.LOADING: "model is loading",
    Reason.ENGINE_DRAINING: "refuses new requests while it finishes others",
    Reason.ASLEEP: "engine is asleep",
    Reason.SCRAPES_FAILED: "scrapes keep failing",
    Reason.CONNECTION_REFUSED: "refuses connections",
}
CAUSES = {
    Cause.TTFT: "TTFT",
    Cause.ERRORS: "errors",
    Cause.QUEUE: "queue",
    Cause.KV_CACHE: "KV cache",
    Cause.SATURATION: "saturation",
    Cause.CAP: "cap",
    Cause.WARMUP: "warm-up",
}
GAPS = {
    Gap.NOT_SCRAPED: "no good scrape yet",
    Gap.FAMILY_ABSENT: "not on the engine's page",
    Gap.NO_SAMPLES: "on the engine's page, without a sample",
    Gap.NOT_A_NUMBER: "the engine says NaN or infinity",
    Gap.NEGATIVE: "the engine says a negative number",
    Gap.OUT_OF_RANGE: "the engine says a ratio above 1",
    Gap.NO_MAPPING: "the page matches no known engine",
    Gap.NOT_OFFERED: "this engine does not offer it",
    Gap.OTHER_ENGINE: "the page of another engine than configured",
    Gap.IDLE: "the engine has nothing to say while idle",
    Gap.DRAINED: "another reader took the records",
    Gap.QUERY_FAILED: "Prometheus did not answer the query",
}
FAILURES = {
    ScrapeFailure.TIMEOUT: "timed out",
    ScrapeFailure.CONNECT: "no connection",
    ScrapeFailure.TLS: "TLS failed",
    ScrapeFailure.HTTP_STATUS: "bad HTTP status",
    ScrapeFailure.TOO_LARGE: "page too large",
    ScrapeFailure.TRUNCATED: "page cut short",
    ScrapeFailure.PARSE: "page malformed",
    ScrapeFailure.EMPTY: "page empty",
    ScrapeFailure.WRONG_CONTENT: "not a metrics page",
    ScrapeFailure.AUTH: "not authorized",
}

MINUTE, HOUR, DAY = 60, 3600, 86400
MILLION = 1_000_000


def span(seconds: float) -> str:
    """Return a duration as its one or two largest units: ``8 s``, ``3 min``, ``2 h 5 min``."""
    if seconds < MINUTE:
        return f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min"
    if seconds < DAY:
        return f"{seconds // HOUR:.0f} h {seconds % HOUR // MINUTE:.0f} min"
    return f"{seconds // DAY:.0f} d {seconds % DAY // HOUR:.0f} h"


def latency(seconds: float) -> str:
    """Return a short time: whole milliseconds below a second, else two digits."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def percent(ratio: float) -> str:
    """Return a ratio in percent, with a decimal where that is all there is to see."""
    return f"{ratio:.1%}" if 0 < ratio < 0.1 else f"{ratio:.0%}"


def count(value: float) -> str:
    """Return a whole number with thin spaces between thousands, in millions from a million on."""
    if value >= MILLION:
        return f"{value / MILLION:.2f} M"
    return f"{value:,.0f}".replace(",", "\u202f")
