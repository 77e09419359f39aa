"""What is remembered of a target's errors: who told of each, bounded."""

import pytest

from scorer.core.gateway import GatewayReading, hear
from scorer.core.health import KEPT_ERRORS, TargetHealth
from scorer.core.learn import Circumstances, learn
from scorer.core.outcome import LastError, Outcome, OutcomeClass
from scorer.core.vocabulary import ScrapeFailure
from tests.core.builders import REFUSED, failed, page, scrape, target


def known() -> TargetHealth:
    """Return a target with a baseline of its counters."""
    health = target()
    health.apply(scrape(page(), 1.0))
    return health


def tell(health: TargetHealth, outcome: OutcomeClass, at: float, reason: str = "rule") -> None:
    learn(health, Outcome(outcome, reason, at), Circumstances())


@pytest.mark.parametrize(
    "outcome",
    [OutcomeClass.ENGINE_FAULT, OutcomeClass.ENGINE_SATURATED, OutcomeClass.LOADING],
)
def test_outcome_against_the_target_is_remembered(outcome):
    """Feedback that speaks against the target stays with its class, rule and time."""
    health = known()
    tell(health, outcome, 5.0, "kv_cache_full")
    assert list(health.last_errors) == [LastError(5.0, "feedback", outcome, "kv_cache_full")]


@pytest.mark.parametrize(
    "outcome",
    [OutcomeClass.SUCCESS, OutcomeClass.CLIENT_ERROR, OutcomeClass.CLIENT_RATE_LIMIT],
)
def test_what_is_not_the_targets_fault_is_no_error_of_it(outcome):
    """A client's mistake is not listed under the target's errors."""
    health = known()
    tell(health, outcome, 5.0)
    assert not health.last_errors


def test_counted_failures_are_one_error_per_scrape():
    """An engine that counts its failures tells how many, not which."""
    health = known()
    health.apply(scrape(page(failures=3.0), 2.0))
    assert list(health.last_errors) == [
        LastError(2.0, "engine", OutcomeClass.ENGINE_FAULT, "counted", times=3.0)
    ]


def test_gateway_counters_are_told_apart():
    """Failures that a gateway counted have the gateway as their source, and nothing is no error."""
    health = known()
    hear(health, GatewayReading("edge", 3.0, failures=2.0, successes=8.0), None)
    hear(health, GatewayReading("edge", 4.0, successes=8.0), None)
    assert [(error.source, error.times) for error in health.last_errors] == [("gateway", 2.0)]


def test_equal_failures_of_scrapes_are_one_error():
    """A dead target fails every second: that must not push out everything else."""
    health = known()
    tell(health, OutcomeClass.ENGINE_FAULT, 1.5)
    for second in range(2, 60):
        health.apply(scrape(REFUSED, float(second)))
    assert [error.source for error in health.last_errors] == ["feedback", "scrape"]
    last = health.last_errors[-1]
    assert (last.at, last.kind, last.reason) == (59.0, "scrape_failed", ScrapeFailure.CONNECT)
    assert (last.times, last.detail) == (58.0, "connection refused")


def test_failure_after_a_good_scrape_is_another_error():
    """Two outages are two errors, and so are two kinds of failure."""
    health = known()
    for second, result in enumerate((failed(), page(), failed(), REFUSED)):
        health.apply(scrape(result, 2.0 + second))
    assert [error.reason for error in health.last_errors] == ["timeout", "timeout", "connect"]


def test_last_twenty_are_kept():
    """However many there are, memory is bounded and the latest stay."""
    health = known()
    for index in range(100):
        tell(health, OutcomeClass.ENGINE_FAULT, 2.0 + index)
    assert len(health.last_errors) == KEPT_ERRORS == 20
    assert health.last_errors[-1].at == 101.0
