"""Prometheus as the source of a pool: its signals by a handful of instant queries.

All queries of a round are evaluated at one time, and their series are read by the same
mappings that read pages. A sample is as old as Prometheus's own scrape: it is handed on
once, with its own time, and what has grown too old is a failed scrape.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from scorer.core.samples import Page, ScrapeFailed
from scorer.core.vocabulary import Engine, ScrapeFailure
from scorer.mappings.engine import Mapping as EngineMapping
from scorer.mappings.promql import families_by_signal, newest, selection
from scorer.sources.exposition import Row
from scorer.sources.gateway import TargetIndex
from scorer.sources.gateway_page import parse_named
from scorer.sources.mapping import PageReader
from scorer.sources.own_queries import OWN, bare, replaced
from scorer.sources.prometheus_api import PrometheusApi, QueryRefused, Series, Vector

AGE = "age"
UP = "up"


@dataclass(frozen=True, slots=True)
class PoolQuestion:
    """What is asked for a pool: ``selector`` restricts, ``own`` queries replace shipped ones.

    ``instance_label`` joins the answers with targets; samples older than ``max_age``
    seconds are missing.
    """

    engine: Engine
    mappings: tuple[EngineMapping, ...]
    models: tuple[str, ...] = ()
    selector: str = ""
    own: tuple[tuple[str, str], ...] = ()
    instance_label: str = "instance"
    max_age: float = 60.0


@dataclass(frozen=True, slots=True)
class Told:
    """What a round says of one target; ``age`` is that of its newest sample, in seconds."""

    result: Page | ScrapeFailed
    age: float = 0.0


@dataclass(frozen=True, slots=True)
class Round:
    """What a round says of the targets that have something new, and what Prometheus remarked."""

    told: Mapping[str, Told]
    remarks: tuple[str, ...] = ()


class PrometheusSource:
    """Asks ``api`` what ``question`` wants to know; not for two threads at once."""

    def __init__(self, api: PrometheusApi, question: PoolQuestion) -> None:
        engine = [each for each in question.mappings if each.engine is question.engine]
        families = families_by_signal(engine)
        everywhere = families.get("running") or families.get("ttft") or ()
        queries = {
            signal: selection(names, question.selector) for signal, names in families.items()
        }
        self._queries = {**queries, **{OWN + name: query for name, query in question.own}}
        self._queries[UP] = selection((UP,), question.selector)
        if everywhere:
            self._queries[AGE] = newest(everywhere, question.selector)
        self._api = api
        self._question = question
        self._readers: dict[str, PageReader] = {}
        self._newest: dict[str, float] = {}

    def ask(
        self,
        targets: Mapping[str, str],
        timeout: float,
        clock: Callable[[], float],
        unix_time: float,
    ) -> Round | ScrapeFailed:
        """Return what is new of ``targets``, or why nothing is known.

        ``targets`` are names by metrics address.
        All queries together take at most ``timeout`` seconds and are evaluated at
        ``unix_time``.
        """
        until = clock() + timeout
        answers: dict[str, Vector | QueryRefused] = {}
        for name, query in self._queries.items():
            left = until - clock()
            if left <= 0:
                return ScrapeFailed(
                    ScrapeFailure.TIMEOUT, f"Prometheus takes more than {timeout:g}s"
                )
            got = self._api.instant(query, left, unix_time)
            if isinstance(got, ScrapeFailed):
                # That Prometheus refuses connections says nothing of a target.
                return ScrapeFailed(got.reason, f"Prometheus: {got.detail}"[:200])
            answers[name] = got
        index = TargetIndex(targets)
        joined = {name: self._joined(got, index) for name, got in answers.items()}
        told = {target: self._told(target, joined, unix_time) for target in targets.values()}
        self._forget(told)
        new = {target: each for target, each in told.items() if each is not None}
        return Round(new, tuple(_remarks(answers)))

    def _joined(
        self, answer: Vector | QueryRefused, index: TargetIndex[str]
    ) -> Mapping[str, list[Series]] | None:
        """Return the series of each target, None when the query was refused."""
        if isinstance(answer, QueryRefused):
            return None
        label = self._question.instance_label
        found: dict[str, list[Series]] = {}
        known: dict[str, str | None] = {}
        for series in answer.series:
            text = series.labels.get(label, "")
            if text not in known:
                named = parse_named(text)
                known[text] = index.find(named) if named else None
            target = known[text]
            if target is not None:
                found.setdefault(target, []).append(series)
        return found

    def _told(
        self, target: str, joined: Mapping[str, Mapping[str, list[Series]] | None], now: float
    ) -> Told | None:
        """Return what is new of a target, None when nothing is."""
        times = [series.value for series in (joined.get(AGE) or {}).get(target, ())]
        if AGE in self._queries and joined[AGE] is not None and not times:
            return Told(_absent((joined.get(UP) or {}).get(target, ())))
        at = max(times, default=now)
        age = max(0.0, now - at)
        if age > self._question.max_age:
            limit = self._question.max_age
            detail = f"Prometheus's newest sample is {age:.0f}s old, at most {limit:g}s"
            return Told(ScrapeFailed(ScrapeFailure.EMPTY, detail), 0.0)
        if times and at == self._newest.get(target):
            return None
        self._newest[target] = at
        return Told(self._page(target, joined), age)

    def _page(self, target: str, joined: Mapping[str, Mapping[str, list[Series]] | None]) -> Page:
        question = self._question
        dropped = frozenset({question.instance_label, "job"})
        rows: dict[str, list[Row]] = {}
        for name, found in joined.items():
            if name in (AGE, UP) or name.startswith(OWN):
                continue
            for series in (found or {}).get(target, ()):
                rows.setdefault(series.name, []).append(series.row(dropped))
        reader = self._readers.get(target)
        if reader is None:
            reader = PageReader(question.mappings, question.models, question.engine)
            self._readers[target] = reader
        samples = reader.read_rows(rows).samples
        refused = {name for name, found in joined.items() if found is None}
        own = {name: (joined[OWN + name] or {}).get(target, ()) for name, _ in question.own}
        if samples is None and not any(own.values()):
            return Page(None)
        return Page(replaced(samples or bare(question.engine), own, refused))

    def _forget(self, told: Mapping[str, object]) -> None:
        for memory in (self._readers, self._newest):
            for target in [each for each in memory if each not in told]:
                del memory[target]

    def close(self) -> None:
        """Close the connection to Prometheus."""
        self._api.close()


def _absent(up: Iterable[Series]) -> ScrapeFailed:
    """Return why Prometheus has no sample of a target."""
    if any(series.value == 0 for series in up):
        return ScrapeFailed(ScrapeFailure.CONNECT, "Prometheus cannot scrape it (up is 0)")
    return ScrapeFailed(ScrapeFailure.EMPTY, "Prometheus has no sample of this instance")


def _remarks(answers: Mapping[str, Vector | QueryRefused]) -> Iterable[str]:
    """Yield what Prometheus said besides values."""
    for name, answer in answers.items():
        if isinstance(answer, QueryRefused):
            yield f"{name}: {answer.detail}"
        else:
            yield from (f"{name}: {warning}" for warning in answer.warnings)
