"""Mappings as PromQL: for each signal the series that it is read from, of all targets at once.

Prometheus selects, and what is selected is read by the very mappings that read pages,
so both ways give the same values.
"""

import re
from collections.abc import Iterator, Sequence

from scorer.mappings.engine import Mapping
from scorer.mappings.rows import OfFamily

SIGNALS = ("running", "waiting", "kv_cache", "ttft", "errors", "progress", "state")
"""What a query is for; ``state`` is everything else that a mapping looks at."""


def families_by_signal(mappings: Sequence[Mapping]) -> dict[str, tuple[str, ...]]:
    """Return the series to ask for, each under the first signal that needs it."""
    taken: set[str] = set()
    found: dict[str, tuple[str, ...]] = {}
    for signal in SIGNALS:
        parts = [
            part for each in mappings if each.format == "text" for part in _parts(each, signal)
        ]
        names = dict.fromkeys(name for part in parts for name in part.families())
        bases = {name.removesuffix("_sum") for name in names if name.endswith("_sum")}
        wanted = tuple(name for name in names if name not in taken and name not in bases)
        taken.update(wanted)
        if wanted:
            found[signal] = wanted
    return found


def _parts(mapping: Mapping, signal: str) -> Iterator[OfFamily]:
    if signal == "ttft":
        yield from mapping.ttft
    elif signal == "errors":
        yield from mapping.outcomes.all()
    elif signal == "progress":
        yield from (*mapping.progress, *mapping.lifetime)
    elif signal == "state":
        yield from (*mapping.requires, *mapping.detect, *mapping.loras, *mapping.signals.all())
        for rule in mapping.versions:
            yield from (*rule.has, *rule.lacks)
    else:
        yield from getattr(mapping.signals, signal)


def selection(families: Sequence[str], selector: str) -> str:
    """Return the query for ``families``, restricted by the label matchers ``selector``."""
    if len(families) == 1:
        return f"{families[0]}{{{selector}}}" if selector else families[0]
    names = "|".join(re.escape(name) for name in families)
    matchers = ",".join(part for part in (f'__name__=~"{names}"', selector) if part)
    return f"{{{matchers}}}"


def newest(families: Sequence[str], selector: str) -> str:
    """Return the query for the times, in Unix seconds, of the newest samples of ``families``."""
    return f"timestamp({selection(families, selector)})"
