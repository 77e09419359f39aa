"""Counts of what others pull from the daemon to do their own balancing."""

import threading
from collections.abc import Mapping
from enum import StrEnum


class Output(StrEnum):
    """A form in which others pull targets or scores."""

    HAPROXY_AGENT = "haproxy_agent"
    ENVOY_EDS = "envoy_eds"
    HTTP_SD = "http_sd"
    SNAPSHOT = "snapshot"


class OutputStats:
    """Requests answered by each output; every method may be called from any thread."""

    def __init__(self) -> None:
        """Start with nothing answered."""
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(Output, 0)

    def answered(self, output: Output) -> None:
        """Count one request that ``output`` answered."""
        with self._lock:
            self._counts[output] += 1

    def read(self) -> Mapping[Output, int]:
        """Return a copy with every output."""
        with self._lock:
            return dict(self._counts)
