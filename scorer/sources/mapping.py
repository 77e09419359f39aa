"""From a page to samples: which mapping applies, and what it reads.

The mapping is chosen anew for every page, so an upgraded engine is read rightly from
its first page on. A page that no mapping knows is a good scrape without samples.
"""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as Dict
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice

from scorer.core.samples import EngineSamples, Histogram, Outcomes, Page, Reading, ScrapeFailed
from scorer.core.vocabulary import Engine, Gap, ScrapeFailure
from scorer.mappings.engine import Mapping, NameList
from scorer.sources.content import BLANK, is_json, refusal
from scorer.sources.counts import histogram, merged_counters, outcomes
from scorer.sources.exposition import Exposition, Row, parse_exposition, unhurried
from scorer.sources.iterations import Iterations
from scorer.sources.parts import parts_of
from scorer.sources.signals import reading
from scorer.sources.view import View

ROUTER_LABEL = "server"
"""A row with this label is a router's word about an engine, not the engine's own."""

_MODEL_LABEL = "model_name"

MOST_NAMES, NAME_LENGTH = 256, 256
"""Models, and adapters, that a target is known by, and the characters of a name: a model's
is cut, an adapter of a longer one is left out.

More than any engine serves; a page that names thousands would make every snapshot large.
"""

VERSION_HOLDS = 60
"""Pages for which a version range is believed while the same series are there."""


class PageReader:
    """Reads the pages of one target, in order; not for two threads at once.

    ``mappings`` are tried in their order. ``models`` are shell-style patterns of the
    pool's models; they select among several models on one page. With ``engine`` a page
    of another engine is told by name and yields no value.
    """

    def __init__(
        self, mappings: Sequence[Mapping], models: Sequence[str] = (), engine: Engine | None = None
    ) -> None:
        own = [mapping for mapping in mappings if engine in (None, mapping.engine)]
        others = [mapping for mapping in mappings if mapping not in own]
        self._texts = [mapping for mapping in (*own, *others) if mapping.format == "text"]
        self._json = next((mapping for mapping in own if mapping.format == "json"), None)
        self._all_names = frozenset[str]().union(*(each.names for each in self._texts))
        self._wanted = self._all_names
        self._models = models
        self._engine = engine
        self._iterations = Iterations()
        self.mapping: Mapping | None = None
        """The mapping of the last good page, None when none fitted."""
        self._version = _Version()

    def read(
        self,
        body: bytes,
        content_type: str,
        *,
        complete: bool,
        check: Callable[[], object] = unhurried,
    ) -> Page | ScrapeFailed:
        """Return what the page says, whole, or why it says nothing.

        ``complete``: the transport proved the body whole. ``check`` raises TimeoutError
        when the page has taken too long.
        """
        parse = partial(parse_exposition, body, content_type, complete=complete, check=check)
        refused = refusal(body, content_type)
        if refused is not None:
            return refused
        if is_json(body, content_type):
            return self._read_json(body, check)
        view = self._parsed(parse)
        if isinstance(view, View) and self._wanted is not self._all_names:
            if self._fitting(view) is self.mapping:
                return self._page(view)
            self._wanted = self._all_names
            view = self._parsed(parse)
        if isinstance(view, ScrapeFailed):
            return view
        self._settle(self._fitting(view))
        return self._page(view)

    def read_rows(self, rows: Dict[str, list[Row]]) -> Page:
        """Return what the rows of one target say, by series name, however they were obtained."""
        view = _view(Exposition(rows), self._models)
        self._settle(self._fitting(view))
        return self._page(view)

    def _parsed(self, parse: Callable[..., Exposition | ScrapeFailed]) -> View | ScrapeFailed:
        page = parse(names=self._wanted)
        return page if isinstance(page, ScrapeFailed) else _view(page, self._models)

    def _fitting(self, view: View) -> Mapping | None:
        return next((mapping for mapping in self._texts if fits(mapping, view)), None)

    def _settle(self, mapping: Mapping | None) -> None:
        """Look from here on only for what ``mapping`` reads, and for signs of one before it."""
        self.mapping = mapping
        if mapping is not None:
            earlier = self._texts[: self._texts.index(mapping)]
            self._wanted = mapping.names | _signs(earlier)

    def _page(self, view: View) -> Page:
        return Page(None if self.mapping is None else self._restricted(self.mapping, view))

    def _read_json(self, body: bytes, check: Callable[[], object]) -> Page | ScrapeFailed:
        mapping = self._json
        if mapping is None or not body.lstrip(BLANK).startswith(b"["):
            return ScrapeFailed(ScrapeFailure.WRONG_CONTENT, "a JSON document, not metrics")
        view = self._iterations.read(body, mapping.idle_zero, check)
        if isinstance(view, ScrapeFailed):
            return view
        if isinstance(view, View) and not fits(mapping, view):
            detail = "a JSON list of other records, not metrics"
            return ScrapeFailed(ScrapeFailure.WRONG_CONTENT, detail)
        self.mapping = mapping
        if isinstance(view, Gap):
            return Page(_silent(mapping, view))
        return Page(samples_of(view, mapping, ""))

    def _restricted(self, mapping: Mapping, view: View) -> EngineSamples:
        if self._engine in (None, mapping.engine):
            return samples_of(view, mapping, self._version.of(view, mapping))
        return _silent(mapping, Gap.OTHER_ENGINE)


def fits(mapping: Mapping, view: View) -> bool:
    """Return whether the page is one that ``mapping`` describes."""
    return all(map(view.shows, mapping.requires)) and any(map(view.shows, mapping.detect))


def _signs(mappings: Iterable[Mapping]) -> frozenset[str]:
    """Return the families that tell that one of ``mappings`` applies."""
    return frozenset(
        condition.family
        for mapping in mappings
        for condition in (*mapping.requires, *mapping.detect)
    )


def _view(page: Exposition, models: Sequence[str]) -> View:
    """Keep the rows of the engine itself, and of the pool's models if the page has any."""
    own = [r for rows in page.rows.values() for r in rows if ROUTER_LABEL not in r.labels]
    names = _model_names(own) if models else ()
    served = {name for name in names if any(fnmatchcase(name, pattern) for pattern in models)}
    if not served and len(own) == sum(map(len, page.rows.values())):
        return View(page.rows, page)
    rows: dict[str, list[Row]] = {}
    for row in own:
        name = row.labels.get(_MODEL_LABEL)
        if not served or name is None or name in served:
            rows.setdefault(row.key[0], []).append(row)
    return View(rows, page)


def _model_names(rows: Iterable[Row]) -> tuple[str, ...]:
    return tuple(sorted({r.labels[_MODEL_LABEL] for r in rows if _MODEL_LABEL in r.labels}))


def samples_of(view: View, mapping: Mapping, version: str) -> EngineSamples:
    """Return what ``mapping`` reads from the rows of a page of an engine of ``version``."""
    sources, copies = mapping.signals, mapping.copies
    names = _model_names(row for rows in view.rows.values() for row in rows)
    return EngineSamples(
        engine=mapping.engine,
        mapping=mapping.name,
        version=version,
        running=reading(view, sources.running, copies),
        waiting=reading(view, sources.waiting, copies),
        kv_cache=reading(view, sources.kv_cache, copies),
        ttft=histogram(view, mapping.ttft),
        outcomes=outcomes(view, mapping.outcomes),
        progress=merged_counters(view, mapping.progress),
        lifetime=merged_counters(view, mapping.lifetime),
        preemptions=reading(view, sources.preemptions, copies),
        paused=reading(view, sources.paused, copies),
        capacity=reading(view, sources.capacity, copies),
        start_time=reading(view, sources.start_time, copies).value,
        asleep=_asleep(view, mapping),
        model_names=tuple(
            name[:NAME_LENGTH]
            for name in islice((name for name in names if name not in mapping.unnamed), MOST_NAMES)
        ),
        loras=_listed_names(view, mapping.loras),
        parts=parts_of(view, mapping),
    )


def _listed_names(view: View, sources: Iterable[NameList]) -> frozenset[str]:
    names: set[str] = set()
    for source in sources:
        rows = view.rows.get(source.family, ())
        newest = max(rows, key=lambda row: row.value, default=None)
        listed = [newest.labels.get(label, "") for label in source.labels] if newest else []
        names.update(name.strip() for text in listed for name in text.split(","))
    usable = sorted(name for name in names if 0 < len(name) <= NAME_LENGTH)
    return frozenset(usable[:MOST_NAMES])


def _asleep(view: View, mapping: Mapping) -> bool | None:
    """Return whether no engine of the target takes requests, None when it does not say."""
    awake = reading(view, mapping.signals.awake, mapping.copies).value
    if awake is not None:
        return awake == 0
    asleep = reading(view, mapping.signals.asleep, mapping.copies).value
    return None if asleep is None else asleep > 0


def _silent(mapping: Mapping, gap: Gap) -> EngineSamples:
    """Return samples of the engine in which every value is missing for one reason."""

    def own(sources: Sequence[object]) -> Gap:
        return gap if sources else Gap.NOT_OFFERED

    signals = mapping.signals
    return EngineSamples(
        engine=mapping.engine,
        mapping=mapping.name,
        version="",
        running=Reading.missing(own(signals.running)),
        waiting=Reading.missing(own(signals.waiting)),
        kv_cache=Reading.missing(own(signals.kv_cache)),
        ttft=Histogram(gap=own(mapping.ttft)),
        outcomes=Outcomes(gap=own(mapping.outcomes.failures)),
        preemptions=Reading.missing(own(signals.preemptions)),
        paused=Reading.missing(own(signals.paused)),
        capacity=Reading.missing(own(signals.capacity)),
    )


class _Version:
    """The version range of an engine, which its families tell.

    Families that only TYPE lines name are costly to look for, so a range holds until
    other rows appear, or for a while.
    """

    def __init__(self) -> None:
        self._seen: tuple[str, list[str]] | None = None
        self._left = 0
        self._text = ""

    def of(self, view: View, mapping: Mapping) -> str:
        """Return the version range of the engine whose page this is, "" when it is not known."""
        seen = (mapping.name, list(view.rows))
        self._left -= 1
        if self._left < 0 or seen != self._seen:
            self._seen, self._left = seen, VERSION_HOLDS
            self._text = _version(view, mapping)
        return self._text


def _version(view: View, mapping: Mapping) -> str:
    for rule in mapping.versions:
        if all(map(view.meets, rule.has)) and not any(map(view.meets, rule.lacks)):
            return rule.text
    return ""
