"""Short ways to write scrapes and targets in tests."""

from scorer.core.health import TargetHealth, TargetId
from scorer.core.params import ScoreParams
from scorer.core.samples import (
    EngineSamples,
    Histogram,
    Outcomes,
    Page,
    Reading,
    Scrape,
    ScrapeFailed,
)
from scorer.core.vocabulary import Engine, Gap, ScrapeFailure

TTFT = ("vllm:time_to_first_token_seconds", (("engine", "0"),))
TOKENS = ("vllm:generation_tokens_total", (("engine", "0"),))
FAILED = ("http_requests_total", (("status", "5xx"),))
SUCCEEDED = ("http_requests_total", (("status", "2xx"),))


def page(
    *,
    waiting: float | None = 0.0,
    running: float | None = 0.0,
    kv_cache: float | None = 0.1,
    ttft: tuple[float, float] | None = (0.0, 0.0),
    failures: float = 0.0,
    successes: float = 0.0,
    tokens: float = 0.0,
    start_time: float | None = 1000.0,
    asleep: bool | None = None,
) -> Page:
    """Return a good page; ``ttft`` is (observations, seconds) since the engine started."""
    histogram = (
        Histogram(gap=Gap.FAMILY_ABSENT)
        if ttft is None
        else Histogram(sums={TTFT: ttft[1]}, counts={TTFT: ttft[0]})
    )
    return Page(
        EngineSamples(
            engine=Engine.VLLM,
            mapping="vllm_v1",
            version="",
            running=_reading(running),
            waiting=_reading(waiting),
            kv_cache=_reading(kv_cache),
            ttft=histogram,
            outcomes=Outcomes(failures=({FAILED: failures},), successes={SUCCEEDED: successes}),
            progress={TOKENS: tokens},
            start_time=start_time,
            asleep=asleep,
        )
    )


def _reading(value: float | None) -> Reading:
    return Reading.missing(Gap.FAMILY_ABSENT) if value is None else Reading(value)


def scrape(result: Page | ScrapeFailed, at: float, *, picks: int = 0) -> Scrape:
    """Return a scrape that took 10 ms and ended ``at``."""
    return Scrape(result, at - 0.01, at, picks)


def failed(reason: ScrapeFailure = ScrapeFailure.TIMEOUT) -> ScrapeFailed:
    """Return a scrape that failed without a refused connection."""
    return ScrapeFailed(reason, "no answer within 0.8s")


REFUSED = ScrapeFailed(ScrapeFailure.CONNECT, "connection refused", refused=True)


def target(
    name: str = "a:1", *, late: bool = False, params: ScoreParams | None = None, at: float = 0.0
) -> TargetHealth:
    """Return a target first seen ``at``."""
    identity = TargetId("chat", name, f"http://{name}")
    return TargetHealth(identity, params or ScoreParams(), known_at=at, late=late)
