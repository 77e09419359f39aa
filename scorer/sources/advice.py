"""What to do about a page that cannot be read, or not in full: sentences for people."""

import re
from collections.abc import Iterator

from scorer.core.samples import EngineSamples, Histogram, ScrapeFailed
from scorer.core.vocabulary import Gap, ScrapeFailure
from scorer.mappings.engine import Mapping

_PLACES = (
    "metrics are at /metrics of the API port (vLLM without --disable-log-stats; SGLang with "
    "--enable-metrics; TGI; llama.cpp with --metrics; LMDeploy with --enable-metrics), at "
    "/prometheus/metrics (TensorRT-LLM with return_perf_metrics: true), at /v1/metrics (NIM), on "
    "port 8002 (Triton)"
)

_ON_FAILURE = {
    ScrapeFailure.TIMEOUT: "the port is open to packets but slow or silent: is the engine hung, "
    "or a firewall dropping them? TensorRT-LLM's JSON statistics take up to 2 s: try --timeout 5s",
    ScrapeFailure.CONNECT: f"is the engine up, and the address right? {_PLACES}",
    ScrapeFailure.TLS: "is this an https port, with a certificate that this machine trusts?",
    ScrapeFailure.HTTP_STATUS: f"is the path right, and are metrics switched on? {_PLACES}",
    ScrapeFailure.TOO_LARGE: "is this one engine's page, not a federation of many?",
    ScrapeFailure.TRUNCATED: "something cuts the page: a proxy in between, a full disk when it "
    "was saved, an engine that dies?",
    ScrapeFailure.PARSE: "is the page what the engine printed, or was it edited or merged?",
    ScrapeFailure.EMPTY: f"is this the engine's own port? {_PLACES}",
    ScrapeFailure.WRONG_CONTENT: f"is this a metrics page? {_PLACES}",
    ScrapeFailure.AUTH: "the metrics are behind a key or a proxy's login (LiteLLM asks for one by "
    "default): give the pool authorization or basic_auth, and look again with --config.file",
}

_ROUTER = "this is the page of {}: point at the engines behind it"

_LOOKS_LIKE = (
    (rb"vllm:\w+\{[^}\n]*\bserver=", _ROUTER.format("a router (its rows have the label server)")),
    (rb"vllm_router_", _ROUTER.format("a router (vllm-router)")),
    (rb"sgl_router_|smg_", _ROUTER.format("a router (SGLang's, smg)")),
    (rb"inference_(?:extension|pool)_", _ROUTER.format("an endpoint picker")),
    (rb"dynamo_frontend_", _ROUTER.format("a router (Dynamo's front-end)")),
    (rb"kong_", "this is the page of Kong, which measures no TTFT"),
    (rb"envoy_|nginx_|haproxy_", "this is a gateway's page without TTFT: see docs/gateways.md"),
    (
        rb"nv_inference_",
        "Triton, but no model of it runs in tensorrtllm_backend, or its metrics are off",
    ),
    (rb"scorer_", _ROUTER.format("scorer itself")),
)
"""Start of a line, and what to say about the page that has it."""


def on_failure(failure: ScrapeFailed) -> Iterator[str]:
    """Yield what to check after a failed scrape."""
    if failure.detail.startswith("status 400"):
        yield "is this an https port? Try https://"
    if failure.detail.startswith("status 501"):
        yield "llama.cpp answers so without --metrics"
    yield _ON_FAILURE[failure.reason]


def on_unknown(body: bytes) -> Iterator[str]:
    """Yield whose page it looks like, when no mapping knows it."""
    for pattern, sentence in _LOOKS_LIKE:
        if re.search(rb"^(?:" + pattern + rb")", body, re.MULTILINE):
            yield sentence
            return
    if re.search(rb"^# TYPE (?:vllm|sglang|lmdeploy|llamacpp)[:_]", body, re.MULTILINE):
        yield "an engine's families are declared but have no samples yet: send one request"
    else:
        yield f"no metrics of an inference engine here yet: is this the right port? {_PLACES}"


def on_samples(body: bytes, samples: EngineSamples, mapping: Mapping | None) -> Iterator[str]:
    """Yield what the page leaves out or says in a roundabout way, and what to switch on."""
    readings = {
        "running": samples.running.gap,
        "waiting": samples.waiting.gap,
        "kv_cache": samples.kv_cache.gap,
    }
    gaps = set(readings.values())
    missing = {**readings, "ttft": samples.ttft.gap, "errors": samples.outcomes.gap}
    if mapping is not None:
        told = [mapping.switch_on.get(name) for name, gap in missing.items() if gap]
        yield from dict.fromkeys(text for text in told if text)
    if Gap.NO_SAMPLES in gaps:
        yield "no samples yet: send one request (a multi-process page starts without its gauges)"
    if Gap.IDLE in gaps:
        yield "[] says that nothing happened since the last read: send requests, and read again"
    if gaps & {Gap.OUT_OF_RANGE, Gap.NOT_A_NUMBER, Gap.NEGATIVE}:
        yield "the engine prints a value that means nothing; it counts as missing, not as 0"
    yield from _roundabout(body, samples)


def _roundabout(body: bytes, samples: EngineSamples) -> Iterator[str]:
    engines = _engines(samples.ttft)
    if engines > 1:
        yield (
            f"{engines} engines on this page: running and waiting are summed, "
            "kv_cache is the fullest"
        )
    if b'pid="' in body:
        yield "several processes print the same gauge (label pid): the largest counts"
    if samples.start_time is None:
        yield "no process_start_time_seconds: a restart shows only by counters that go back"
    if samples.asleep:
        yield "the engine is asleep: it takes no requests until it is woken"


def _engines(ttft: Histogram) -> int:
    labels = [dict(pairs) for _, pairs in ttft.counts]
    return len({given["engine"] for given in labels if "engine" in given})
