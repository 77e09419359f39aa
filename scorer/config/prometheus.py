"""Prometheus as a source: where it is, and how the signals of a pool are asked for."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from scorer.config.discovery import Url
from scorer.config.http_client import HttpClientConfig
from scorer.config.types import Deadline, Duration, Strict, at_least

QueryName = Literal[
    "running", "waiting", "kv_cache", "ttft_sum", "ttft_count", "failures", "successes"
]
"""What a query may be for: gauges, and cumulative seconds, observations and requests."""

Query = Annotated[str, Field(min_length=1)]


def _selector(text: str) -> str:
    if text.startswith("{") or text.endswith(("}", ",")):
        raise ValueError('must be label matchers alone, as job="vllm"')
    return text


Selector = Annotated[str, AfterValidator(_selector)]


_PAIRS = (("ttft_sum", "ttft_count"), ("ttft_count", "ttft_sum"), ("successes", "failures"))


def _paired(queries: dict[str, str]) -> dict[str, str]:
    for one, other in _PAIRS:
        if one in queries and other not in queries:
            facts = {"one": one, "other": other}
            raise PydanticCustomError("whole", "{one} needs {other} beside it", facts)
    return queries


OwnQueries = Annotated[dict[QueryName, Query], AfterValidator(_paired)]


class PoolQueries(Strict):
    """How a pool's signals are asked for.

    ``selector`` is added to the shipped queries; ``queries`` replace them one by one.
    ``instance_label`` joins the answers with the targets. Samples older than ``max_age``
    seconds count as missing.
    """

    selector: Selector = ""
    queries: OwnQueries = Field(default_factory=dict)
    instance_label: str = "instance"
    max_age: Annotated[Duration, at_least("1s", "1h")] = 60.0


class PrometheusConfig(HttpClientConfig):
    """A Prometheus server, or what speaks its API; ``queries`` are those of every pool."""

    url: Url
    timeout: Deadline = 5.0
    queries: OwnQueries = Field(default_factory=dict)

    def queries_of(self, pool: PoolQueries) -> tuple[tuple[str, str], ...]:
        """Return the queries that replace shipped ones for a pool, by what they are for."""
        return tuple({**self.queries, **pool.queries}.items())


def problems_without_prometheus(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what in a document needs ``prometheus.url`` when that is not given."""
    if document.get("prometheus") is not None:
        return
    for index, pool in enumerate(_listed(document, "pools")):
        if pool.get("source") == "prometheus":
            yield f"pools[{index}].source: prometheus needs prometheus.url, which is not given"
    for index, gateway in enumerate(_listed(document, "gateways")):
        if gateway.get("metrics_url") is None:
            yield f"gateways[{index}].metrics_url: is required without prometheus.url"


def _listed(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = document.get(key)
    listed = entries if isinstance(entries, list) else []
    return [entry if isinstance(entry, dict) else {} for entry in listed]
