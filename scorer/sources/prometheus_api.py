"""Prometheus's HTTP API: instant queries, their errors as values, its warnings as texts."""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from scorer.config.http_client import HttpClientConfig
from scorer.core.samples import ScrapeFailed, SeriesKey
from scorer.core.vocabulary import ScrapeFailure
from scorer.json_errors import why
from scorer.sources.exposition import Row
from scorer.sources.failures import failed
from scorer.sources.fetch import Fetched, Fetcher
from scorer.sources.http_client import NO_CLIENT

_ANSWERS = frozenset({200, 400, 422, 503})
"""Statuses with a JSON document; the errors among them say what is wrong with a query."""
_HEADERS = {"Accept": "application/json"}


@dataclass(frozen=True, slots=True)
class Series:
    """One element of an instant vector; ``at`` is the time of the evaluation (Unix seconds)."""

    name: str
    labels: Mapping[str, str]
    value: float
    at: float

    def row(self, without: frozenset[str]) -> Row:
        """Return it as a row of a page, some labels left out."""
        labels = {name: text for name, text in self.labels.items() if name not in without and text}
        key: SeriesKey = (self.name, tuple(sorted(labels.items())))
        return Row(labels, key, self.value)


@dataclass(frozen=True, slots=True)
class Vector:
    """The answer to a query, with what Prometheus warns of."""

    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryRefused:
    """Prometheus answered that it does not evaluate the query, and why."""

    detail: str


class PrometheusApi:
    """Asks the server at ``url``; not for use by two threads at once."""

    def __init__(
        self,
        url: str,
        timeout: float,
        client: HttpClientConfig = NO_CLIENT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = f"{url.rstrip('/')}/api/v1/query"
        self._fetcher = Fetcher(
            self._url, timeout, client=client, headers=_HEADERS, statuses=_ANSWERS, clock=clock
        )

    def instant(
        self, query: str, timeout: float, at: float | None = None
    ) -> Vector | QueryRefused | ScrapeFailed:
        """Evaluate ``query`` within ``timeout`` seconds, at the Unix time ``at`` if given."""
        parameters = {"query": query, "timeout": f"{max(1, math.ceil(timeout))}s"}
        if at is not None:
            parameters["time"] = f"{at:.3f}"
        got = self._fetcher.fetch(timeout, f"{self._url}?{urlencode(parameters)}")
        return got if isinstance(got, ScrapeFailed) else _answer(got)

    def close(self) -> None:
        """Close the connection that is kept between queries."""
        self._fetcher.close()


def _answer(got: Fetched) -> Vector | QueryRefused | ScrapeFailed:
    try:
        document = json.loads(got.body)
    except (ValueError, RecursionError) as error:
        return _no_answer(got, f"not valid JSON: {why(error)}")
    try:
        if document["status"] != "success":
            detail = f"{document.get('errorType', 'error')}: {document.get('error', '')}"
            return QueryRefused(" ".join(detail.split())[:200])
        data = document["data"]
        if data["resultType"] != "vector":
            return QueryRefused(f"must give an instant vector, gives a {data['resultType']}"[:200])
        warnings = (*document.get("warnings", ()), *document.get("infos", ()))
        series = tuple(_series(element) for element in data["result"] if "value" in element)
        return Vector(series, tuple(str(text) for text in warnings))
    except (ValueError, KeyError, TypeError, AttributeError):
        return _no_answer(got, "JSON of another form")


def _no_answer(got: Fetched, what: str) -> ScrapeFailed:
    detail = f"not an answer of Prometheus's API (status {got.status}): {what}"
    return failed(ScrapeFailure.WRONG_CONTENT, detail)


def _series(element: Mapping[str, Any]) -> Series:
    at, text = element["value"]
    labels = {str(name): str(value) for name, value in element["metric"].items()}
    return Series(labels.pop("__name__", ""), labels, float(text), float(at))
