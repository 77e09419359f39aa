"""From a page to samples: which mapping applies, and what it reads.

The mapping is chosen anew for every page, so an upgraded engine is read rightly from
its first page on. A page that no mapping knows is a good scrape without samples.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from scorer.core.samples import EngineSamples, Outcomes, Page, ScrapeFailed
from scorer.core.vocabulary import Gap
from scorer.sources.content import refusal
from scorer.sources.exposition import Exposition, Row, parse_exposition
from scorer.sources.schema import Mapping, OutcomeSources
from scorer.sources.signals import View, counters, first_counters, histogram, reading

ROUTER_LABEL = "server"
"""A row with this label is a router's word about an engine, not the engine's own."""

_MODEL_LABEL = "model_name"


def read_page(
    body: bytes,
    content_type: str,
    complete: bool,  # noqa: FBT001
    mappings: Sequence[Mapping],
    models: Sequence[str] = (),
) -> Page | ScrapeFailed:
    """Return what the page says, whole, or why it says nothing.

    ``complete``: the transport proved the body whole. ``models`` are shell-style
    patterns of the pool's models; they select among several models on one page.
    """
    refused = refusal(body, content_type)
    if refused is not None:
        return refused
    names = frozenset[str]().union(*(mapping.names for mapping in mappings))
    page = parse_exposition(body, content_type, names, complete=complete)
    if isinstance(page, ScrapeFailed):
        return page
    view = _view(page, models)
    for mapping in mappings:
        if any(view.shows(condition) for condition in mapping.detect):
            return Page(_samples(view, mapping))
    return Page(None)


def _view(page: Exposition, models: Sequence[str]) -> View:
    """Keep the rows of the engine itself, and of the pool's models if the page has any."""
    own = [r for rows in page.rows.values() for r in rows if ROUTER_LABEL not in r.labels]
    names = _model_names(own)
    served = {name for name in names if any(fnmatchcase(name, pattern) for pattern in models)}
    rows: dict[str, list[Row]] = {}
    for row in own:
        name = row.labels.get(_MODEL_LABEL)
        if not served or name is None or name in served:
            rows.setdefault(row.key[0], []).append(row)
    return View(rows, page.declared)


def _model_names(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(sorted({r.labels[_MODEL_LABEL] for r in rows if _MODEL_LABEL in r.labels}))


def _samples(view: View, mapping: Mapping) -> EngineSamples:
    sources = mapping.signals
    awake = reading(view, sources.awake).value
    progress = [counters(view, source) or {} for source in mapping.progress]
    return EngineSamples(
        engine=mapping.engine,
        mapping=mapping.name,
        version=_version(view, mapping),
        running=reading(view, sources.running),
        waiting=reading(view, sources.waiting),
        kv_cache=reading(view, sources.kv_cache),
        ttft=histogram(view, mapping.ttft),
        outcomes=_outcomes(view, mapping.outcomes),
        progress={key: value for found in progress for key, value in found.items()},
        preemptions=reading(view, sources.preemptions),
        capacity=reading(view, sources.capacity),
        start_time=reading(view, sources.start_time).value,
        asleep=None if awake is None else awake == 0,
        model_names=_model_names([row for rows in view.rows.values() for row in rows]),
    )


def _outcomes(view: View, sources: OutcomeSources) -> Outcomes:
    """Read every way of counting failures, each always in its own place."""
    ways = [counters(view, source) for source in sources.failures]
    told = any(way is not None for way in ways)
    declared = any(view.mentions(source.family) for source in sources.failures)
    return Outcomes(
        failures=tuple(way or {} for way in ways),
        successes=first_counters(view, sources.successes),
        saturations=first_counters(view, sources.saturations),
        gap=None if told else Gap.NO_SAMPLES if declared else Gap.FAMILY_ABSENT,
    )


def _version(view: View, mapping: Mapping) -> str:
    for rule in mapping.versions:
        if all(map(view.meets, rule.has)) and not any(map(view.meets, rule.lacks)):
            return rule.text
    return ""
