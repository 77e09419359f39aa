"""The doctor and pools whose source is Prometheus: what is asked, and what is said of it."""

import json
import time

import pytest

from tests.sources.test_prometheus import A, FakePrometheus, refused


@pytest.fixture
def prometheus():
    """Return a fake Prometheus that has scraped ``a:1`` just now."""
    fake = FakePrometheus()
    fake.times = {"a:1": time.time() - 1.0}
    fake.series = {
        "vllm:num_requests_running": [({**A, "engine": "0"}, 3)],
        "vllm:num_requests_waiting": [({**A, "engine": "0"}, 1)],
        "vllm:kv_cache_usage_perc": [({**A, "engine": "0"}, 0.4)],
        "vllm:time_to_first_token_seconds_sum": [(A, 4.0)],
        "vllm:time_to_first_token_seconds_count": [(A, 8)],
    }
    return fake


def document(url: str, *targets: str, **queries: object) -> dict:
    """Return a configuration of one pool that is read from the Prometheus at ``url``."""
    pool = {
        "name": "chat",
        "source": "prometheus",
        "engine": "vllm",
        "static_configs": [{"targets": list(targets)}],
        "prometheus": queries,
    }
    return {"prometheus": {"url": url, "timeout": "5s"}, "pools": [pool]}


def test_pool_is_read_from_its_source(serve, doctor, prometheus):
    """One round of queries; every form of the output says where the numbers are from."""
    server = serve(prometheus)
    for output in ("table", "json", "csv"):
        done = doctor(document(server.site, "a:1"), "-o", output)
        assert done.exit_code == 0, done.output
        assert "chat a:1 by Prometheus" in done.output
    found = json.loads(doctor(document(server.site, "a:1"), "-o", "json").output)
    assert found["signals"]["running"] == 3
    assert found["signals"]["ttft"] == {"count": 8, "sum": 4}
    assert found["hints"][0] == (f"read from Prometheus at {server.site}, the source of its pool")


def test_target_that_is_given_is_asked_for_as_well(serve, doctor, prometheus):
    """It is one of the pool, whose engines the doctor leaves alone."""
    done = doctor(document(serve(prometheus).site, "b:1"), "a:1")
    assert done.exit_code == 0, done.output
    assert "chat a:1 by Prometheus: vLLM" in done.output
    assert "b:1" not in done.output


def test_target_that_prometheus_does_not_scrape_says_what_to_look_for(serve, doctor, prometheus):
    """Its neighbour is told all the same."""
    done = doctor(document(serve(prometheus).site, "a:1", "b:1", selector='job="vllm"'))
    assert done.exit_code == 1
    assert "chat a:1 by Prometheus: vLLM" in done.output
    assert "empty: Prometheus has no sample of this instance" in done.output
    assert 'Look for series with {instance="b:1", job="vllm"}' in done.output


def test_old_samples_are_no_news(serve, doctor, prometheus):
    """As old as the daemon would find them."""
    prometheus.times = {"a:1": time.time() - 100.0}
    done = doctor(document(serve(prometheus).site, "a:1", max_age="30s"))
    assert done.exit_code == 1
    assert "newest sample is 1" in done.output


def test_query_that_is_refused_is_told(serve, doctor, prometheus):
    """With Prometheus's own words, and the signal is missing."""
    prometheus.answers["made_up"] = refused("unknown function")
    own = {"waiting": "made_up(x)"}
    done = doctor(document(serve(prometheus).site, "a:1", queries=own))
    assert done.exit_code == 3
    assert "unknown function" in done.output
    assert "waiting     unavailable: Prometheus does not answer the query" in done.output


def test_prometheus_that_is_down_is_told_for_every_target(closed_port, doctor):
    """Nothing is known of any of them."""
    url = f"http://127.0.0.1:{closed_port}"
    done = doctor(document(url, "a:1", "b:1"))
    assert done.exit_code == 1
    assert done.output.count("connect: Prometheus: connection refused") == 2
    assert "is prometheus.url right" in done.output


def test_timeout_is_that_of_all_queries_together(serve, doctor):
    """The flag replaces the file's."""
    server = serve(lambda conversation: conversation.hang())
    done = doctor(document(server.site, "a:1"), "--timeout", "300ms")
    assert done.exit_code == 1
    assert "timeout: Prometheus" in done.output


def test_target_that_relabelling_drops_is_none(serve, doctor, prometheus):
    """It is not asked for, and with no other nothing is."""
    server = serve(prometheus)
    given = document(server.site, "10.0.0.1:8000")
    drop = {"source_labels": ["__address__"], "regex": "10.*", "action": "drop"}
    given["pools"][0]["relabel_configs"] = [drop]
    done = doctor(given)
    assert (done.exit_code, server.requests) == (1, [])
    assert "relabel_configs of the pool drop it" in done.output
