"""Every page of vLLM in the data folder, with the values that a person reads from it."""

import csv
from pathlib import Path

import pytest

from scorer.core.samples import EngineSamples, Page
from scorer.core.vocabulary import Gap

PAGES = Path(__file__).parent.parent / "data" / "expositions"
GOLDEN = list(csv.DictReader((PAGES / "golden.csv").read_text().splitlines()))


def load(name: str) -> bytes:
    """Return a page of the data folder."""
    return (PAGES / f"{name}.prom").read_bytes()


def cells(samples: EngineSamples) -> dict[str, str]:
    """Return samples as they stand in golden.csv: an empty cell for what is missing."""
    outcomes = samples.outcomes
    failures = None if outcomes.gap else max(sum(way.values()) for way in outcomes.failures)
    row = {
        "generation": samples.mapping.removeprefix("vllm_"),
        "version": samples.version,
        "running": samples.running.value,
        "waiting": samples.waiting.value,
        "kv_cache": samples.kv_cache.value,
        "ttft_count": samples.ttft.count,
        "ttft_sum": round(samples.ttft.sum, 6),
        "failures": failures,
        "successes": sum(outcomes.successes.values()),
        "refusals": sum(outcomes.saturations.values()),
        "preemptions": samples.preemptions.value,
        "capacity": samples.capacity.value,
        "asleep": {None: "", True: "yes", False: "no"}[samples.asleep],
        "start_time": samples.start_time,
        "model": " ".join(samples.model_names),
    }
    return {name: "" if value is None else str(value) for name, value in row.items()}


def same(cell: str, value: str) -> bool:
    """Return whether two cells say the same, 4 and 4.0 included."""
    try:
        return float(cell) == float(value)
    except ValueError:
        return cell == value


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden["page"])
def test_page_is_read_as_a_person_reads_it(read, golden):
    """Every value of the page, or that it has none."""
    found = cells(read(load(golden["page"])).samples)
    differing = {
        name: (golden[name], value)
        for name, value in found.items()
        if not same(golden[name], value)
    }
    assert found.keys() | {"page"} == golden.keys()
    assert differing == {}


def test_every_page_has_its_values():
    """A page that is added to the folders without values to compare is noticed."""
    found = {
        f"{folder}/{path.stem}"
        for folder in ("vllm", "vllm-0.32-real")
        for path in (PAGES / folder).glob("*.prom")
    }
    assert found == {golden["page"] for golden in GOLDEN}


def test_fresh_multi_process_page_has_no_gauges(read):
    """Declared without samples is neither absent nor 0."""
    samples = read(load("vllm-0.32-real/20_dp2_just_started")).samples
    gaps = {samples.running.gap, samples.waiting.gap, samples.kv_cache.gap}
    assert gaps == {Gap.NO_SAMPLES}


def test_old_page_without_error_counters_says_so(read):
    """Version 0.4 counts failures nowhere: unavailable, not 0."""
    assert read(load("vllm/v0-0.4")).samples.outcomes.gap is Gap.FAMILY_ABSENT


def test_ttft_is_kept_by_series(read):
    """Each data-parallel engine keeps its own sum and count, under one key."""
    ttft = read(load("vllm/v1-dp2")).samples.ttft
    family, model = "vllm:time_to_first_token_seconds", ("model_name", "deepseek-ai/DeepSeek-V3")
    keys = [(family, (("engine", n), model)) for n in ("0", "1")]
    assert ttft.counts == dict(zip(keys, (420, 231), strict=True))
    assert ttft.sums == dict(zip(keys, (138.35485974447985, 82.43458110677928), strict=True))


def test_progress_has_every_counter_that_moves_within_a_request(read):
    """Tokens read, tokens written and steps, per engine."""
    progress = read(load("vllm-0.32-real/21_dp2_busy")).samples.progress
    by_family: dict[str, float] = {}
    for (family, _), value in progress.items():
        by_family[family] = by_family.get(family, 0) + value
    assert by_family == {
        "vllm:generation_tokens_total": 3004 + 3525,
        "vllm:prompt_tokens_total": 11983 + 13890,
        "vllm:iteration_tokens_total_count": 1362 + 1361,
    }
    assert len(progress) == 6


@pytest.mark.parametrize(
    "name",
    [
        "litellm-excerpt",
        "llamacpp",
        "production-stack-router",
        "sglang-0.5.3",
        "tgi",
        "vllm-router",
    ],
)
def test_page_of_something_else_is_no_engine(read, name):
    """A good page that no mapping knows, a router's page with an engine's names included."""
    assert read(load(f"others/{name}")) == Page(None)


def test_page_of_an_emulated_worker_is_read_by_its_families(read):
    """A worker that prints some of vLLM's families is read as far as they go."""
    samples = read(load("others/dynamo-worker-mocker")).samples
    values = (samples.running.value, samples.waiting.value, samples.kv_cache.value)
    assert values == (2, 0, 0.94921875)
    assert samples.capacity.gap is Gap.FAMILY_ABSENT
