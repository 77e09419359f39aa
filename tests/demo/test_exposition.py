import pytest
from prometheus_client.parser import text_string_to_metric_families

from scorer.demo.cost import A100_8B
from scorer.demo.engine import Engine, Limits
from scorer.demo.exposition import EnginePage

LABELS = {"engine": "0", "model_name": "demo-8b"}


@pytest.fixture
def page():
    """Return the families, by name, of an engine that served one request and runs another."""
    engine = Engine(A100_8B, Limits(sequences=1, kv_blocks=1000), now=0.0)
    engine.submit("served", 3000, 4, now=0.0)
    engine.advance(60.0)
    for name in ("running", "waiting"):
        engine.submit(name, 160, 100, now=60.0)
    http = {("/v1/completions", "POST", "2xx"): 3}
    text = EnginePage(engine, "demo-8b", 1_700_000_000.5, http).render().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(page, family: str, sample: str = "", **labels) -> float:
    """Return the one sample with exactly these labels beside the engine's own."""
    wanted = {**LABELS, **labels}
    [found] = [
        s.value for s in page[family].samples if s.name == (sample or family) and s.labels == wanted
    ]
    return found


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("vllm:num_requests_running", 1),
        ("vllm:num_requests_waiting", 1),
        ("vllm:kv_cache_usage_perc", 0.01),
    ],
)
def test_load_gauges(page, family, expected):
    """One running request of ten blocks and one waiting show under vLLM's names."""
    assert value(page, family) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("vllm:prompt_tokens", 3000),
        ("vllm:generation_tokens", 4),
        ("vllm:num_preemptions", 0),
    ],
)
def test_counters(page, family, expected):
    """Counters are those of the served request."""
    assert value(page, family, f"{family}_total") == expected


def test_ttft_histogram(page):
    """One observation of about 0.3 s falls between vLLM's 0.25 s and 0.5 s bounds."""
    name = "vllm:time_to_first_token_seconds"
    buckets = [value(page, name, f"{name}_bucket", le=le) for le in ("0.25", "0.5", "+Inf")]
    assert buckets == [0, 1, 1]


def test_ttft_has_the_buckets_of_vllm(page):
    """Twenty-two bounds and +Inf."""
    samples = page["vllm:time_to_first_token_seconds"].samples
    assert sum(s.name.endswith("_bucket") for s in samples) == 23


def test_steps_are_counted_within_a_request(page):
    """Two prefill chunks and three decode steps are five iterations."""
    name = "vllm:iteration_tokens_total"
    assert value(page, name, f"{name}_count") == 5


def test_waiting_by_reason_adds_up_to_waiting(page):
    """Both reasons are printed, as vLLM prints them."""
    name = "vllm:num_requests_waiting_by_reason"
    reasons = {s.labels["reason"]: s.value for s in page[name].samples}
    assert reasons == {"capacity": 1, "deferred": 0}


def test_request_success_by_reason(page):
    """Every answer ends at its length limit; the other reasons are pre-created at 0."""
    reasons = {s.labels["finished_reason"]: s.value for s in page["vllm:request_success"].samples}
    assert reasons == {"stop": 0, "length": 1, "abort": 0, "error": 0, "repetition": 0}


def test_the_engine_is_awake(page):
    """The sleep state is one-hot."""
    states = {s.labels["sleep_state"]: s.value for s in page["vllm:engine_sleep_state"].samples}
    assert states == {"awake": 1, "weights_offloaded": 0, "discard_all": 0}


def test_cache_config_tells_the_capacity(page):
    """Blocks times block size are the KV tokens."""
    [sample] = page["vllm:cache_config_info"].samples
    assert (sample.labels["num_gpu_blocks"], sample.labels["block_size"]) == ("1000", "16")


def test_start_time_is_unix_seconds(page):
    """A restart shows as a change of this value."""
    [sample] = page["process_start_time_seconds"].samples
    assert sample.value == 1_700_000_000.5


def test_http_requests_are_counted_by_handler(page):
    """The instrumented handlers carry method and status class."""
    [sample] = page["http_requests"].samples
    assert (sample.name, sample.labels, sample.value) == (
        "http_requests_total",
        {"handler": "/v1/completions", "method": "POST", "status": "2xx"},
        3,
    )
