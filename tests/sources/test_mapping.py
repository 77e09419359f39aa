"""From rows to samples: choice of the mapping, alternatives, aggregation, value rules."""

import pytest

from scorer.core.samples import Page, Reading, ScrapeFailed
from scorer.core.vocabulary import Gap, ScrapeFailure


def engine_page(*lines: str) -> str:
    """Return a page of vLLM V1 with the given lines added."""
    return "\n".join(['vllm:generation_tokens_total{engine="0"} 1', *lines, ""])


@pytest.fixture
def samples(read):
    """Return a function that reads a V1 page with the given lines added."""
    return lambda *lines, **options: read(engine_page(*lines), **options).samples


def test_odd_but_legal_pages_are_read(read, oddity):
    """The values are those a lenient reader finds, with LF, CRLF and a byte-order mark."""
    for name in ("quirks", "quirks_crlf", "bom"):
        found = read(oddity(name)).samples
        assert (found.running.value, found.waiting.value, found.kv_cache.value) == (11, 2, 0.31)
        assert sum(found.progress.values()) == 1_200_000


def test_unreadable_line_of_an_unused_family_is_no_matter(read, oddity):
    """What no signal rests on may be garbled; the lines after it still count."""
    assert read(oddity("bad_line")) == read(oddity("quirks"))


def test_family_given_twice_counts_twice(read, oddity):
    """A page merged from two engines' pages is the page of both."""
    found = read(oddity("twice")).samples
    assert (found.running, found.kv_cache) == (Reading(65), Reading(0.97))


def test_same_series_twice_fails_the_scrape(read, oddity):
    """Two values of one series: nothing of the page is applied."""
    assert read(oddity("same_series_twice")).reason is ScrapeFailure.PARSE


def test_cut_page_fails_the_scrape(read, oddity):
    """A page cut within a number fails, although what is left can be parsed."""
    got = read(oddity("full")[:248], complete=False)
    assert got.reason is ScrapeFailure.TRUNCATED


@pytest.mark.parametrize("name", ["engines_01", "engines_10"])
def test_data_parallel_engines_are_one_target(read, oddity, name):
    """Running and waiting are summed, the fullest cache counts, in any order of lines."""
    found = read(oddity(name)).samples
    assert (found.running, found.waiting, found.kv_cache) == tuple(map(Reading, (65, 30, 0.97)))
    assert (found.ttft.count, found.ttft.sum) == (90, pytest.approx(218.4))


@pytest.mark.parametrize(
    ("name", "kv_cache"),
    [
        ("old", Reading(0.93)),
        ("new", Reading(0.93)),
        ("both", Reading(0.93)),
        ("neither", Reading.missing(Gap.FAMILY_ABSENT)),
    ],
)
def test_renamed_cache_gauge(read, oddity, name, kv_cache):
    """Either name is read, the newer one wins, and none is missing, not 0."""
    assert read(oddity(name)).samples.kv_cache == kv_cache


@pytest.mark.parametrize(
    ("name", "kv_cache"),
    [
        ("good", Reading(0.2)),
        ("kv_over", Reading(1.0)),
        ("kv_nan", Reading.missing(Gap.NOT_A_NUMBER)),
        ("kv_inf", Reading.missing(Gap.NOT_A_NUMBER)),
        ("kv_neg", Reading.missing(Gap.NEGATIVE)),
        ("kv_percent", Reading.missing(Gap.OUT_OF_RANGE)),
    ],
)
def test_ratio_that_means_nothing_is_missing(read, oddity, name, kv_cache):
    """NaN, infinity, -1 and a percentage are gaps; a little over 1 is full."""
    assert read(oddity(name)).samples.kv_cache == kv_cache


def test_count_that_means_nothing_is_missing(read, oddity):
    """A waiting count of NaN is a gap, and the other signals stay."""
    found = read(oddity("wait_nan")).samples
    assert (found.waiting, found.running) == (Reading.missing(Gap.NOT_A_NUMBER), Reading(3))


def test_huge_count_is_a_count(read, oddity):
    """There is no upper bound to what an engine may have queued."""
    assert read(oddity("run_huge")).samples.running == Reading(1e18)


@pytest.mark.parametrize("name", ["le_float", "le_int", "le_sci", "le_more"])
def test_bucket_bounds_make_no_difference(read, oddity, name):
    """However bounds are written and how many there are, sum and count are read."""
    ttft = read(oddity(name)).samples.ttft
    assert ttft.sum / ttft.count == pytest.approx(0.45)


def test_sum_needs_every_series(samples):
    """A total without one engine's share would be too low."""
    found = samples(
        'vllm:num_requests_running{engine="0"} 4', 'vllm:num_requests_running{engine="1"} NaN'
    )
    assert found.running == Reading.missing(Gap.NOT_A_NUMBER)


def test_maximum_serves_from_what_is_readable(samples):
    """The fullest cache that is known is a lower bound of the fullest."""
    found = samples(
        'vllm:kv_cache_usage_perc{engine="0"} 0.4', 'vllm:kv_cache_usage_perc{engine="1"} -1'
    )
    assert found.kv_cache == Reading(0.4)


def test_maximum_of_nothing_readable_is_missing(samples):
    """With no readable series a maximum has nothing to serve from."""
    found = samples('vllm:kv_cache_usage_perc{engine="0"} NaN')
    assert found.kv_cache == Reading.missing(Gap.NOT_A_NUMBER)


def test_processes_that_print_one_series_are_not_added(samples):
    """Rows that differ in pid alone are one series: the largest value counts."""
    found = samples(
        'vllm:num_requests_running{engine="0",pid="7"} 4',
        'vllm:num_requests_running{engine="0",pid="8"} 9',
        'vllm:num_requests_running{engine="0",pid="9"} NaN',
        'vllm:num_requests_running{engine="1",pid="7"} 2',
    )
    assert found.running == Reading(11)


def test_first_readable_alternative_wins(samples):
    """An unreadable new name leaves the word to the old one."""
    found = samples(
        'vllm:kv_cache_usage_perc{engine="0"} NaN', 'vllm:gpu_cache_usage_perc{engine="0"} 0.7'
    )
    assert found.kv_cache == Reading(0.7)


@pytest.mark.parametrize(
    ("labels", "capacity"),
    [
        ('num_gpu_blocks="100",block_size="16"', Reading(1600)),
        ('num_gpu_blocks="100",block_size="16",kv_cache_size_tokens="None"', Reading(1600)),
        ('num_gpu_blocks="200",block_size="16",kv_cache_size_tokens="1600"', Reading(1600)),
        ('num_gpu_blocks="None",block_size="16"', Reading.missing(Gap.NOT_A_NUMBER)),
        ('block_size="16"', Reading.missing(Gap.NOT_A_NUMBER)),
    ],
)
def test_capacity_comes_from_labels(samples, labels, capacity):
    """Tokens, or blocks times their size; text such as None is no number."""
    found = samples(f'vllm:cache_config_info{{engine="0",{labels}}} 1')
    assert found.capacity == capacity


def test_capacity_of_data_parallel_engines(samples):
    """Tokens are each engine's own; blocks are the total, repeated in every row."""
    row = 'vllm:cache_config_info{{engine="{}",num_gpu_blocks="258",block_size="32"{}}} 1'
    shares = [row.format(n, ',kv_cache_size_tokens="4128"') for n in (0, 1)]
    totals = [row.format(n, "") for n in (0, 1)]
    assert samples(*shares).capacity == samples(*totals).capacity == Reading(8256)


@pytest.mark.parametrize(
    ("states", "asleep"),
    [((1,), False), ((0,), True), ((0, 0), True), ((0, 1), False), ((float("nan"),), None)],
)
def test_target_sleeps_when_all_its_engines_do(samples, states, asleep):
    """One engine awake takes requests; a state that cannot be read says nothing."""
    rows = [
        f'vllm:engine_sleep_state{{engine="{n}",sleep_state="awake"}} {state}'
        for n, state in enumerate(states)
    ]
    other = 'vllm:engine_sleep_state{engine="0",sleep_state="discard_all"} 0'
    assert samples(*rows, other).asleep is asleep


def test_failures_are_counted_both_ways(samples):
    """HTTP 5xx of inference handlers, and requests that finished with an error."""
    found = samples(
        'http_requests_total{handler="/v1/completions",status="5xx"} 5',
        'http_requests_total{handler="/v1/completions",status="4xx"} 7',
        'http_requests_total{handler="/v1/models",status="5xx"} 9',
        'vllm:request_success_total{engine="0",finished_reason="error"} 2',
        'vllm:request_success_total{engine="0",finished_reason="abort"} 3',
    ).outcomes
    assert [list(way.values()) for way in found.failures] == [[5], [2]]
    assert found.gap is None


def test_successes_are_finished_requests(samples):
    """A refusal within a stream and an abandoned stream are 2xx, and no successes."""
    found = samples(
        'http_requests_total{handler="/v1/completions",status="2xx"} 33',
        'vllm:request_success_total{engine="0",finished_reason="stop"} 4',
        'vllm:request_success_total{engine="0",finished_reason="length"} 11',
        'vllm:request_success_total{engine="0",finished_reason="abort"} 18',
    ).outcomes
    assert sum(found.successes.values()) == 15


def test_successes_fall_back_on_http(samples):
    """A page that does not say how requests finished has its HTTP counter."""
    found = samples('http_requests_total{handler="/v1/completions",status="2xx"} 33').outcomes
    assert list(found.successes.values()) == [33]


def test_no_failure_yet_is_no_gap(samples):
    """A counter whose 5xx series appears with the first failure has counted none."""
    found = samples('http_requests_total{handler="/v1/completions",status="2xx"} 33').outcomes
    assert (found.failures, found.gap) == (({}, {}), None)


def test_unreadable_counter_series_is_left_out(samples):
    """A series without a value has no delta; the others keep theirs."""
    found = samples(
        'vllm:prompt_tokens_total{engine="0"} NaN', 'vllm:prompt_tokens_total{engine="1"} 7'
    )
    assert sorted(found.progress.values()) == [1, 7]


@pytest.mark.parametrize(
    ("lines", "count", "gap"),
    [
        (["_sum 3", "_count 2"], 2, None),
        (["_count 2"], 0, Gap.NOT_A_NUMBER),
        (["_sum NaN", "_count 2"], 0, Gap.NOT_A_NUMBER),
        (["_sum -3", "_count 2"], 0, Gap.NEGATIVE),
        (["_sum 3"], 0, Gap.FAMILY_ABSENT),
        ([], 0, Gap.FAMILY_ABSENT),
    ],
)
def test_histogram_needs_sum_and_count(samples, lines, count, gap):
    """A mean rests on both, so a series without one of them is not used."""
    ttft = samples(*(f"vllm:time_to_first_token_seconds{line}" for line in lines)).ttft
    assert (ttft.count, ttft.gap) == (count, gap)
    assert ttft.sums.keys() == ttft.counts.keys()


def test_declared_histogram_without_rows(samples):
    """A family that is declared only has no samples yet."""
    ttft = samples("# TYPE vllm:time_to_first_token_seconds histogram").ttft
    assert ttft.gap is Gap.NO_SAMPLES


def test_rows_of_a_router_are_not_the_engines(read):
    """Rows with the label server are a router's word about its engines."""
    assert read('vllm:num_requests_running{server="http://engine:8000",engine="0"} 1\n') == Page(
        None
    )


@pytest.mark.parametrize(
    ("models", "running"),
    [(("llama-*",), 3), (("other",), 40), (("lora-alias",), 43), ((), 43), (("*",), 43)],
)
def test_rows_are_chosen_by_model(samples, models, running):
    """The pool's patterns select among models; names that match nothing select all."""
    found = samples(
        'vllm:num_requests_running{engine="0",model_name="llama-8b"} 3',
        'vllm:num_requests_running{engine="0",model_name="other"} 40',
        models=models,
    )
    assert found.running == Reading(running)


def test_rows_without_a_model_are_kept(samples):
    """HTTP counters and the start time are of the whole engine."""
    found = samples(
        'vllm:num_requests_running{engine="0",model_name="llama-8b"} 3',
        'vllm:num_requests_running{engine="0",model_name="other"} 40',
        "process_start_time_seconds 1.7e9",
        models=("other",),
    )
    assert (found.start_time, found.model_names) == (1.7e9, ("other",))


@pytest.mark.parametrize(
    ("line", "mapping", "version"),
    [
        ('vllm:num_requests_running{model_name="m"} 1', "vllm_v0", "0.4-0.6"),
        ("vllm:gpu_prefix_cache_queries_total 1", "vllm_v1", "0.7"),
        ('vllm:gpu_cache_usage_perc{engine="0"} 1', "vllm_v1", "0.8"),
        ("vllm:kv_cache_usage_perc 1", "vllm_v1", "0.9-0.10"),
    ],
)
def test_generation_is_told_by_families_and_labels(read, line, mapping, version):
    """V0 numbers no engine; what a page has bounds its version."""
    found = read(line + "\n").samples
    assert (found.mapping, found.version) == (mapping, version)


def test_foreign_page_is_a_good_scrape_without_samples(read):
    """A page of some other program is read, and matches no engine."""
    assert read("# just a comment\nup 1\n") == Page(None)


@pytest.mark.parametrize(
    ("body", "reason"),
    [("", ScrapeFailure.EMPTY), ("<html>", ScrapeFailure.WRONG_CONTENT)],
)
def test_body_that_is_no_page_fails(read, body, reason):
    """A saved file that is no page is refused as a fetched one is."""
    got = read(body)
    assert isinstance(got, ScrapeFailed)
    assert got.reason is reason
