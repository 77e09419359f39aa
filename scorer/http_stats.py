"""Counts of HTTP requests, written on the event loop only and read from any thread.

A handler is a route as it is written in the application, with the names of its
parameters in angle brackets; whatever matches none counts under :data:`OTHER`. So no
client can make up a series.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scorer.histogram import Histogram, HistogramReading

HTTP_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds of the request duration buckets, in seconds."""

PICK, FEEDBACK, SNAPSHOT = "/pick", "/feedback", "/api/v1/snapshot"
HEALTHY, READY = "/-/healthy", "/-/ready"
HANDLERS = frozenset({PICK, FEEDBACK, SNAPSHOT, HEALTHY, READY})
"""Handlers on the event loop: their routes are their paths."""
OTHER = "other"
EXPECTED = (
    *((PICK, "GET", status) for status in (200, 400, 404, 503)),
    *((FEEDBACK, "POST", status) for status in (202, 400, 401, 404, 413, 503)),
    *((handler, "GET", 200) for handler in (HEALTHY, READY, "/metrics")),
    (READY, "GET", 503),
)
"""Handler, method and status of what is there from the start, at 0: what is usual is no news."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class HttpReading:
    """A copy: ``requests`` by (handler, method, status), ``durations`` by handler."""

    requests: Mapping[tuple[str, str, int], int]
    durations: Mapping[str, HistogramReading]


class HttpStats:
    """Answered requests by handler, method and status, and how long they took."""

    def __init__(self) -> None:
        """Start with no request."""
        self._requests: dict[tuple[str, str | bytes, int], int] = dict.fromkeys(EXPECTED, 0)
        told = {handler for handler, _, _ in EXPECTED} - {PICK}
        self._durations = {handler: Histogram(HTTP_BOUNDS) for handler in sorted(told)}

    def count(self, handler: str, method: str | bytes, status: int) -> None:
        """Count one answered request."""
        key = handler, method, status
        self._requests[key] = self._requests.get(key, 0) + 1

    def took(self, handler: str, seconds: float) -> None:
        """Add the duration of one answered request."""
        found = self._durations.get(handler)
        if found is None:
            found = self._durations[handler] = Histogram(HTTP_BOUNDS)
        found.observe(seconds)

    def read(self) -> HttpReading:
        """Return a copy of all counts."""
        requests: dict[tuple[str, str, int], int] = {}
        for (handler, given, status), count in list(self._requests.items()):
            method = given.decode("latin-1") if isinstance(given, bytes) else given
            key = handler, method if method in METHODS else OTHER, status
            requests[key] = requests.get(key, 0) + count
        durations = {name: each.read() for name, each in list(self._durations.items())}
        return HttpReading(requests, durations)
