"""Where the page is: engines with several paths, engines that move, engines that take long."""

import threading

import pytest

from scorer.core.samples import Page, Reading, ScrapeFailed
from scorer.core.vocabulary import Engine, Gap, ScrapeFailure
from scorer.sources.engine import SEARCH_AGAIN, EngineSource
from scorer.sources.places import ScrapeTarget
from tests.sources.conftest import Conversation, http

VLLM = b'vllm:num_requests_running{engine="0"} 3\n'
TEXT = b'trtllm_num_requests_running{pid="1"} 5\n'
RECORD = b'[{"iter":1,"numActiveRequests":7,"numQueuedRequests":0}]'
NOT_FOUND = http(b"no", "404 Not Found")
JSON = {"content_type": "application/json"}


class Engines:
    """Answers by path, which a test may change, and counts the requests for each."""

    def __init__(self, **pages: bytes) -> None:
        self.pages = {f"/{path.replace('_', '/')}": answer for path, answer in pages.items()}
        self.asked: list[str] = []
        self.hung: set[str] = set()
        self.released = threading.Event()

    def __call__(self, conversation: Conversation) -> None:
        while True:
            path = conversation.request.split()[1].decode()
            self.asked.append(path)
            if path in self.hung:
                self.released.wait(10)
            conversation.sock.sendall(self.pages.get(path, NOT_FOUND))
            if not conversation.listen():
                return


@pytest.fixture
def scraped(serve):
    """Return a function that makes a source of an engine that answers by path."""
    sources: list[EngineSource] = []
    engines: list[Engines] = []

    def make(engine: Engines, kind: Engine | None = None, timeout: float = 5.0, **given: object):
        engines.append(engine)
        sources.append(
            EngineSource(ScrapeTarget(serve(engine).site, timeout, engine=kind, **given))
        )
        return sources[-1]

    yield make
    for engine in engines:
        engine.released.set()
    for source in sources:
        source.close()


def running(result: Page | ScrapeFailed) -> Reading | ScrapeFailed:
    """Return the running requests of a page."""
    return result.samples.running if isinstance(result, Page) else result


def test_engine_of_unknown_kind_is_asked_at_the_usual_path(scraped):
    """No other path is tried where an engine's page is."""
    engine = Engines(metrics=http(VLLM))
    assert running(scraped(engine).scrape()) == Reading(3)
    assert engine.asked == ["/metrics"]


def test_text_page_is_preferred_to_records_that_drain(scraped):
    """Reading takes the records away, so a page that does not is looked for at once."""
    engine = Engines(metrics=http(RECORD, **JSON), prometheus_metrics=http(TEXT))
    source = scraped(engine)
    assert [running(source.scrape()) for _ in range(3)] == [Reading(5)] * 3
    assert engine.asked[:2] == ["/metrics", "/prometheus/metrics"]
    assert engine.asked[2:] == ["/prometheus/metrics"] * 2


def test_records_serve_where_there_is_no_text_page(scraped):
    """The JSON statistics are the fallback, at a pace of their own."""
    source = scraped(Engines(metrics=http(RECORD, **JSON)), Engine.TENSORRT_LLM)
    assert running(source.scrape()) == Reading(7)
    assert source.interval == 3.0


def test_pace_of_the_configuration_wins(scraped):
    """A pool that says how to scrape is scraped so."""
    source = scraped(Engines(metrics=http(RECORD, **JSON)), Engine.TENSORRT_LLM, paced=False)
    assert running(source.scrape()) == Reading(7)
    assert source.interval is None


def test_text_page_is_looked_for_again(scraped):
    """An engine that was restarted with its text page on is found there later."""
    engine = Engines(metrics=http(RECORD, **JSON))
    source = scraped(engine, Engine.TENSORRT_LLM)
    assert running(source.scrape()) == Reading(7)
    engine.pages["/prometheus/metrics"] = http(TEXT)
    assert [running(source.scrape()) for _ in range(SEARCH_AGAIN)][-1] == Reading(5)


def test_page_that_moved_is_found(scraped):
    """A path that answers 404 from one day on is no longer the place."""
    engine = Engines(metrics=http(VLLM))
    source = scraped(engine)
    source.scrape()
    engine.pages = {"/prometheus/metrics": http(TEXT)}
    assert running(source.scrape()) == Reading(5)


def test_nothing_anywhere_is_told_by_the_usual_path(scraped):
    """The places that have nothing are not asked with every scrape."""
    engine = Engines()
    source = scraped(engine)
    results = [source.scrape() for _ in range(4)]
    assert {result.reason for result in results} == {ScrapeFailure.HTTP_STATUS}
    assert engine.asked == ["/metrics", "/prometheus/metrics", "/v1/metrics", *["/metrics"] * 3]


def test_engine_that_has_not_served_yet_is_a_good_scrape(scraped):
    """A page without any family of an engine is read at the usual path until it has one."""
    engine = Engines(metrics=http(b"process_start_time_seconds 1\n"))
    source = scraped(engine)
    assert source.scrape() == Page(None)
    engine.pages["/metrics"] = http(VLLM)
    assert running(source.scrape()) == Reading(3)


def test_slow_engine_is_not_looked_for_elsewhere(scraped):
    """A page that was found and takes too long is late, not moved."""
    engine = Engines(metrics=http(VLLM))
    source = scraped(engine, timeout=0.3)
    source.scrape()
    engine.hung = {"/metrics"}
    assert [source.scrape().reason for _ in range(2)] == [ScrapeFailure.TIMEOUT] * 2
    assert set(engine.asked) == {"/metrics"}


def test_records_that_take_long_get_their_time(scraped):
    """An idle engine answers after up to 2 s; once no other place is left it is waited for."""
    engine = Engines(metrics=http(b"[]", **JSON))
    engine.hung = {"/metrics"}
    source = scraped(engine, Engine.TENSORRT_LLM, timeout=0.3)
    timer = threading.Timer(0.6, engine.released.set)
    timer.start()
    assert source.scrape().samples.running.gap is Gap.IDLE
    timer.cancel()


def test_given_path_is_the_only_one(scraped):
    """A path of the configuration is not second-guessed."""
    engine = Engines(metrics=http(VLLM))
    source = scraped(engine, path="/other")
    assert source.scrape().reason is ScrapeFailure.HTTP_STATUS
    assert engine.asked == ["/other"]


def test_page_of_another_engine_is_told_by_name(scraped):
    """A pool of one engine gets no values from the page of another."""
    samples = scraped(Engines(metrics=http(VLLM)), Engine.TGI).scrape().samples
    assert (samples.engine, samples.mapping) == (Engine.VLLM, "vllm_v1")
    assert {samples.running.gap, samples.ttft.gap, samples.outcomes.gap} == {Gap.OTHER_ENGINE}


def test_refused_connection_ends_the_search(scraped, closed_port):
    """Where nothing listens there is nothing to look for."""
    source = EngineSource(ScrapeTarget(f"http://127.0.0.1:{closed_port}", 1.0))
    assert source.scrape().refused
    source.close()


def test_engine_that_changes_is_recognised(scraped):
    """The mapping follows the page, for better and for worse."""
    engine = Engines(metrics=http(VLLM))
    source = scraped(engine)
    kinds = []
    for page in (VLLM, b"tgi_queue_size 4\n", b"vllm:num_requests_running 1\n", b"up 1\n", VLLM):
        engine.pages["/metrics"] = http(page)
        samples = source.scrape().samples
        kinds.append(samples and samples.mapping)
    assert kinds == ["vllm_v1", "tgi", "vllm_v0", None, "vllm_v1"]
