"""Views of targets that were really judged, at the time at which the tests of HTTP run."""

from scorer.core.health import TargetHealth
from scorer.core.judge import judge_pool
from scorer.core.learn import Circumstances, learn
from scorer.core.outcome import Outcome, OutcomeClass
from scorer.core.outstanding import NOTHING
from scorer.core.snapshot import TargetView
from scorer.core.view import target_view
from tests.core.builders import page, scrape, target
from tests.http.builders import NOW


def judged(health: TargetHealth, now: float = NOW) -> TargetView:
    """Return the view of a target judged at ``now``, and on the way there."""
    [judgement] = judge_pool([health], now, lambda _: NOTHING)
    return target_view(judgement, now)


def scraped(
    name: str = "10.0.0.7:8000", *results: object, until: float = NOW, **changes: object
) -> TargetHealth:
    """Return a target scraped once a second, the last time ``until``, and judged each time.

    Without ``results`` it shows three pages with ``changes``.
    """
    pages = results or (page(**changes),) * 3
    health = target(name, at=until - len(pages))
    for index, result in enumerate(pages):
        now = until - len(pages) + 1.0 + index
        health.apply(scrape(result, now))
        judged(health, now)
    return health


def tell(health: TargetHealth, outcome: OutcomeClass, at: float, count: int = 1, **facts) -> None:
    """Tell ``count`` outcomes of the rule ``http_500`` by feedback."""
    for _ in range(count):
        learn(health, Outcome(outcome, "http_500", at, **facts), Circumstances())


def busy() -> TargetHealth:
    """Return a target with something wrong in every respect: TTFT, errors, queue, a ramp."""
    health = scraped(until=NOW - 2.0, waiting=12.0, running=8.0, kv_cache=0.63)
    tell(health, OutcomeClass.SUCCESS, NOW - 1.5, 95, ttft=1.0)
    tell(health, OutcomeClass.ENGINE_FAULT, NOW - 1.0, 5)
    judged(health, NOW - 1.0)
    return health
