"""Targets that an HTTP server lists, in Prometheus' format.

Fetched like a page of metrics: one deadline for the whole answer, a limit on its size,
redirects within the host only.
"""

from urllib.parse import urlsplit

from scorer.config.discovery import HttpSdConfig
from scorer.core.samples import ScrapeFailed
from scorer.sources.discovery.answers import Answer, Failure, LabelSets
from scorer.sources.discovery.groups import GroupsError, parse_json
from scorer.sources.fetch import Fetched, Fetcher

RETRY = 10.0
"""Seconds until a server that failed is asked again, if that is sooner than its interval."""
DEADLINE = 0.8
"""Share of the time until a server is asked again, that an answer may take."""
URL = "__meta_url"


class HttpSd:
    """Asks the server of one ``http_sd_configs`` entry."""

    def __init__(self, config: HttpSdConfig) -> None:
        self.name = config.url
        self.interval = config.refresh_interval
        self.retry = min(RETRY, self.interval)
        self._fetcher = Fetcher(
            config.url,
            DEADLINE * self.retry,
            client=config.http_client(),
            headers={
                "Accept": "application/json",
                "X-Prometheus-Refresh-Interval-Seconds": f"{self.interval:g}",
            },
        )

    def ask(self) -> Answer:
        """Return the targets that the server lists."""
        fetched = self._fetcher.fetch()
        if isinstance(fetched, ScrapeFailed):
            return {self.name: Failure(f"{fetched.reason}: {fetched.detail}")}
        return {self.name: self._parsed(fetched)}

    def close(self) -> None:
        """Close the kept connection."""
        self._fetcher.close()

    def _parsed(self, fetched: Fetched) -> LabelSets | Failure:
        kind = fetched.content_type.partition(";")[0].strip().lower()
        if kind != "application/json":
            return Failure(f"content type must be application/json, got {kind[:60] or 'none'}")
        try:
            found = parse_json(fetched.body)
        except GroupsError as error:
            return Failure(f"the answer of {urlsplit(self.name).netloc} {error}")
        return tuple({**labels, URL: self.name} for labels in found)
