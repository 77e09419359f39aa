"""What a gateway's counters gain between two reads, and whose target is meant."""

import pytest

from scorer.core.gateway import GatewayReading
from scorer.core.samples import Histogram, ScrapeFailed
from scorer.core.vocabulary import Gap, ScrapeFailure
from scorer.mappings.shipped import preset_named
from scorer.sources.fetch import Fetcher
from scorer.sources.gateway import (
    FORGOTTEN_AFTER,
    MOST_ABSENT,
    MOST_SERIES,
    GatewaySource,
    TargetIndex,
    addressed,
    page_reader,
)
from scorer.sources.gateway_page import ANY, Counted, GatewayPage, Named, parse_gateway

A, B = Named("a", 1, pool="chat"), Named("b", 1, pool="chat")


def page(**targets: tuple[float, float] | tuple[float, float, dict[str, int]]) -> str:
    """Return a page with (count, seconds in total, requests by status) of each target."""
    lines = []
    for name, (count, total, *requests) in targets.items():
        labels = f'pool="chat",target="{name}:1"'
        lines += [
            f"gateway_ttft_seconds_count{{{labels}}} {count}",
            f"gateway_ttft_seconds_sum{{{labels}}} {total}",
        ]
        for code, number in (requests[0] if requests else {}).items():
            lines.append(f'gateway_requests_total{{{labels},code="{code}"}} {number}')
    return "\n".join((*lines, ""))


@pytest.fixture
def reads():
    """Return a function that reads pages in turn and returns what each of them gained."""

    def reads(*pages: str):
        left = list(pages)
        preset = preset_named("nginx")
        source = GatewaySource(
            "edge", lambda: parse_gateway(left.pop(0).encode(), "", preset, complete=True)
        )
        return [source.read(lambda: 7.0) for _ in pages]

    return reads


def test_first_page_is_a_baseline(reads):
    """Its history is not one interval's traffic."""
    assert reads(page(a=(100, 50.0, {"200": 100}))) == [{}]


def test_gain_between_two_pages(reads):
    """Observations with their mean, and requests by whose fault they are."""
    gained = reads(
        page(a=(100, 50.0, {"200": 100, "502": 1, "503": 0, "429": 0})),
        page(a=(104, 52.0, {"200": 104, "502": 3, "503": 4, "429": 50})),
    )[1]
    assert gained == {A: GatewayReading("edge", 7.0, 4, 0.5, failures=4.0, successes=4.0)}


def test_no_new_observation_is_no_news(reads):
    """A page that did not move says nothing of any target."""
    assert reads(*[page(a=(100, 50.0))] * 2)[1] == {}


def test_target_that_turns_up_later_counts_from_zero(reads):
    """It had no counters before, so all of them are new."""
    gained = reads(page(a=(1, 1.0)), page(a=(1, 1.0), b=(2, 3.0, {"500": 2})))[1]
    assert gained == {B: GatewayReading("edge", 7.0, 2, 1.5, failures=2.0)}


def test_first_failure_counts(reads):
    """A status that appears with its first answer was 0 before."""
    gained = reads(page(a=(1, 1.0, {"200": 1})), page(a=(1, 1.0, {"200": 1, "500": 1})))[1]
    assert gained[A].failures == 1.0


def test_restarted_gateway_counts_from_zero(reads):
    """Counters that went back started over."""
    gained = reads(page(a=(100, 50.0, {"200": 100})), page(a=(2, 4.0, {"200": 2})))[1]
    assert gained == {A: GatewayReading("edge", 7.0, 2, 2.0, successes=2.0)}


def test_buckets_make_no_difference(reads):
    """Bounds that change, and observations beyond the last, are in sum and count."""
    more = 'gateway_ttft_seconds_bucket{{pool="chat",target="a:1",le="{}"}} {}\n'
    before = page(a=(1, 1.0)) + more.format("10", 1) + more.format("+Inf", 1)
    after = page(a=(2, 101.0)) + more.format("60", 1) + more.format("+Inf", 2)
    assert reads(before, after)[1][A] == GatewayReading("edge", 7.0, 1, 100.0)


def test_gap_of_a_page_is_kept():
    """Why there is no TTFT yet can be told."""
    source = GatewaySource(
        "edge", lambda: parse_gateway(b"up 1\n", "", preset_named("nginx"), complete=True)
    )
    assert source.read(lambda: 0.0) == {}
    assert source.gap is Gap.FAMILY_ABSENT


def test_failed_read_changes_nothing(reads):
    """What was counted meanwhile comes with the next good page."""
    gained = reads(page(a=(1, 1.0)), "<html>", page(a=(3, 5.0)))
    assert isinstance(gained[1], ScrapeFailed)
    assert gained[2][A].count == 2


HISTORY = page(a=(1, 1.0), b=(100, 50.0, {"500": 40}))
LATER = page(a=(1, 1.0), b=(103, 53.0, {"500": 41}))


def test_gap_of_some_pages_is_bridged(reads):
    """What was counted meanwhile is told when the target is back."""
    gained = reads(HISTORY, *[page(a=(1, 1.0))] * FORGOTTEN_AFTER, LATER)[-1]
    assert gained == {B: GatewayReading("edge", 7.0, 3, 1.0, failures=1.0)}


def test_history_of_a_target_that_was_forgotten_is_no_news(reads):
    """It comes back as a baseline, and counts from there; a real newcomer counts at once."""
    again = page(a=(1, 1.0), b=(104, 54.0, {"500": 41}), c=(1, 2.0, {"500": 1}))
    back, after = reads(HISTORY, *[page(a=(1, 1.0))] * (FORGOTTEN_AFTER + 1), LATER, again)[-2:]
    assert back == {}
    assert after[B] == GatewayReading("edge", 7.0, 1, 1.0)
    assert after[Named("c", 1, pool="chat")].failures == 1.0


def counted(series: int) -> Counted:
    """Return what a page says of a target with that many series."""
    values = {("s", (("number", str(each)),)): 0.0 for each in range(series)}
    return Counted(Histogram(values, values), {})


def churning(pages: int, series: int = 1):
    """Return a source that has read pages of a hundred made-up names, each of them once."""
    numbers = iter(range(pages))

    def read() -> GatewayPage:
        number = next(numbers)
        names = [Named(f"x{number}-{each}", 1) for each in range(100)]
        return GatewayPage(dict.fromkeys([A, *names], counted(series)))

    source = GatewaySource("edge", read)
    for _ in range(pages):
        source.read(lambda: 7.0)
    return source


def test_made_up_names_do_not_fill_memory():
    """However many pages name others; who is on the page is remembered whatever happens."""
    source = churning(60)
    assert len(source._memories) == MOST_ABSENT + 101
    assert len(source._forgotten) == MOST_ABSENT
    assert A in source._memories


def test_made_up_names_with_many_series_do_not_fill_memory():
    """What counts is what is kept of them."""
    source = churning(12, series=100)
    assert len(source._memories) == MOST_SERIES // 100 + 101


def test_newcomer_is_a_baseline_when_not_even_names_are_known():
    """It may have been here before: a gain is told a page late rather than invented."""
    source = churning(60)
    left = [
        GatewayPage({B: Counted(Histogram({("s", ()): total}, {("s", ()): count}), {})})
        for count, total in ((100.0, 50.0), (101.0, 52.0))
    ]
    source._read_page = lambda: left.pop(0)
    assert source.read(lambda: 7.0) == {}
    assert source.read(lambda: 7.0) == {B: GatewayReading("edge", 7.0, 1, 2.0)}


def test_mistake_of_ours_is_a_failed_read():
    """One gateway must not stop the schedule."""
    source = GatewaySource("edge", lambda: 1 / 0)
    assert source.read(lambda: 0.0).reason is ScrapeFailure.PARSE


def test_gateway_that_redirects_and_asks_who_we_are(serve, answer):
    """LiteLLM answers /metrics with 307 to /metrics/, within the same host."""
    moved = answer(status="307 Temporary Redirect", location="/metrics/")
    server = serve(moved, answer(page(a=(1, 1.0)).encode()))
    fetcher = Fetcher(server.url, 5.0)
    assert set(page_reader(fetcher, preset_named("nginx"))().targets) == {A}
    fetcher.close()


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (Named("a", 8000), "a:8000"),
        (Named("a"), None),
        (Named("b"), "b:8000"),
        (Named("b", 9), None),
        (Named("fd00::2", 1), "[fd00::2]:1"),
        (Named("c", 1, "/two/v1"), "c:1/two"),
        (Named("c", 1, "/twofold"), None),
        (Named("c", 1), None),
        (ANY, None),
    ],
)
def test_target_is_found_by_address(named, found):
    """Host and port; the host alone, or a path, where that is clear."""
    addresses = ("a:8000", "a:8001", "b:8000", "[fd00::2]:1", "c:1/one", "c:1/two")
    assert TargetIndex({each: each for each in addresses}).find(named) == found


def test_only_target_of_a_pool_is_meant_by_rows_without_one():
    """A gateway that names no instance can serve a pool of one."""
    assert TargetIndex({"a:1": "a"}).find(ANY) == "a"


@pytest.mark.parametrize(
    ("named", "only", "pools"),
    [
        (Named("a", 1), None, ["chat", "code"]),
        (Named("a", 1, pool="code"), None, ["code"]),
        (Named("a", 1, pool="elsewhere"), None, ["chat", "code"]),
        (Named("a", 1, pool="code"), "chat", ["chat"]),
        (Named("x", 1), None, []),
        (ANY, None, []),
        (ANY, "chat", ["chat"]),
    ],
)
def test_reading_goes_to_every_pool_that_has_the_target(named, only, pools):
    """Unless the gateway or the configuration says which pool it is."""
    indexes = {name: TargetIndex({"a:1": name}) for name in ("chat", "code")}
    readings = {named: GatewayReading("edge", 0.0, 1, 1.0)}
    ((_, found),) = addressed(readings, indexes, only)
    assert [pool for pool, _ in found] == pools
