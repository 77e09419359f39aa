"""What engines print, and what is made of it: failure cases from public bug reports (B..)."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.cases import Stage, every
from tests.system.conftest import DaemonProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]

LENGTH = 18.0
"""Seconds; what changes in the scenarios does so between seconds 9 and 17 of the fakes."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Run every case of this file side by side, once."""
    folder: Path = tmp_path_factory.mktemp("engine-cases")
    started: list[DaemonProcess] = []

    def start(config: dict[str, object]) -> DaemonProcess:
        started.append(DaemonProcess(folder, config))
        return started[-1]

    stage = Stage(folder, start)
    for add in (b18, b19, b20, b25, b32, b34, b36, b38, b39, b41, b52):
        add(stage)
    stage.run(LENGTH)
    yield stage
    for each in started:
        each.process.kill()
        each.process.wait(5)


def last(stage: Stage, pool: str, letter: str) -> dict:
    """Return what the API said last of a target."""
    return stage.shots[-1].targets[pool, letter]


def value(row: dict, signal: str) -> float | None:
    """Return the value of a signal, None when it is unavailable."""
    return row["signals"][signal].get("value")


def scraped(stage: Stage, pool: str, letter: str) -> tuple[bool, str | None]:
    """Return whether the last scrape of a target was good, and why not."""
    scrape = last(stage, pool, letter)["last_scrape"]
    return scrape["ok"], scrape.get("reason")


def test_every_script_ran_to_its_end(stage: Stage) -> None:
    """No pick failed."""
    assert stage.failures == []


HALF = """\
vllm:num_requests_running{{engine="0"}} 1
vllm:num_requests_running{{engine="1"}} 64
vllm:num_requests_waiting{{engine="0"}} 0
vllm:num_requests_waiting{{engine="1"}} 30
vllm:generation_tokens_total{{engine="0"}} 5000
vllm:generation_tokens_total{{engine="1"}} {tokens}
"""
"""A page with two engines, of which the second moves and the first may not."""


def b18(stage: Stage) -> None:
    stage.pool("b18", "B18", "scenario.json")
    moving = [
        {"from_s": second, "body": HALF.format(tokens=1000 * second)} for second in range(1, 40)
    ]
    stage.pool("b18_half", "B18", {"half": moving})


def test_b18_engine_that_stands_still_beside_one_that_moves_is_named(stage: Stage) -> None:
    """The sum moves, so the target is not frozen; the one that is, is told, and logged once."""
    assert stage.series("b18_half", "half")[0]["stalled_engines"] == []
    row = last(stage, "b18_half", "half")
    assert (row["stalled_engines"], row["state_reason"] == "frozen") == (["0"], False)
    assert stage.daemon.log.count("Some engines stand still") == 1
    assert last(stage, "b18", "a")["stalled_engines"] == []


def test_b18_order_of_engines_on_a_page_makes_no_difference(stage: Stage) -> None:
    """Two engines on a page, one of them full: all of it counts, whichever comes last."""
    rows = stage.series("b18", "a")
    assert {(row["running"], value(row, "queue")) for row in rows} == {(65, 30)}
    assert {value(row, "kv_cache") for row in rows} == {0.97}
    # The fakes exchange the counters of the engines too, which is no traffic that was seen; and
    # what that costs comes back by the ramp.
    lost = [row["points_lost"] for row in rows]
    but_ttft = [
        row["score"] + lost["ttft"] + lost["warmup"] for row, lost in zip(rows, lost, strict=True)
    ]
    assert max(but_ttft) - min(but_ttft) < 1.0
    assert max(stage.scores("b18", "a")) < min(stage.scores("b18", "b")) - 10.0


def b19(stage: Stage) -> None:
    stage.pool("b19", "B19", "scenario.json")
    stage.pool("b19_known", "B19", {"neither": "neither.prom", "half": "half.prom"})


def test_b19_renamed_gauge_is_the_same_gauge(stage: Stage) -> None:
    """Old name, new name, or a left-over of the old beside the new: the same score."""
    scores = {letter: last(stage, "b19", letter)["score"] for letter in ("old", "new", "both")}
    assert max(scores.values()) - min(scores.values()) < 1.0
    assert {value(last(stage, "b19", letter), "kv_cache") for letter in scores} == {0.93}


def test_b19_lost_gauge_is_named_and_no_advantage(stage: Stage) -> None:
    """Neither name: the signal is unavailable with its reason, in the API and in the log."""
    row = last(stage, "b19", "neither")
    assert row["signals"]["kv_cache"] == {"unavailable": "family_absent"}
    known = max(stage.scores("b19_known", "half"))
    assert max(stage.scores("b19_known", "neither")) <= known + 0.01
    port = stage.pools["b19"].ports["neither"]
    lines = [line for line in stage.daemon.log.splitlines() if f"127.0.0.1:{port}" in line]
    told = [line for line in lines if "Signal became unreadable" in line and "kv_cache" in line]
    assert len(told) == 1


def b20(stage: Stage) -> None:
    pool = stage.pool("b20", "B20", "scenario.json")

    def run() -> None:
        client = stage.client(pool)
        for _ in range(100):
            client.pick()
        stage.notes["b20"] = stage.now
        for _ in every(0.05, 200):
            if client.pick() == "c":
                client.post_to("c")

    stage.script(run)


def test_b20_engine_without_metrics_gets_its_first_request(stage: Stage) -> None:
    """N=100 picks before: some without a family to be scored by, and not more than its share."""
    assert 0.0 < stage.share("b20", "c", 0.0, stage.notes["b20"]) <= 1 / 3 + 0.1
    assert last(stage, "b20", "c")["engine"] == "vllm"


def test_b20_others_are_scored_on_their_metrics(stage: Stage) -> None:
    """One engine that lacks a series does not make the choice among the others random."""
    assert {value(row, "kv_cache") for row in stage.series("b20", "a")} == {0.5}
    assert min(row["confidence"] for row in stage.series("b20", "a")) > 0.5


def test_b20_known_fresh_engine_is_no_error_per_scrape(stage: Stage) -> None:
    """A page without engine metrics is a state, told when it changes."""
    target = f"127.0.0.1:{stage.pools['b20'].ports['c']}"
    lines = [line for line in stage.daemon.log.splitlines() if target in line]
    assert len(lines) < 20


def b25(stage: Stage) -> None:
    sleepers = {"asleep": "scenario.json", "asleep_old": "scenario_old.json"}
    for name, scenario in sleepers.items():
        pool = stage.pool(name, "B25", scenario)

        def run(pool=pool) -> None:
            client = stage.client(pool)
            for _ in every(0.1, 60):
                client.pick()

        stage.script(run)
    pages = {"a": "asleep.prom", "b": "asleep_old.prom"}
    all_asleep = stage.pool("all_asleep", "B25", pages)
    stage.script(lambda: stage.until(3.0) or stage.client(all_asleep).pick())


def test_b25_pool_that_sleeps_altogether_still_answers(stage: Stage) -> None:
    """The least bad is better than none, and the reason is told."""
    ((_, letter, status),) = stage.pools["all_asleep"].picks
    assert (letter in "ab", status) == (True, 200)
    reasons = {last(stage, "all_asleep", letter)["state_reason"] for letter in "ab"}
    assert reasons == {"asleep"}


@pytest.mark.parametrize("pool", ["asleep", "asleep_old"])
def test_b25_sleeping_engine_is_not_picked(stage: Stage, pool: str) -> None:
    """In both shapes of the gauge: no load, and no request for it either."""
    assert stage.share(pool, "b", 0.0, stage.engines_at(11.0)) == 1.0
    first = stage.shots[0].targets[pool, "a"]
    assert (first["state"], first["state_reason"]) == ("degraded", "asleep")


def test_b25_engine_that_is_awake_is_not_mistaken(stage: Stage) -> None:
    """The row of the state awake is 1 for the good state."""
    assert {row["state_reason"] for row in stage.series("asleep", "b")} == {"none"}


def test_b25_woken_engine_comes_back_by_the_ramp(stage: Stage) -> None:
    """It is not flooded with the first look at it."""
    rows = stage.series("asleep", "a")
    assert "woke_up" in {row["state_reason"] for row in rows}
    woken = [row["score"] for row in rows if row["state_reason"] == "woke_up"]
    assert min(woken) < 40.0


def b32(stage: Stage) -> None:
    stage.pool("b32", "B32", "scenario.json", engine="tensorrt_llm")
    stage.pool("b32_auto", "B32", "scenario.json")
    stage.pool("b32_json", "B32", "scenario.json", engine="vllm", metrics_path="/metrics")


@pytest.mark.parametrize("pool", ["b32", "b32_auto"])
@pytest.mark.parametrize("letter", ["a", "c"])
def test_b32_text_page_is_found_and_read(stage: Stage, pool: str, letter: str) -> None:
    """Named or recognised, and also when the JSON page hangs: the page under its own path."""
    row = last(stage, pool, letter)
    assert (row["engine"], row["mapping"]) == ("tensorrt_llm", "tensorrt_llm")
    assert (row["running"], value(row, "queue"), value(row, "kv_cache")) == (7, 2, 0.63)


def test_b32_engines_with_the_same_load_score_alike(stage: Stage) -> None:
    """A TensorRT-LLM page is worth what a vLLM page with the same values is."""
    scores = [max(stage.scores("b32_auto", letter)) for letter in ("a", "d")]
    assert abs(scores[0] - scores[1]) < 2.0


def test_b32_old_page_tells_ttft_and_what_it_lacks(stage: Stage) -> None:
    """Five families without a gauge: the rest is unavailable, the model is not called undefined."""
    row = last(stage, "b32", "b")
    assert row["mapping"] == "tensorrt_llm_1_2"
    assert value(row, "ttft") is not None
    assert row["signals"]["queue"] == {"unavailable": "not_offered"}
    assert 'model_name="undefined"' not in stage.metrics_after


def test_b32_records_are_no_metrics_page_of_another_engine(stage: Stage) -> None:
    """A vLLM pool pointed at the JSON list is told so; it is never idle."""
    assert scraped(stage, "b32_json", "a") == (False, "wrong_content")
    assert last(stage, "b32_json", "a")["state"] == "unreachable"


def b34(stage: Stage) -> None:
    stage.pool("b34", "B34", "scenario.json")


@pytest.mark.parametrize("letter", ["a", "b", "d"])
def test_b34_odd_but_legal_pages_are_read(stage: Stage, letter: str) -> None:
    """No blank before the value, timestamps, quotes in labels, CRLF, a byte-order mark."""
    row = last(stage, "b34", letter)
    assert (row["running"], value(row, "queue"), value(row, "kv_cache")) == (11, 2, 0.31)


def test_b34_line_that_nobody_reads_may_be_broken(stage: Stage) -> None:
    """An unreadable line of a family that is not looked at loses nothing."""
    row = last(stage, "b34", "c")
    assert (row["running"], value(row, "queue")) == (11, 2)


def b36(stage: Stage) -> None:
    stage.pool("b36", "B36", "scenario.json")


def test_b36_half_a_page_is_no_page(stage: Stage) -> None:
    """Cut within a number: the scrape failed, and what was known stays."""
    assert scraped(stage, "b36", "a") == (False, "truncated")
    rows = stage.series("b36", "a")
    assert {row["running"] for row in rows} == {45}
    assert rows[-1]["score"] <= rows[0]["score"]


def test_b36_family_given_twice_counts_twice(stage: Stage) -> None:
    """A merged page is that of both engines."""
    assert last(stage, "b36", "b")["running"] == 65


def test_b36_series_with_two_values_fails_the_scrape(stage: Stage) -> None:
    """Nobody can say which of the two is right."""
    assert scraped(stage, "b36", "c") == (False, "parse")


def b38(stage: Stage) -> None:
    stage.pool("b38", "B38", "scenario.json")
    # By itself, because five observations are weighed against what the others of a pool show.
    pages = [{"body_file": "before.prom"}, {"from_s": 12, "body_file": "after.prom"}]
    stage.pool("b38_alone", "B38", {"a": pages})


@pytest.mark.parametrize(
    ("pool", "letter", "ttft"), [("b38_alone", "a", 0.28), ("b38", "b", 3.342927)]
)
def test_b38_restart_counts_from_zero(stage: Stage, pool: str, letter: str, ttft: float) -> None:
    """Also when the new count is above the old one: the start time moved."""
    target = f"127.0.0.1:{stage.pools[pool].ports[letter]}"
    assert f'scorer_target_restarts_total{{pool="{pool}",target="{target}"}} 1.0' in (
        stage.metrics_after
    )
    rows = stage.series(pool, letter)
    # The page stands still before and after, so the first value is what the restart brought.
    first = next(known for row in rows if (known := value(row, "ttft")) is not None)
    assert first == pytest.approx(ttft, rel=1e-3)
    assert "restarted" in {row["state_reason"] for row in rows}


def test_b38_history_of_the_first_page_is_not_counted(stage: Stage) -> None:
    """A million observations before we came are nobody's last second."""
    assert value(last(stage, "b38", "c"), "ttft") is None


def b39(stage: Stage) -> None:
    stage.pool("b39", "B39", "scenario.json")


def test_b39_bounds_written_otherwise_are_no_restart(stage: Stage) -> None:
    """Float, integer, scientific, and more buckets: the same mean at every step."""
    values = {value(row, "ttft") for row in stage.series("b39", "a")} - {None}
    assert values
    assert all(each == pytest.approx(0.45, rel=1e-6) for each in values)
    target = f"127.0.0.1:{stage.pools['b39'].ports['a']}"
    assert f'scorer_target_restarts_total{{pool="b39",target="{target}"}} 0.0' in (
        stage.metrics_after
    )


B41 = {
    "nan": "kv_nan.prom", "inf": "kv_inf.prom", "percent": "kv_percent.prom",
    "over": "kv_over.prom", "neg": "kv_neg.prom", "wnan": "wait_nan.prom",
    "huge": "run_huge.prom", "good": "good.prom",
}  # fmt: skip


def b41(stage: Stage) -> None:
    pool = stage.pool("b41", "B41", B41)

    def run() -> None:
        client = stage.client(pool)
        stage.until(10.0)
        for _ in every(0.01, 400):
            client.pick()

    stage.script(run)
    stage.pool("b41_turned", "B41", dict(reversed(B41.items())))
    percent = {"family": "vllm:kv_cache_usage_perc", "aggregate": "max", "unit": "ratio",
               "scale": "percent"}  # fmt: skip
    mapping = {"name": "percent", "extends": "vllm_v1", "signals": {"kv_cache": [percent]}}
    stage.pool("b41_percent", "B41", {"percent": B41["percent"]}, mappings=[mapping])


@pytest.mark.parametrize(
    ("letter", "reason"),
    [("nan", "not_a_number"), ("inf", "not_a_number"), ("neg", "negative"),
     ("percent", "out_of_range")],
)  # fmt: skip
def test_b41_gauge_that_means_nothing_is_missing(stage: Stage, letter: str, reason: str) -> None:
    """Unavailable with its reason, never 0 and never full."""
    assert last(stage, "b41", letter)["signals"]["kv_cache"] == {"unavailable": reason}


@pytest.mark.parametrize("letter", ["nan", "inf", "neg"])
def test_b41_unknown_is_neither_shunned_nor_preferred(stage: Stage, letter: str) -> None:
    """A target without that one value gets picks, and no more than twice an equal share."""
    assert 0.0 < stage.share("b41", letter) < 2.0 / len(B41)


def test_b41_rounding_is_a_full_cache(stage: Stage) -> None:
    """A little over 1 is 1."""
    assert value(last(stage, "b41", "over"), "kv_cache") == 1.0


def test_b41_percentage_is_read_by_explicit_setting(stage: Stage) -> None:
    """A mapping of the user's own may say that the gauge is in percent."""
    row = last(stage, "b41_percent", "percent")
    assert (row["mapping"], value(row, "kv_cache")) == ("percent", 0.93)


def test_b41_nothing_of_ours_is_nan(stage: Stage) -> None:
    """Gauges and JSON hold numbers only, and scores are within 0 and 100."""
    assert not re.search(r"^scorer_\S+ NaN", stage.metrics_after, re.MULTILINE)
    text = stage.daemon.get("/api/v1/targets").text
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    scores = [row["score"] for shot in stage.shots for row in shot.targets.values()]
    assert all(0.0 <= score <= 100.0 for score in scores)


def test_b41_order_of_targets_makes_no_difference(stage: Stage) -> None:
    """The same pages in another order get the same scores."""
    for letter in B41:
        scores = [max(stage.scores(pool, letter)) for pool in ("b41", "b41_turned")]
        assert scores[0] == pytest.approx(scores[1], abs=0.5)


def b52(stage: Stage) -> None:
    pool = stage.pool("b52", "B52", "scenario.json")
    open_to: dict[str, list[int]] = {letter: [] for letter in pool.ports}
    threads: list[int] = []
    stage.notes |= {"open_to": open_to, "threads": threads}

    def run() -> None:
        for _ in every(0.1, int(10 * LENGTH)):
            proc = Path(f"/proc/{stage.daemon.process.pid}")
            sockets = (proc / "net" / "tcp").read_text()
            for letter, port in pool.ports.items():
                open_to[letter].append(len(re.findall(rf":{port:04X} 01 ", sockets)))
            status = (proc / "status").read_text()
            threads.append(int(re.findall(r"^Threads:\s+(\d+)", status, re.MULTILINE)[0]))

    stage.script(run)


def test_b52_good_target_is_scraped_on_time(stage: Stage) -> None:
    """One that drips, one that hangs, one that is late and one that resets delay no other."""
    ages = [row["last_scrape"]["age"] for row in stage.series("b52", "e")]
    assert max(ages) < 2.0
    assert last(stage, "b52", "e")["state"] == "healthy"


@pytest.mark.parametrize("letter", ["a", "b", "c"])
def test_b52_slow_targets_end_at_their_deadline(stage: Stage, letter: str) -> None:
    """Each scrape ends, as a timeout, within the total deadline."""
    row = last(stage, "b52", letter)
    assert scraped(stage, "b52", letter) == (False, "timeout")
    assert row["last_scrape"]["duration"] < 1.0


def test_b52_scrapes_that_hang_do_not_pile_up(stage: Stage) -> None:
    """Each slow target holds one connection, and so one thread.

    A look shows two when one ends and the next begins while the system's list is read.
    """
    open_to = stage.notes["open_to"]
    assert sum(open_to["b"]) > 0
    assert max(max(counts) for counts in open_to.values()) <= 2
    for counts in open_to.values():
        assert sum(count > 1 for count in counts) <= len(counts) // 10


def test_b52_threads_are_bounded(stage: Stage) -> None:
    """However scrapes overlap, they take a thread for each target; the rest needs a few."""
    targets = sum(len(pool.ports) for pool in stage.pools.values())
    assert max(stage.notes["threads"]) <= targets + 30
