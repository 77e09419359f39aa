"""Prometheus as the source of a pool: joined by instance, as old as its samples, told apart."""

import json
import re
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from scorer.core.samples import Page, Reading, ScrapeFailed
from scorer.core.vocabulary import Engine, Gap, ScrapeFailure
from scorer.mappings.promql import families_by_signal, selection
from scorer.mappings.shipped import engine_mappings
from scorer.sources.prometheus import PoolQuestion, PrometheusSource, Round
from scorer.sources.prometheus_api import PrometheusApi, QueryRefused, Vector
from tests.sources.conftest import Conversation, http

NOW = 1000.0
TARGETS = {"http://a:1": "a:1", "http://b:1": "b:1"}
A, B = {"instance": "a:1", "job": "vllm"}, {"instance": "b:1", "job": "vllm"}


def vector(*series: tuple[dict[str, str], float], **more: object) -> dict[str, object]:
    """Return a successful answer."""
    result = [{"metric": labels, "value": [NOW, str(value)]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}, **more}


def refused(error: str) -> dict[str, object]:
    """Return Prometheus's answer to a query that it cannot evaluate."""
    return {"status": "error", "errorType": "bad_data", "error": error}


def asks_for(name: str, query: str) -> bool:
    """Return whether a query selects the series of that name."""
    return re.search(rf"(?<![\w:]){name}(?![\w:])", query) is not None


class FakePrometheus:
    """Answers queries from series by name; ``answers`` replace what the text of a query finds."""

    def __init__(self) -> None:
        self.series: dict[str, list[tuple[dict[str, str], float]]] = {}
        self.times = {"a:1": NOW - 1, "b:1": NOW - 1}
        self.answers: dict[str, dict[str, object]] = {}
        self.asked: list[dict[str, str]] = []

    def answer(self, query: str) -> dict[str, object]:
        """Return the answer to one query."""
        for name, given in self.answers.items():
            if asks_for(name, query):
                return given
        if query.startswith("timestamp("):
            return vector(*(({"instance": name}, at) for name, at in self.times.items()))
        found = [
            ({"__name__": name, **labels}, value)
            for name, rows in self.series.items()
            if asks_for(name, query)
            for labels, value in rows
        ]
        return vector(*found)

    def __call__(self, conversation: Conversation) -> None:
        while True:
            path = conversation.request.split()[1].decode()
            asked = {k: v[0] for k, v in parse_qs(urlsplit(path).query).items()}
            self.asked.append(asked)
            document = self.answer(asked["query"])
            status = "200 OK" if document["status"] == "success" else "400 Bad Request"
            body = json.dumps(document).encode()
            conversation.sock.sendall(http(body, status, content_type="application/json"))
            if not conversation.listen():
                return


@pytest.fixture
def prometheus():
    """Return a fake Prometheus that has scraped two vLLM targets."""
    fake = FakePrometheus()
    fake.series = {
        "vllm:num_requests_running": [({**A, "engine": "0"}, 3), ({**B, "engine": "0"}, 5)],
        "vllm:num_requests_waiting": [({**A, "engine": "0"}, 1), ({**A, "engine": "1"}, 6)],
        "vllm:kv_cache_usage_perc": [({**A, "engine": "0"}, 0.4), ({**B, "engine": "0"}, 0.9)],
        "vllm:time_to_first_token_seconds_sum": [(A, 4.0)],
        "vllm:time_to_first_token_seconds_count": [(A, 8)],
    }
    return fake


@pytest.fixture
def asking(serve, prometheus):
    """Return a function that asks as a pool of vLLM targets does, ``times`` times."""
    apis: list[PrometheusApi] = []

    def asking(*, engine: Engine = Engine.VLLM, at: float = NOW, **given: object):
        api = PrometheusApi(serve(prometheus).site, 5.0)
        apis.append(api)
        question = PoolQuestion(engine, engine_mappings(), selector='job="vllm"', **given)
        source = PrometheusSource(api, question)
        clock = iter(range(1_000_000))
        return lambda now=at: source.ask(TARGETS, 1e6, lambda: next(clock), now)

    yield asking
    for api in apis:
        api.close()


def samples(got: Round | ScrapeFailed, name: str):
    """Return the samples of a target."""
    result = got.told[name].result
    assert isinstance(result, Page)
    return result.samples


def test_series_are_joined_by_instance_and_read_as_a_page_is(asking):
    """Sums over engines, the fullest cache, sums and counts by series."""
    found = samples(asking()(), "a:1")
    assert (found.running, found.waiting, found.kv_cache) == tuple(map(Reading, (3, 7, 0.4)))
    assert (found.ttft.count, found.ttft.sum, found.mapping) == (8, 4.0, "vllm_v1")


def test_signal_that_prometheus_does_not_have_is_missing(asking):
    """No sample of a family is no zero."""
    found = samples(asking()(), "b:1")
    assert found.waiting == Reading.missing(Gap.FAMILY_ABSENT)
    assert found.ttft.gap is Gap.FAMILY_ABSENT


def test_all_queries_are_evaluated_at_one_time(asking, prometheus):
    """One query per signal, all with the pool's matchers."""
    asking()()
    assert {asked["time"] for asked in prometheus.asked} == {"1000.000"}
    assert all('job="vllm"' in asked["query"] for asked in prometheus.asked)
    assert len(prometheus.asked) == len(families_by_signal(engine_mappings()[:4])) + 2


def test_sample_is_handed_on_once(asking, prometheus):
    """Asking more often than Prometheus scrapes gives nothing new in between."""
    ask = asking()
    assert set(ask().told) == {"a:1", "b:1"}
    prometheus.times["b:1"] = NOW + 1
    assert set(ask(NOW + 2).told) == {"b:1"}


def test_sample_has_its_own_age(asking):
    """What was scraped a second before the evaluation is a second old."""
    assert asking()().told["a:1"].age == pytest.approx(1.0)


def test_sample_that_is_too_old_is_a_failed_scrape(asking, prometheus):
    """Prometheus remembers for minutes what has long been gone."""
    prometheus.times["a:1"] = NOW - 90
    got = asking()().told["a:1"].result
    assert (got.reason, got.refused) == (ScrapeFailure.EMPTY, False)
    assert got.detail == "Prometheus's newest sample is 90s old, at most 60s"


def test_target_that_prometheus_does_not_know_is_told(asking, prometheus):
    """No sample of an instance is no good scrape."""
    del prometheus.times["b:1"]
    got = asking()().told["b:1"].result
    assert got == ScrapeFailed(ScrapeFailure.EMPTY, "Prometheus has no sample of this instance")


def test_target_that_prometheus_cannot_scrape_is_told(asking, prometheus):
    """``up`` says why there are no samples; it is not observed dead by us."""
    del prometheus.times["b:1"]
    prometheus.answers["up"] = vector(({"__name__": "up", **B}, 0))
    got = asking()().told["b:1"].result
    assert (got.reason, got.refused) == (ScrapeFailure.CONNECT, False)


def test_refused_query_costs_its_signal_only(asking, prometheus):
    """The others are read; what Prometheus said is a remark."""
    prometheus.answers["vllm:num_requests_waiting"] = refused("parse error: unexpected end")
    got = asking()()
    assert samples(got, "a:1").waiting == Reading.missing(Gap.QUERY_FAILED)
    assert samples(got, "a:1").running == Reading(3)
    assert got.remarks == ("waiting: bad_data: parse error: unexpected end",)


def test_warnings_are_remarks(asking, prometheus):
    """What Prometheus warns of comes with the values."""
    prometheus.answers["up"] = vector(warnings=["shard 2 is unavailable"])
    assert asking()().remarks == ("up: shard 2 is unavailable",)


def test_unreachable_prometheus_says_nothing_of_targets(closed_port):
    """Its refused connection is not theirs."""
    question = PoolQuestion(Engine.VLLM, engine_mappings())
    source = PrometheusSource(PrometheusApi(f"http://127.0.0.1:{closed_port}", 1.0), question)
    got = source.ask(TARGETS, 1.0, time.monotonic, NOW)
    assert (got.reason, got.refused) == (ScrapeFailure.CONNECT, False)
    assert got.detail.startswith("Prometheus: connection refused")
    source.close()


def test_own_query_replaces_a_shipped_one(asking, prometheus):
    """Its value counts, summed over what it returns for the instance."""
    prometheus.answers["my_waiting"] = vector((A, 40), (A, 2))
    found = samples(asking(own=(("waiting", "my_waiting"),))(), "a:1")
    assert (found.waiting, found.running) == (Reading(42), Reading(3))


def test_own_queries_can_stand_in_for_a_mapping(asking, prometheus):
    """An engine that no mapping describes is read by queries alone."""
    for name, value in (("q_wait", 4), ("q_sum", 6), ("q_count", 3), ("q_bad", 1), ("q_good", 9)):
        prometheus.answers[name] = vector((A, value))
    own = (("waiting", "q_wait"), ("ttft_sum", "q_sum"), ("ttft_count", "q_count"),
           ("failures", "q_bad"), ("successes", "q_good"))  # fmt: skip
    found = samples(asking(engine=Engine.OTHER, own=own)(), "a:1")
    assert (found.engine, found.mapping) == (Engine.OTHER, "queries")
    assert (found.waiting, found.ttft.sum, found.ttft.count) == (Reading(4), 6, 3)
    assert sum(found.outcomes.failures[0].values()) == 1
    assert found.kv_cache == Reading.missing(Gap.FAMILY_ABSENT)


def test_own_query_that_is_refused_is_no_shipped_value(asking, prometheus):
    """A mistake in a query must not silently bring back what it replaced."""
    prometheus.answers["nonsense"] = refused("no such function")
    found = samples(asking(own=(("kv_cache", "nonsense"),))(), "a:1")
    assert found.kv_cache == Reading.missing(Gap.QUERY_FAILED)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"not json", "not valid JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"9" * 5000, "not valid JSON: a number has too many digits"),
        (b"[]", "JSON of another form"),
        (b"{}", "JSON of another form"),
        (b'{"status":"success"}', "JSON of another form"),
        (b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}, 1]}}',
         "JSON of another form"),
    ],
)  # fmt: skip
def test_answer_of_something_else_is_named(serve, body, what):
    """A proxy's page under the address of Prometheus is no answer."""
    api = PrometheusApi(serve(http(body, content_type="application/json")).site, 5.0)
    answer = api.instant("up", 5.0)
    assert answer.reason is ScrapeFailure.WRONG_CONTENT
    assert answer.detail == f"not an answer of Prometheus's API (status 200): {what}"
    api.close()


def test_other_kinds_of_answers_are_refused(serve):
    """A query must give an instant vector."""
    body = b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}'
    api = PrometheusApi(serve(http(body, content_type="application/json")).site, 5.0)
    assert api.instant("1", 5.0) == QueryRefused("must give an instant vector, gives a scalar")
    api.close()


def test_values_are_numbers_as_prometheus_writes_them(serve):
    """NaN and infinities are values, to be judged by whoever reads them."""
    body = json.dumps(vector(({"__name__": "x", "a": "b"}, float("inf")))).encode()
    api = PrometheusApi(serve(http(body, content_type="application/json")).site, 5.0)
    got = api.instant("x", 5.0)
    assert isinstance(got, Vector)
    assert (got.series[0].name, got.series[0].labels, got.series[0].value) == (
        "x", {"a": "b"}, float("inf"),
    )  # fmt: skip
    api.close()


@pytest.mark.parametrize(
    ("families", "selector", "query"),
    [
        (("a",), "", "a"),
        (("a:b",), 'job="x"', 'a:b{job="x"}'),
        (("a", "b"), "", '{__name__=~"a|b"}'),
        (("a", "b"), 'job="x"', '{__name__=~"a|b",job="x"}'),
    ],
)
def test_selection_is_short(families, selector, query):
    """One family by its name, several by a pattern, the matchers beside them."""
    assert selection(families, selector) == query
