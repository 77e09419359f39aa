"""The state of an emulated engine as a vLLM V1 metrics page.

Names, labels, buckets and help texts are those of vLLM; families the emulation has
nothing to say about are left out.
"""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from scorer.demo.engine import Engine
from scorer.demo.tally import Histogram

HttpCounts = Mapping[tuple[str, str, str], int]
"""Finished HTTP requests by (handler, method, status class)."""


class EnginePage:
    """A prometheus_client collector over one emulated engine.

    ``start_time`` is Unix seconds; ``http_requests`` is read at each scrape.
    """

    def __init__(
        self, engine: Engine, model_name: str, start_time: float, http_requests: HttpCounts
    ) -> None:
        self._engine = engine
        self._labels = {"engine": "0", "model_name": model_name}
        self._start_time = start_time
        self._http_requests = http_requests

    def render(self) -> bytes:
        """Return the page in text format 0.0.4."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families in the order of vLLM's page."""
        yield GaugeMetricFamily(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            value=self._start_time,
        )
        yield from self._load()
        yield from self._counters()
        yield from self._histograms()
        yield self._cache_config()
        yield self._http()

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        return self._gauge_by("", name, text, {"": value})

    def _gauge_by(self, label: str, name: str, text: str, values: Mapping[str, float]) -> Metric:
        family = GaugeMetricFamily(name, text, labels=self._names(label))
        for key, value in values.items():
            family.add_metric(self._values(label, key), value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        return self._counter_by("", name, text, {"": value})

    def _counter_by(self, label: str, name: str, text: str, values: Mapping[str, float]) -> Metric:
        family = CounterMetricFamily(name, text, labels=self._names(label))
        for key, value in values.items():
            family.add_metric(self._values(label, key), value)
        return family

    def _histogram(self, name: str, text: str, data: Histogram) -> Metric:
        family = HistogramMetricFamily(name, text, labels=self._names(""))
        family.add_metric(self._values("", ""), data.buckets(), data.sum)
        return family

    def _names(self, label: str) -> list[str]:
        return [*self._labels, label] if label else [*self._labels]

    def _values(self, label: str, value: str) -> list[str]:
        return [*self._labels.values(), value] if label else [*self._labels.values()]

    def _load(self) -> Iterator[Metric]:
        engine = self._engine
        yield self._gauge(
            "vllm:num_requests_running",
            "Number of requests in model execution batches.",
            engine.running,
        )
        yield self._gauge(
            "vllm:num_requests_waiting",
            "Number of requests waiting to be processed.",
            engine.waiting,
        )
        yield self._gauge_by(
            "reason",
            "vllm:num_requests_waiting_by_reason",
            "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for"
            " scheduling capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV"
            " transfer, blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
            {"capacity": engine.waiting, "deferred": 0},
        )
        yield self._gauge_by(
            "sleep_state",
            "vllm:engine_sleep_state",
            "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is"
            " awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level"
            " 2.",
            {"awake": 1, "weights_offloaded": 0, "discard_all": 0},
        )
        yield self._gauge(
            "vllm:kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            engine.kv_usage,
        )

    def _counters(self) -> Iterator[Metric]:
        tally = self._engine.tally
        yield self._counter(
            "vllm:num_preemptions",
            "Cumulative number of preemption from the engine.",
            tally.preemptions,
        )
        yield self._counter(
            "vllm:prompt_tokens", "Number of prefill tokens processed.", tally.prompt_tokens
        )
        yield self._counter(
            "vllm:generation_tokens",
            "Number of generation tokens processed.",
            tally.generation_tokens,
        )
        yield self._counter_by(
            "finished_reason",
            "vllm:request_success",
            "Count of successfully processed requests.",
            {
                "stop": 0,
                "length": tally.finished,
                "abort": tally.aborted,
                "error": 0,
                "repetition": 0,
            },
        )

    def _histograms(self) -> Iterator[Metric]:
        tally = self._engine.tally
        yield self._histogram(
            "vllm:iteration_tokens_total",
            "Histogram of number of tokens per engine_step.",
            tally.step_tokens,
        )
        yield self._histogram(
            "vllm:time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            tally.ttft,
        )

    def _cache_config(self) -> Metric:
        limits = self._engine.limits
        sizes = {
            "block_size": str(limits.block_size),
            "cache_dtype": "auto",
            "num_gpu_blocks": str(limits.kv_blocks),
        }
        family = GaugeMetricFamily(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            labels=["engine", *sizes],
        )
        family.add_metric([self._labels["engine"], *sizes.values()], 1)
        return family

    def _http(self) -> Metric:
        family = CounterMetricFamily(
            "http_requests",
            "Total number of requests by method, status and handler.",
            labels=["handler", "method", "status"],
        )
        for key, count in self._http_requests.items():
            family.add_metric(list(key), count)
        return family
