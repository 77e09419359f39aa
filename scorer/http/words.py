"""The closed sets of words, and numbers, as people read them on the status page."""

from collections.abc import Callable, Mapping
from typing import Any

from scorer.core.vocabulary import Cause, Gap, Reason, ScrapeFailure, SignalName, Verb

REASONS = {
    Reason.NONE: "",
    Reason.NOT_SCORED: "waiting for two good scrapes",
    Reason.FIRST_SEEN: "first seen, ramping up",
    Reason.RESTARTED: "engine restarted, ramping up",
    Reason.WOKE_UP: "woke from sleep, ramping up",
    Reason.RECOVERED: "reachable again, ramping up",
    Reason.LOW_SCORE: "low score",
    Reason.BLIND: "no page tells TTFT or queue",
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
ENDS = {Verb.DRAIN: "drained until", Verb.COOLDOWN: "in cooldown until"}
"""What ends at the time that the answer to an order names; the other orders leave no end."""
ORDERS = {
    Verb.DRAIN: "Drain",
    Verb.UNDRAIN: "Undrain",
    Verb.COOLDOWN: "Cooldown",
    Verb.END_COOLDOWN: "End cooldown",
}
ORDER_TEXTS = {
    Verb.DRAIN: "No pick returns it, neither in panic nor as a probe. Requests under way finish.",
    Verb.UNDRAIN: "It may be picked again, unless discovery says that it is going away.",
    Verb.COOLDOWN: "Long prompts go elsewhere, and its weight is halved. It costs no points.",
    Verb.END_COOLDOWN: "Ends every cooldown of it, and the points that saturation still costs.",
}
UNSAID = {Verb.DRAIN: "empty: until it is taken back", Verb.COOLDOWN: "empty: 30s"}
"""What an order does whose duration is not said."""
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
    ScrapeFailure.LOCAL: "scorer out of resources",
}

COLUMNS = {
    "target": "Target",
    "state": "State",
    "score": "Score",
    "waiting": "Waiting",
    "running": "Running",
    "kv_cache": "KV cache",
    "ttft": "TTFT",
    "errors": "Errors",
    "picks": "Picks",
    "cooldowns": "Cooldowns",
    "scrape": "Last scrape",
}
PICK_REASONS = {
    "draw": "the better of two",
    "cold": "none other nearly as cheap",
    "key": "same key as before",
    "all": "the cheapest of all",
    "probe": "probe",
}

MINUTE, HOUR, DAY = 60, 3600, 86400
MILLION = 1_000_000


def said(table: Mapping[Any, str], word: str) -> str:
    """Return ``word`` as people read it; one that the table lacks, with blanks."""
    known = table.get(word)
    return str(word).replace("_", " ") if known is None else known


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


def rate(per_second: float | None) -> str:
    """Return a rate with two digits to look at, a dash when it is not known."""
    if per_second is None:
        return "–"
    if per_second >= 10:
        return f"{count(per_second)}/s"
    return f"{per_second:.1f}/s" if per_second >= 0.95 or not per_second else f"{per_second:.2g}/s"


def left(seconds: float) -> str:
    """Return how long something still takes, with a decimal while every second counts."""
    return f"{seconds:.1f} s" if seconds < 10 else span(seconds)


def seconds_value(seconds: float) -> str:
    """Return a time to first token; zero has no unit smaller than a second."""
    return latency(seconds) if seconds else "0 s"


VALUES: Mapping[SignalName, Callable[[float], str]] = {
    SignalName.TTFT: seconds_value,
    SignalName.ERRORS: percent,
    SignalName.QUEUE: count,
    SignalName.KV_CACHE: percent,
}
"""How the value of each signal is written."""


def curve(name: SignalName, shape: str, knee: float, ceiling: float) -> str:
    """Return a curve as its shape and the range in which it rises: ``linear, 80% to 100%``."""
    shown = VALUES[name]
    return f"{shape}, {shown(knee)} to {shown(ceiling)}"


def gain(points: float | None) -> str:
    """Return the points that a remedy gives: ``+12.5``, ``+0`` or that they are not known."""
    if points is None:
        return "not known"
    return f"+{points:.1f}" if points >= 0.05 else "+0"
