"""Every page in the data folder, with the values that a person reads from it."""

from pathlib import Path

import pytest

from scorer.core.samples import Page
from scorer.core.vocabulary import Gap
from scorer.doctor import run_doctor

PAGES = Path(__file__).parent.parent / "data" / "expositions"
GOLDEN = (PAGES / "golden.csv").read_text().splitlines()


def load(name: str) -> bytes:
    """Return a page of the data folder."""
    return (PAGES / f"{name}.prom").read_bytes()


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """Return the lines of the table that the doctor prints for the whole folder."""
    with pytest.MonkeyPatch.context() as patch:
        found: list[str] = []
        patch.setattr("scorer.doctor.click.echo", lambda text, nl=True: found.append(text))
        run_doctor([str(PAGES)], "csv", 2.0)
    return found[0].splitlines()


@pytest.mark.parametrize("line", GOLDEN, ids=[line.partition(",")[0] for line in GOLDEN])
def test_page_is_read_as_a_person_reads_it(printed, line):
    """Every value of the page, or the reason why it has none."""
    assert line in printed


def test_table_has_nothing_else(printed):
    """A page that is added to the folders without values to compare is noticed."""
    assert len(printed) == len(GOLDEN)


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


def test_milliseconds_become_seconds(read):
    """Triton's histogram is in milliseconds by its name."""
    ttft = read(load("triton/trtllm-histogram")).samples.ttft
    assert ttft.sum / ttft.count == pytest.approx(0.464784, abs=1e-6)


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


def test_engines_of_a_page_are_told_apart(read):
    """Each with whether it has work, and all that moves with it; a single engine is no part."""
    parts = read(load("vllm-0.32-real/21_dp2_busy")).samples.parts
    assert {name: part.working for name, part in parts.items()} == {"0": True, "1": True}
    assert (
        sum(part.progress for part in parts.values()) == 3004 + 3525 + 11983 + 13890 + 1362 + 1361
    )
    assert not read(load("vllm/v1-latest")).samples.parts


@pytest.mark.parametrize("name", ["tgi/tgi", "sglang/0.5.9", "tensorrt_llm/prometheus"])
def test_counters_that_move_at_the_end_of_a_request_are_no_progress(read, name):
    """They tell a restart by going back, and nothing of a request under way."""
    samples = read(load(name)).samples
    assert not samples.progress
    assert samples.lifetime


@pytest.mark.parametrize(
    "name",
    ["gateways/litellm", "gateways/apisix", "others/production-stack-router", "others/vllm-router"],
)
def test_page_of_something_else_is_no_engine(read, name):
    """A good page that no mapping knows, a router's page with an engine's names included."""
    assert read(load(name)) == Page(None)


def test_adapters_are_those_of_the_newest_row(read):
    """The value of the row is when it was written; older rows stay on the page."""
    rows = (
        'vllm:lora_requests_info{running_lora_adapters="old",waiting_lora_adapters=""} 1.0\n'
        'vllm:lora_requests_info{running_lora_adapters="a, b",waiting_lora_adapters="c"} 2.0\n'
        'vllm:num_requests_running{engine="0"} 1\n'
    )
    assert read(rows).samples.loras == {"a", "b", "c"}


def test_names_of_a_page_are_bounded(read):
    """Made-up models and adapters by the thousand do not make every snapshot large."""
    adapters = ",".join(f"a{n}" for n in range(9000))
    page = f'vllm:lora_requests_info{{running_lora_adapters="{adapters},{"x" * 300}"}} 1.0\n'
    page += "".join(
        f'vllm:num_requests_running{{engine="0",model_name="m{n:05}{"y" * 300}"}} 1\n'
        for n in range(2000)
    )
    samples = read(page).samples
    assert (len(samples.model_names), max(map(len, samples.model_names))) == (256, 256)
    assert len(samples.loras) == 256
    assert samples.running.value == 2000
