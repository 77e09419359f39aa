"""What one round of queries tells of targets whose source is Prometheus."""

from collections.abc import Callable, Iterator, Mapping

from scorer.config.prometheus import PrometheusConfig
from scorer.core.samples import Page, ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.sources.advice import on_samples
from scorer.sources.configured import pool_source
from scorer.sources.diagnosis import Diagnosis
from scorer.sources.prometheus import PoolQuestion, Told


def diagnose_round(
    question: PoolQuestion,
    server: PrometheusConfig,
    targets: Mapping[str, tuple[str, str]],
    timeout: float,
    clocks: tuple[Callable[[], float], Callable[[], float]],
) -> Iterator[Diagnosis]:
    """Ask once, within ``timeout`` seconds, and say what is known of each target.

    ``targets`` are what it is called and the address that Prometheus scrapes, by name;
    ``clocks`` give monotonic and Unix seconds.
    """
    source = pool_source(question, server)
    clock, wall = clocks
    names = {address: name for name, (_, address) in targets.items()}
    try:
        got = source.ask(names, timeout, clock, wall())
    finally:
        source.close()
    whence = f"read from Prometheus at {server.url.partition('?')[0]}, the source of its pool"
    for name, (shown, address) in targets.items():
        if isinstance(got, ScrapeFailed):
            hint = "is prometheus.url right, and does it answer this machine?"
            yield _failure(shown, got, whence, hint)
            continue
        told = got.told.get(name, Told(ScrapeFailed(ScrapeFailure.EMPTY, "nothing is told of it")))
        if isinstance(told.result, ScrapeFailed):
            yield _failure(shown, told.result, whence, _where(question, address), *got.remarks)
        else:
            yield _page(shown, told.result, question, whence, got.remarks)


def _where(question: PoolQuestion, address: str) -> str:
    more = f", {question.selector}" if question.selector else ""
    labels = f'{{{question.instance_label}="{address}"{more}}}'
    return f"does Prometheus scrape it, and lately? Look for series with {labels}"


def _failure(shown: str, failed: ScrapeFailed, *hints: str) -> Diagnosis:
    return Diagnosis(shown, None, failed.reason.value, failed.detail, hints)


def _page(
    shown: str, page: Page, question: PoolQuestion, whence: str, remarks: tuple[str, ...]
) -> Diagnosis:
    samples = page.samples
    if samples is None:
        return Diagnosis.unknown(shown, (whence, *remarks))
    mapping = next((each for each in question.mappings if each.name == samples.mapping), None)
    return Diagnosis(shown, samples, hints=(whence, *remarks, *on_samples(b"", samples, mapping)))
