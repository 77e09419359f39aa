"""Gateways at work: readings reach the pools' inboxes, and trouble is told once."""

import pytest
from structlog.testing import capture_logs

from scorer.core.gateway import GatewayReading
from scorer.core.params import ScoreParams
from scorer.core.samples import ScrapeFailed
from scorer.core.view import PoolFacts
from scorer.core.vocabulary import Gap, ScrapeFailure
from scorer.gateways import GatewayJob
from scorer.registry import Pool
from scorer.sources.gateway_page import Named
from tests.core.builders import target

A = Named("a", 1)
READING = GatewayReading("edge", 5.0, 3, 0.5)


class Source:
    """A gateway source that returns what a test says."""

    def __init__(self) -> None:
        self.gap: Gap | None = None
        self.got: object = {}

    def read(self, clock):
        """Return what was set."""
        return self.got


@pytest.fixture
def job():
    """Return the source, the pool and the job of one gateway."""
    source, pool = Source(), Pool(PoolFacts("chat"), ScoreParams())
    pool.targets = {"a:1": target("a:1"), "b:1": target("b:1")}
    return source, pool, GatewayJob("edge", source, lambda: {"chat": pool}, None, lambda: 5.0)


def test_reading_reaches_the_inbox_of_its_target(job):
    """The pool's cycle applies it like a scrape."""
    source, pool, running = job
    source.got = {A: READING}
    running.run()
    assert list(pool.inbox) == [(pool.targets["a:1"], READING)]


def test_targets_that_change_are_found(job):
    """A target that came meanwhile is indexed."""
    source, pool, running = job
    source.got = {A: READING}
    running.run()
    pool.targets = {"c:1": target("c:1")}
    source.got = {Named("c", 1): READING}
    running.run()
    assert [health.id.target for health, _ in pool.inbox] == ["a:1", "c:1"]


def test_name_of_no_target_is_told_once(job):
    """A gateway that names what no pool has is likely configured otherwise than meant."""
    source, pool, running = job
    source.got = {Named("x", 9): READING}
    with capture_logs() as lines:
        running.run()
        running.run()
    assert [(line["event"], line["named"]) for line in lines] == [
        ("Gateway names what is no target", "x:9")
    ]
    assert not pool.inbox


def test_trouble_is_told_once_per_change(job):
    """A failed read, a page without TTFT, and that all is well again."""
    source, _, running = job
    failure = ScrapeFailed(ScrapeFailure.TIMEOUT, "no answer")
    states = [(failure, None), (failure, None), ({}, Gap.FAMILY_ABSENT), ({}, None), ({}, None)]
    with capture_logs() as lines:
        for source.got, source.gap in states:
            running.run()
    assert [(line["event"], line.get("reason")) for line in lines] == [
        ("Gateway cannot be read", "timeout"),
        ("Gateway cannot be read", "family_absent"),
        ("Gateway became readable", None),
    ]
