"""JSON iteration records: draining, idling, sharing, ranks, and what is no record."""

import json
from pathlib import Path

import pytest

from scorer.core.samples import Reading, ScrapeFailed
from scorer.core.vocabulary import Engine, Gap, ScrapeFailure
from scorer.mappings.shipped import engine_mappings
from scorer.sources.mapping import PageReader

PAGES = Path(__file__).parent.parent / "data" / "expositions" / "tensorrt_llm"


def record(number: int, active: int = 4, queued: int = 2, used: int = 50, **more: object) -> dict:
    """Return one iteration record."""
    blocks = {"usedNumBlocks": used, "maxNumBlocks": 100, "tokensPerBlock": 32}
    return {"iter": number, "numActiveRequests": active, "numQueuedRequests": queued,
            "kvCacheStats": blocks, **more}  # fmt: skip


@pytest.fixture
def reads():
    """Return a function that reads pages of records in turn, as one reader."""

    def reads(*pages: object, engine: Engine | None = None):
        reader = PageReader(engine_mappings(), engine=engine)
        found = []
        for page in pages:
            body = page if isinstance(page, bytes) else json.dumps(page).encode()
            found.append(reader.read(body, "application/json", complete=True))
        return found

    return reads


def values(page) -> tuple[float | None, float | None, float | None]:
    """Return running, waiting and kv_cache of a page."""
    samples = page.samples
    return samples.running.value, samples.waiting.value, samples.kv_cache.value


def test_newest_record_counts(reads):
    """A page holds all iterations since the last read."""
    (page,) = reads([record(1, active=9), record(2)])
    assert values(page) == (4, 2, 0.5)
    assert page.samples.capacity == Reading(3200)


def test_first_empty_list_changes_nothing(reads):
    """Between two iterations of a busy engine there may be nothing to read."""
    assert values(reads([record(1)], [])[1]) == (4, 2, 0.5)


def test_second_empty_list_is_idle(reads):
    """With us as the only reader nothing has happened: no requests, the cache as it was."""
    assert values(reads([record(1)], [], [])[2]) == (0, 0, 0.5)


def test_work_after_idling_is_seen(reads):
    """The count of empty lists starts over with a record."""
    pages = reads([record(1)], [], [], [record(2)], [])
    assert values(pages[4]) == (4, 2, 0.5)


def test_empty_lists_alone_tell_nothing(reads):
    """An engine that never had a record is not idle: perhaps its records are off."""
    samples = reads([], [], [])[2].samples
    assert {samples.running.gap, samples.waiting.gap, samples.kv_cache.gap} == {Gap.IDLE}
    assert (samples.engine, samples.ttft.gap) == (Engine.TENSORRT_LLM, Gap.NOT_OFFERED)


def test_missing_numbers_betray_another_reader(reads):
    """Who shares the records cannot take an empty list for idleness."""
    pages = reads([record(1)], [record(8)], [], [])
    assert values(pages[2]) == (4, 2, 0.5)
    assert pages[3].samples.running.gap is Gap.DRAINED


def test_only_reader_again(reads):
    """Numbers that follow on each other show that the other reader has gone."""
    pages = reads([record(1)], [record(8)], [record(9)], [], [])
    assert values(pages[4]) == (0, 0, 0.5)


def test_ranks_are_summed_and_remembered(reads):
    """Records of several ranks interleave; one that is not on a page keeps its last."""
    both = [record(1, attentionDpRank=0), record(1, active=7, used=90, attentionDpRank=1)]
    pages = reads(both, [record(2, active=5, attentionDpRank=0)])
    assert values(pages[0]) == (11, 4, 0.9)
    assert values(pages[1]) == (12, 4, 0.9)


def test_restart_forgets_the_ranks(reads):
    """Numbers that start over are a new engine, perhaps with fewer ranks."""
    both = [record(50, attentionDpRank=0), record(50, attentionDpRank=1)]
    assert values(reads(both, [record(1, attentionDpRank=0)])[1]) == (4, 2, 0.5)


def test_null_statistics_are_missing(reads):
    """A record without in-flight batching statistics still tells the rest."""
    (page,) = reads((PAGES / "iterstats-idle-null-ifb.json").read_bytes())
    assert values(page) == (0, 0, 0)
    assert page.samples.paused.gap is Gap.FAMILY_ABSENT


def test_iteration_number_is_progress(reads):
    """It moves with each step, so an engine whose number stands still is frozen."""
    assert list(reads([record(7)])[0].samples.progress.values()) == [7]


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error":"x"}', ScrapeFailure.WRONG_CONTENT),
        (b'["a"]', ScrapeFailure.WRONG_CONTENT),
        (b'[{"id":0}]', ScrapeFailure.WRONG_CONTENT),
        (b"[{", ScrapeFailure.PARSE),
        (b"[" * 100_000, ScrapeFailure.PARSE),
    ],
)
def test_json_that_is_no_record_fails(reads, body, reason):
    """Any other document is not a metrics page."""
    (got,) = reads(body)
    assert isinstance(got, ScrapeFailed)
    assert got.reason is reason


def test_records_are_no_page_of_another_engine(reads):
    """A pool of another engine pointed at this path is told that this is no metrics page."""
    (got,) = reads([record(1)], engine=Engine.VLLM)
    assert got == ScrapeFailed(ScrapeFailure.WRONG_CONTENT, "a JSON document, not metrics")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 10**400])
def test_number_that_means_nothing_is_missing(reads, number):
    """What JSON allows and no count is."""
    (page,) = reads([record(1, active=number)])
    assert page.samples.running.gap is Gap.NOT_A_NUMBER


def test_list_over_many_chunks_is_read_whole(reads):
    """Records are decoded a chunk at a time; where one is cut makes no difference."""
    records = [record(number, note="],}" * (number % 50)) for number in range(1, 3000)]
    (page,) = reads(json.dumps(records, indent=1).encode())
    assert list(page.samples.progress.values()) == [2999]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[" + b"{}," * 1_390_000 + b"{}]", ScrapeFailure.TOO_LARGE),
        (b"[" + b"{}," * 20_000 + b"{}]", ScrapeFailure.TOO_LARGE),
        (b'[{"a":"' + b"x" * 5_000_000 + b'"}]', ScrapeFailure.TOO_LARGE),
        (b'[{"a":"' + b"x" * 70_000 + b'"}]', ScrapeFailure.PARSE),
        (b"[" + b'{"a":' * 50_000, ScrapeFailure.PARSE),
        (b"[{}] " + b" " * 100_000 + b"[]", ScrapeFailure.PARSE),
        (b"[" + b" " * 100_000, ScrapeFailure.PARSE),
        (b"[{},]", ScrapeFailure.PARSE),
        (b"[{} {}]", ScrapeFailure.PARSE),
        (
            b'[{"iter":1,"numActiveRequests":1,'
            + b",".join(b'"k%d":1' % n for n in range(5000))
            + b'},{"attentionDpRank":1,'
            + b",".join(b'"k%d":1' % n for n in range(5001))
            + b"}]",
            ScrapeFailure.TOO_LARGE,
        ),
    ],
)
def test_hostile_list_is_refused(reads, body, reason):
    """No page of records is that large, deep or malformed; it costs no more than its limit."""
    (got,) = reads(body)
    assert isinstance(got, ScrapeFailed)
    assert got.reason is reason
    assert got.detail


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'[{"iter":' + b"9" * 5000 + b"}]", "a number has too many digits"),
        (b'[{"iter":1},{"iter":"\xff"}]', "it is no UTF-8"),
        (b"[" * 60_000, "it is nested too deeply"),
        (b"[{},]", "Expecting value at character 4"),
    ],
)
def test_malformed_list_says_why(reads, body, why):
    """In words about the page, not about Python."""
    (got,) = reads(body)
    assert got.detail == f"not valid JSON: {why}"


def test_blanks_between_records_mean_nothing(reads):
    """Blanks that fill chunks do not hide the records around them."""
    one, two = (json.dumps(record(number)).encode() for number in (1, 2))
    (page,) = reads(b"[" + one + b" " * 40_000 + b"," + b"\n" * 90_000 + two + b"]")
    assert list(page.samples.progress.values()) == [2]


def test_deep_records_do_no_harm(reads):
    """What lies deeper than any statistic is not looked at."""
    deep = b'{"a":' * 400 + b"1" + b"}" * 400
    (page,) = reads(b'[{"iter":1,"numActiveRequests":4,"x":' + deep + b"}]")
    assert page.samples.running == Reading(4)


def test_ranks_are_bounded(reads):
    """Made-up ranks do not pile up; the page fails, and the next one starts over."""
    ranks = [record(1, attentionDpRank=n) for n in range(200)]
    more = [record(1, attentionDpRank=n) for n in range(200, 300)]
    first, second, third = reads(ranks, more, [record(2)])
    assert first.samples.running == Reading(800)
    assert second.reason is ScrapeFailure.TOO_LARGE
    assert third.samples.running == Reading(4)
