"""What a gateway's counters teach about a target, and whom a status accuses."""

import pytest

from scorer.core.gateway import GatewayReading, failure_share, hear
from scorer.core.judge import judge_pool
from scorer.core.outstanding import Outstanding
from scorer.core.sourced import Source
from tests.core.builders import page, scrape, target


@pytest.mark.parametrize(
    ("status", "share"),
    [
        (200, 0.0), (204, 0.0), (302, 0.0), (400, None), (401, None), (404, None), (408, None),
        (424, 1.0), (429, None), (499, None), (500, 1.0), (502, 1.0), (503, 0.5), (504, 1.0),
        (529, None), (0, 1.0),
    ],
)  # fmt: skip
def test_status_accuses_the_engine_or_nobody(status, share):
    """Refusals and clients' own faults count neither way; a bare 503 is half a failure."""
    assert failure_share(status) == share


def test_gateway_is_believed_before_the_engine():
    """What users saw counts while the gateway has seen a first token lately."""
    health = target()
    health.apply(scrape(page(), 1.0))
    health.apply(scrape(page(ttft=(10, 1.0)), 2.0))
    hear(health, GatewayReading("edge", 3.0, 4, 1.5), None)
    assert health.ttft.chosen(3.0) is Source.GATEWAY
    assert health.ttft.current(3.0).value == 1.5
    assert health.ttft.chosen(40.0) is Source.GATEWAY  # heard last, though long ago
    health.apply(scrape(page(ttft=(20, 2.0)), 41.0))
    assert health.ttft.current(41.0).value == pytest.approx(0.1)


def test_outcomes_of_gateway_and_engine_are_never_summed():
    """Both see the same requests."""
    health = target()
    health.apply(scrape(page(), 1.0))
    health.apply(scrape(page(failures=20, successes=0), 2.0))
    hear(health, GatewayReading("edge", 2.0, failures=10.0, successes=90.0), None)
    assert health.outcomes.ratio(2.0) == pytest.approx(0.1)


def test_engine_without_ttft_is_scored_by_the_gateway():
    """An engine that does not measure it loses points for what the gateway measured."""
    health = target()
    for second in (1.0, 2.0):
        health.apply(scrape(page(ttft=None), second))
    hear(health, GatewayReading("edge", 2.0, 50, 2.0), None)
    (judgement,) = judge_pool([health], 2.5, lambda _: Outstanding(requests=1))
    assert judgement.score == pytest.approx(65.0, abs=0.1)


def test_reading_without_anything_is_empty():
    """A target whose counters stand still is no news."""
    assert GatewayReading("edge", 1.0).empty
    assert not GatewayReading("edge", 1.0, successes=1).empty
