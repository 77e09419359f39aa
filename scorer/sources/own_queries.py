"""Values from queries of the user's own, in the place of those that a mapping reads."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from scorer.core.samples import Counters, EngineSamples, Histogram, Outcomes, Reading
from scorer.core.vocabulary import Engine, Gap
from scorer.sources.prometheus_api import Series
from scorer.sources.view import checked

OWN = "own "
"""What the names of such queries begin with, to tell them from shipped ones."""

Own = Mapping[str, Sequence[Series]]
"""The answers by what the query is for."""


def bare(engine: Engine) -> EngineSamples:
    """Return samples of an engine that no mapping fits: nothing but gaps."""
    missing = Reading.missing(Gap.FAMILY_ABSENT)
    return EngineSamples(
        engine=engine,
        mapping="queries",
        version="",
        running=missing,
        waiting=missing,
        kv_cache=missing,
        ttft=Histogram(gap=Gap.FAMILY_ABSENT),
        outcomes=Outcomes(gap=Gap.FAMILY_ABSENT),
    )


def replaced(samples: EngineSamples, own: Own, refused: Collection[str]) -> EngineSamples:
    """Return ``samples`` with the values of ``own``, and gaps where a query was ``refused``."""
    return replace(
        samples,
        running=_gauge("running", samples.running, own, refused),
        waiting=_gauge("waiting", samples.waiting, own, refused),
        kv_cache=_gauge("kv_cache", samples.kv_cache, own, refused),
        ttft=_ttft(samples.ttft, own, refused),
        outcomes=_outcomes(samples.outcomes, own, refused),
    )


def _gauge(name: str, shipped: Reading, own: Own, refused: Collection[str]) -> Reading:
    if (OWN + name if name in own else name) in refused:
        return Reading.missing(Gap.QUERY_FAILED)
    return _reading(own[name], ratio=name == "kv_cache") if name in own else shipped


def _ttft(shipped: Histogram, own: Own, refused: Collection[str]) -> Histogram:
    names = [name for name in ("ttft_sum", "ttft_count") if name in own]
    asked = [OWN + name for name in names] or ["ttft"]
    if any(name in refused for name in asked):
        return Histogram(gap=Gap.QUERY_FAILED)
    return _histogram(own["ttft_sum"], own["ttft_count"]) if names else shipped


def _outcomes(shipped: Outcomes, own: Own, refused: Collection[str]) -> Outcomes:
    if (OWN + "failures" if "failures" in own else "errors") in refused:
        return Outcomes(gap=Gap.QUERY_FAILED)
    if "failures" not in own:
        return shipped
    failures, successes = _counters(own["failures"]), _counters(own.get("successes", ()))
    return Outcomes((failures,), successes, gap=None if failures else Gap.NO_SAMPLES)


def _counters(series: Sequence[Series]) -> Counters:
    return {each.row(frozenset()).key: each.value for each in series}


def _reading(series: Sequence[Series], *, ratio: bool) -> Reading:
    """Return the sum of counts, the maximum of ratios."""
    if not series:
        return Reading.missing(Gap.NO_SAMPLES)
    good: list[float] = []
    for each in series:
        value = checked(each.value, "ratio" if ratio else "number")
        if isinstance(value, Gap):
            return Reading.missing(value)
        good.append(value)
    return Reading(max(good) if ratio else sum(good))


def _histogram(sums: Sequence[Series], counts: Sequence[Series]) -> Histogram:
    total, count = _reading(sums, ratio=False), _reading(counts, ratio=False)
    if total.value is None or count.value is None:
        return Histogram(gap=total.gap or count.gap)
    key = ("ttft", ())
    return Histogram({key: total.value}, {key: count.value})
