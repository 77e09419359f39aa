"""What to do about a page that cannot be read, or not in full: sentences for people."""

import re
from collections.abc import Iterator

from scorer.core.samples import EngineSamples, Histogram, ScrapeFailed
from scorer.core.vocabulary import Gap, ScrapeFailure

_API_PORT = "vLLM serves metrics at /metrics on the API port"

_ON_FAILURE = {
    ScrapeFailure.TIMEOUT: "the port is open to packets but slow or silent: is the engine hung, "
    "or a firewall dropping them?",
    ScrapeFailure.CONNECT: f"is the engine up, and the address right? {_API_PORT}",
    ScrapeFailure.TLS: "is this an https port, with a certificate that this machine trusts?",
    ScrapeFailure.HTTP_STATUS: f"is the path right? {_API_PORT}",
    ScrapeFailure.TOO_LARGE: "is this one engine's page, not a federation of many?",
    ScrapeFailure.TRUNCATED: "something cuts the page: a proxy in between, a full disk when it "
    "was saved, an engine that dies?",
    ScrapeFailure.PARSE: "is the page what the engine printed, or was it edited or merged?",
    ScrapeFailure.EMPTY: f"is this the engine's own port? {_API_PORT}",
    ScrapeFailure.WRONG_CONTENT: f"is this the API port? {_API_PORT}",
    ScrapeFailure.AUTH: "the metrics are behind a key or a proxy's login",
}

_ROUTER = "this is the page of {}: point at the engines behind it"
_OTHER_ENGINE = "this is the page of {}: only vLLM's metrics are understood"

_LOOKS_LIKE = (
    (rb"vllm:\w+\{[^}\n]*\bserver=", _ROUTER, "a router (its rows have the label server)"),
    (rb"vllm_router_", _ROUTER, "a router (vllm-router)"),
    (rb"sgl_router_|smg_", _ROUTER, "a router (SGLang's, smg)"),
    (rb"inference_(?:extension|pool|objective|model)_|llm_d_epp_", _ROUTER, "an endpoint picker"),
    (rb"dynamo_frontend_", _ROUTER, "a router (Dynamo's front-end)"),
    (rb"litellm_", _ROUTER, "a gateway (LiteLLM)"),
    (rb"apisix_|kong_|gen_ai_|envoy_|nginx_|haproxy_", _ROUTER, "a gateway"),
    (rb"ray_vllm_", _OTHER_ENGINE, "Ray Serve"),
    (rb"sglang[:_]", _OTHER_ENGINE, "SGLang"),
    (rb"trtllm_", _OTHER_ENGINE, "TensorRT-LLM"),
    (rb"nv_(?:trt_llm|inference)_", _OTHER_ENGINE, "Triton"),
    (rb"tgi_", _OTHER_ENGINE, "TGI"),
    (rb"llamacpp:", _OTHER_ENGINE, "llama.cpp"),
    (rb"lmdeploy:", _OTHER_ENGINE, "LMDeploy"),
    (rb"scorer_", _ROUTER, "scorer itself"),
)
"""Start of a line, what to say about it, and whose page has it."""


def on_failure(failure: ScrapeFailed) -> Iterator[str]:
    """Yield what to check after a failed scrape."""
    if failure.detail.startswith("status 400"):
        yield "is this an https port? Try https://"
    yield _ON_FAILURE[failure.reason]


def on_unknown(body: bytes) -> Iterator[str]:
    """Yield whose page it looks like, when no mapping knows it."""
    for pattern, sentence, whose in _LOOKS_LIKE:
        if re.search(rb"^(?:" + pattern + rb")", body, re.MULTILINE):
            yield sentence.format(whose)
            return
    if re.search(rb"^# TYPE vllm:", body, re.MULTILINE):
        yield "vLLM's families are declared but have no samples yet: send one request"
    else:
        yield f"no metrics of an inference engine here yet: is this the API port? {_API_PORT}"


def on_samples(body: bytes, samples: EngineSamples) -> Iterator[str]:
    """Yield what the page leaves out or says in a roundabout way."""
    gaps = {r.gap for r in (samples.running, samples.waiting, samples.kv_cache)}
    if Gap.NO_SAMPLES in gaps:
        yield "no samples yet: send one request (a multi-process page starts without its gauges)"
    if gaps & {Gap.OUT_OF_RANGE, Gap.NOT_A_NUMBER, Gap.NEGATIVE}:
        yield "the engine prints a value that means nothing; it counts as missing, not as 0"
    if _engines(samples.ttft) > 1:
        yield (
            f"{_engines(samples.ttft)} engines on this page: running and waiting are summed, "
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
