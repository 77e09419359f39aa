"""The source of one target, end to end over a socket."""

import logging

import pytest

from scorer.core.samples import Reading, ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.sources.engine import EngineSource
from scorer.sources.places import ScrapeTarget

PAGE = b'vllm:num_requests_running{engine="0",model_name="llama"} 3\n'


@pytest.fixture
def scrape(serve):
    """Return a function that scrapes a server with the given answers ``times`` times."""

    def scrape(*answers, times: int = 1, models: tuple[str, ...] = ()):
        source = EngineSource(ScrapeTarget(serve(*answers).site, 5.0, "/metrics", models=models))
        got = [source.scrape() for _ in range(times)]
        source.close()
        return got

    return scrape


def test_page_becomes_samples(scrape, answer):
    """A served page is read with the shipped mappings."""
    (page,) = scrape(answer(PAGE), models=("llama",))
    assert page.samples.running == Reading(3)


def test_failed_fetch_is_handed_on(scrape, answer):
    """The reason why there is no page is that of the fetch."""
    got = scrape(answer(status="503 Service Unavailable"))
    assert got == [ScrapeFailed(ScrapeFailure.HTTP_STATUS, "status 503 Service Unavailable")]


def test_target_recovers_from_a_bad_page(scrape, answer):
    """A failed scrape leaves nothing behind that spoils the next."""
    cut = answer(b'vllm:num_requests_running{engine="0"')
    failed, page = scrape(cut, answer(PAGE), times=2)
    assert failed.reason is ScrapeFailure.PARSE
    assert page.samples.running == Reading(3)


def test_page_cut_by_a_closed_connection_is_not_applied(scrape, answer):
    """A page that ends with its connection must end in a line feed."""
    unframed = answer(content_length="", version="1.0")
    (got,) = scrape(unframed + PAGE[:-3])
    assert got.reason is ScrapeFailure.TRUNCATED


def test_unexpected_exception_is_a_failed_scrape_logged_once(caplog):
    """A mistake of ours does not stop the schedule, and does not fill the log."""
    source = EngineSource(ScrapeTarget("http://127.0.0.1:1", 1.0, "/metrics"))
    source.close()
    source.place._fetcher = None
    with caplog.at_level(logging.ERROR):
        got = [source.scrape(), source.scrape()]
    assert {failed.reason for failed in got} == {ScrapeFailure.PARSE}
    assert got[0].detail.startswith("unexpected AttributeError: ")
    assert len(caplog.records) == 1
