"""Reading a gateway's page: TTFT and outcomes by the target that each row names."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from scorer.core.gateway import failure_share
from scorer.core.samples import Counters, Histogram, ScrapeFailed, SeriesKey
from scorer.core.vocabulary import Gap
from scorer.mappings.gateway import GatewayPreset, RequestCounter, TargetNames
from scorer.sources.content import refusal
from scorer.sources.counts import histogram
from scorer.sources.exposition import Row, parse_exposition, unhurried
from scorer.sources.view import View, checked

_STATUS_CLASS = re.compile(r"([1-5])xx", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Named:
    """How a gateway calls a target: ``host`` as it writes it, ``port`` 0 when it has none.

    ``pool`` is the pool's name where the gateway knows it, ``path`` what follows the port.
    """

    host: str
    port: int = 0
    path: str = ""
    pool: str = ""

    def __str__(self) -> str:
        """Return ``host:port``, or the host alone."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host


ANY = Named("*")
"""Stands for the only target of a pool, where rows name none."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a page says of one target: cumulative TTFT and requests by series.

    ``requests`` are grouped by the share of a failure (0: a success) that each is.
    """

    ttft: Histogram
    requests: Mapping[float, Counters]


@dataclass(frozen=True, slots=True)
class GatewayPage:
    """A good page: its targets, and why it tells no TTFT when it tells none."""

    targets: Mapping[Named, Counted]
    gap: Gap | None = None


def parse_gateway(
    body: bytes,
    content_type: str,
    preset: GatewayPreset,
    *,
    complete: bool,
    check: Callable[[], object] = unhurried,
) -> GatewayPage | ScrapeFailed:
    """Return what a gateway's text page says, whole, or why it says nothing.

    ``check`` raises TimeoutError when the page has taken too long.
    """
    refused = refusal(body, content_type)
    if refused is not None:
        return refused
    page = parse_exposition(body, content_type, preset.names, complete=complete, check=check)
    if isinstance(page, ScrapeFailed):
        return page
    return read_gateway(View(page.rows, page), preset)


def read_gateway(view: View, preset: GatewayPreset) -> GatewayPage:
    """Return what ``preset`` reads from the rows of a page."""
    whole = histogram(view, preset.ttft)
    names = _Names(view, preset.target)
    ttfts = _split(whole, names)
    requests: dict[Named, dict[float, dict[SeriesKey, float]]] = {}
    for counter in preset.requests:
        for row, share in _shares(view, counter):
            target = names.of_labels(row.labels, counter.target_label)
            if target is not None:
                by_share = requests.setdefault(target, {})
                by_share.setdefault(share, {})[row.key] = row.value
    told = dict.fromkeys((*ttfts, *requests))
    none = Histogram(gap=whole.gap or Gap.NO_SAMPLES)
    targets = {name: Counted(ttfts.get(name, none), requests.get(name, {})) for name in told}
    return GatewayPage(targets, whole.gap)


def _split(whole: Histogram, names: "_Names") -> dict[Named, Histogram]:
    """Return the histogram of each target; rows without one only where all are."""
    sums: dict[Named, dict[SeriesKey, float]] = {}
    counts: dict[Named, dict[SeriesKey, float]] = {}
    for key, count in whole.counts.items():
        target = names.of_labels(dict(key[1])) or ANY
        counts.setdefault(target, {})[key] = count
        sums.setdefault(target, {})[key] = whole.sums[key]
    if len(counts) > 1:
        counts.pop(ANY, None)
    return {target: Histogram(sums[target], found) for target, found in counts.items()}


def _shares(view: View, counter: RequestCounter) -> Iterator[tuple[Row, float]]:
    """Yield each readable row with the share of a failure that its requests are."""
    for row in view.chosen(counter):
        status = counter.status
        if counter.status_label is not None:
            status = _status(row.labels.get(counter.status_label, ""))
        share = None if status is None else failure_share(status)
        if share is not None and not isinstance(checked(row.value), Gap):
            yield row, share


def _status(text: str) -> int | None:
    """Return an HTTP status, of a class like ``5xx`` its first one."""
    family = _STATUS_CLASS.fullmatch(text)
    if family:
        return int(family[1]) * 100
    return int(text) if text.isdecimal() and len(text) == 3 else None


class _Names:
    """Finds the target that a row names."""

    def __init__(self, view: View, names: TargetNames | None) -> None:
        self._names = names
        self._known: dict[str, str] = {}
        self._regex = re.compile(names.regex) if names and names.regex else None
        if names and names.join:
            for row in view.rows.get(names.join.family, ()):
                text = row.labels.get(names.join.value, "")
                self._known[row.labels.get(names.join.label, "")] = text

    def of_labels(self, labels: Mapping[str, str], own_label: str | None = None) -> Named | None:
        """Return how the row names its target, None when it names none."""
        if self._names is None:
            return ANY
        text = labels.get(own_label or self._names.label, "")
        if self._names.join and own_label is None:
            text = self._known.get(text, "")
        pool = labels.get(self._names.pool_label or "", "")
        return parse_named(text, pool, self._regex)


def parse_named(text: str, pool: str = "", regex: re.Pattern[str] | None = None) -> Named | None:
    """Return the target that a label's ``text`` names, without scheme; None for none."""
    if regex is not None:
        match = regex.search(text)
        if match is None:
            return None
        groups = match.groupdict()
        text = f"{groups['host']}:{groups.get('port') or ''}" if "host" in groups else match[1]
    if not text:
        return None
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        host, port = parts.hostname, parts.port or 0
    except ValueError:
        return Named(text, pool=pool)
    return Named(host or text, port, parts.path.rstrip("/"), pool)
