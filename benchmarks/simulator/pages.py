"""What a scrape of a simulated engine yields: the samples that its page would be read as.

A page is written by the demo and read by the daemon's mapping once, for names and labels;
after that the values are put where the mapping puts them. That is fifty times as fast as
writing and reading the page each time (a test compares both).
"""

from dataclasses import replace

from benchmarks.simulator.engine import SimEngine
from scorer.core.samples import Counters, EngineSamples, Page, Reading
from scorer.demo.exposition import EnginePage
from scorer.mappings.shipped import engine_mappings
from scorer.sources.mapping import PageReader

BOOT = 1_700_000_000.0
"""Unix seconds of second 0."""
FINISHED = ("finished_reason", "length")


def read_page(engine: SimEngine) -> EngineSamples:
    """Return what the daemon reads from the page of an engine, the long way."""
    page = EnginePage(engine, "m", BOOT + engine.started_at, {})
    read = PageReader(engine_mappings()).read(
        page.render(), "text/plain; version=0.0.4", complete=True
    )
    if not isinstance(read, Page) or read.samples is None:
        raise TypeError(f"the page of an engine cannot be read: {read}")
    return read.samples


class Sampler:
    """Reads one engine again and again."""

    def __init__(self, engine: SimEngine) -> None:
        """Learn from one page where the values belong."""
        self._engine = engine
        self._form = read_page(engine)

    def __call__(self) -> Page:
        """Return the page as of this moment."""
        engine, form = self._engine, self._form
        tally = engine.tally
        steps = float(sum(tally.step_tokens._counts))  # noqa: SLF001 - of the same project
        seen = float(sum(tally.ttft._counts))  # noqa: SLF001 - of the same project
        moving = {
            "vllm:generation_tokens_total": float(tally.generation_tokens),
            "vllm:prompt_tokens_total": float(tally.prompt_tokens),
            "vllm:iteration_tokens_total_count": steps,
        }
        progress = {key: moving[key[0]] for key in form.progress}
        return Page(
            replace(
                form,
                running=Reading(float(engine.running)),
                waiting=Reading(float(engine.waiting)),
                kv_cache=Reading(engine.kv_usage),
                ttft=replace(
                    form.ttft,
                    sums=dict.fromkeys(form.ttft.sums, tally.ttft.sum),
                    counts=dict.fromkeys(form.ttft.counts, seen),
                ),
                outcomes=replace(form.outcomes, successes=self._successes()),
                progress=progress,
                preemptions=Reading(float(tally.preemptions)),
                start_time=BOOT + engine.started_at,
            )
        )

    def _successes(self) -> Counters:
        finished = float(self._engine.tally.finished)
        series = self._form.outcomes.successes
        return {key: finished if FINISHED in key[1] else 0.0 for key in series}
