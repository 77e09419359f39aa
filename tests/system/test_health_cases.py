"""How sick, whose fault, since when: failure cases from public bug reports (B..)."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.system.cases import CASES, Client, Stage, every
from tests.system.conftest import DaemonProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]

LENGTH = 48.0
RETRY_AFTER = {
    "r0": "7", "r1": "7.5", "r2": "0", "r3": "-3", "r4": "", "r5": "soon", "r6": None,
    "r7": "120, 120", "r8": "1e9", "r9": "Wed, 21 Oct 2015 07:28:00 GMT",
    "r10": "Wed, 21 Oct 2099 07:28:00 GMT", "r11": "1893456000",
}  # fmt: skip
FULL = "KV cache exhausted"
CONTEXT = (
    '{"type":"BadRequestError","code":400,"message":"prompt of 70211 tokens is over the limit"}'
)
IN_STREAM = {
    "a": 'data: {"error":{"message":"deadline passed","type":"GatewayTimeout","code":504}}\n\n',
    "b": '{"error":{"message":"EngineCore process ended","type":"InternalServerError","code":500}}',
    "c": "torch.OutOfMemoryError: CUDA out of memory, tried to allocate 2.0 GiB",
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Run every case of this file side by side, once."""
    folder: Path = tmp_path_factory.mktemp("cases")
    started: list[DaemonProcess] = []

    def start(config: dict[str, object]) -> DaemonProcess:
        started.append(DaemonProcess(folder, config))
        return started[-1]

    stage = Stage(folder, start)
    for add in (b01, b02, b04, b05, b07, b08, b09, b11, b12, b13, b28, b30, b45):
        add(stage)
    stage.run(LENGTH)
    yield stage
    for each in started:
        each.process.kill()
        each.process.wait(5)


def test_every_script_ran_to_its_end(stage: Stage) -> None:
    """No pick and no report failed."""
    assert stage.failures == []


def b01(stage: Stage) -> None:
    pool = stage.pool("b01", "B01", "scenario.json")

    def run() -> None:
        client = stage.client(pool)
        stage.until(5.0)
        for _ in every(0.05, int(20 * (LENGTH - 6))):
            if client.pick() == "a":
                client.post_to("a")

    stage.script(run)


def test_b01_idle_engine_with_frozen_gauges_is_found_by_a_probe(stage: Stage) -> None:
    """It is picked within 30 scrapes, and ten scrapes later its score is back above b's."""
    first = min((at for at, who, _ in stage.pools["b01"].picks if who == "a"), default=None)
    assert first is not None
    assert first < 35.0
    back = stage.scores("b01", "a", first + 9.0, first + 11.0)
    assert max(back) >= min(stage.scores("b01", "b", first + 9.0, first + 11.0)) - 1.0


def b02(stage: Stage) -> None:
    pool = stage.pool("b02", "B02", "scenario.json")

    def run() -> None:
        client, reports = stage.client(pool), []
        for _ in every(0.05, int(20 * (LENGTH - 1))):
            if client.pick() == "a":
                reports.append(stage.now + 3.0)
            while reports and reports[0] <= stage.now:
                reports.pop(0)
                if 5.0 <= stage.now < 40.0:
                    client.tell(
                        "a", status=504, duration_seconds=3.0,
                        error_body="upstream headers timeout",
                    )  # fmt: skip

    wedged = [
        {"from_s": second, "body_file": f"a_{name}.prom", "progress": progress}
        for second, name, progress in ((0, "live", 0.01), (5, "wedged", 0), (25, "recovered", 0.01))
    ]
    back = stage.pool("b02_back", "B02", {"a": wedged, "b": "b.prom"})

    def watch() -> None:
        client = stage.client(back)
        stage.until(stage.engines_at(24.0))
        stage.notes["b02"] = [client.judged("a") for _ in every(0.2, 75)]

    stage.script(run)
    stage.script(watch)


def test_b02_wedged_engine_loses_its_share(stage: Stage) -> None:
    """From second 15 on under 5 % of the picks, and its score at most 20."""
    assert stage.share("b02", "a", 16.0, 39.0) < 0.05
    assert max(stage.scores("b02", "a", 17.0, 39.0)) <= 20.0


def test_b02_recovered_engine_comes_back_by_a_ramp(stage: Stage) -> None:
    """When its counters move again it climbs, at most 15 points a second."""
    rows = [(at, row["score"]) for at, row in stage.notes["b02"]]
    for (before, low), (after, high) in pairwise(rows):
        assert high - low <= 15.0 * (after - before) + 0.1
    assert (rows[0][1] <= 20.0, rows[-1][1] > 90.0) == (True, True)


def b04(stage: Stage) -> None:
    pool = stage.pool("b04", "B04", "scenario.json")

    def run() -> None:
        client = stage.client(pool)
        stage.until(1.0)
        for _ in every(0.1, 50):
            client.tell("a", status=503, ttft_seconds=0.002)
            client.tell("b", status=200, ttft_seconds=0.4)

    stage.script(run)


def test_b04_fast_failures_never_look_like_low_latency(stage: Stage) -> None:
    """The failing one ends below the slow one, and 2 ms is never shown as its TTFT."""
    assert stage.scores("b04", "a", 5.0, 6.0)[-1] < stage.scores("b04", "b", 5.0, 6.0)[-1]
    shown = [row["signals"]["ttft"].get("value") for row in stage.series("b04", "a")]
    assert all(value is None or value > 0.01 for value in shown)


def b05(stage: Stage) -> None:
    one = stage.pool("b05", "B05", "scenario.json")
    three = stage.pool("b05three", "B05", "scenario_three.json")

    def run() -> None:
        single, triple = stage.client(one), stage.client(three)
        for index in every(0.1, 180):
            if index % 5 == 0:
                for letter in one.ports:
                    single.tell(letter, status=200, ttft_seconds=0.04)
                for letter in three.ports:
                    triple.tell(letter, status=200, ttft_seconds=0.04)
            single.pick()
            for _ in range(5):
                triple.pick()

    stage.script(run)


def test_b05_unscraped_engine_with_good_feedback_stays_in_use(stage: Stage) -> None:
    """Ten seconds without a page: degraded and visible as such, never without an answer."""
    assert {status for _, _, status in stage.pools["b05"].picks} == {200}
    blind = stage.series("b05", "a", stage.engines_at(10.0), stage.engines_at(14.5))
    assert {row["state"] for row in blind} == {"degraded"}
    assert not any(row["last_scrape"]["ok"] for row in blind)


def test_b05_three_unscraped_engines_share(stage: Stage) -> None:
    """Each gets a third of the picks, give or take 12 %: N=400, or half of it."""
    blind = stage.engines_at(6.0), stage.engines_at(14.0)
    assert stage.picked("b05three", *blind) >= 200
    for letter in stage.pools["b05three"].ports:
        assert 0.21 <= stage.share("b05three", letter, *blind) <= 0.45


def b07(stage: Stage) -> None:
    pools = [
        stage.pool(f"b07x{size}", "B13", {f"e{index}": "ok.prom" for index in range(size)})
        for size in (1, 2, 3, 10)
    ]

    def run() -> None:
        stage.until(1.0)
        for pool in pools:
            client = stage.client(pool)
            for letter in pool.ports:
                for _ in range(5):
                    client.tell(letter, status=500, error_body="internal error")

    stage.script(run)


@pytest.mark.parametrize(("size", "most"), [(1, 0), (2, 1), (3, 1), (10, 5)])
def test_b07_at_most_half_of_a_pool_cools(stage: Stage, size: int, most: int) -> None:
    """Counted after the step; the others lose score all the same."""
    pool = stage.pools[f"b07x{size}"]
    for shot in stage.shots:
        states = [shot.targets[pool.name, letter]["state"] for letter in pool.ports]
        assert states.count("cooldown") <= most
    for letter in pool.ports:
        assert min(stage.scores(pool.name, letter, 1.0, 6.0)) <= 60.0


def b08(stage: Stage) -> None:
    pool = stage.pool("b08", "B13", {"a": "ok.prom", "b": "ok.prom", "c": "ok.prom"})

    def run() -> None:
        client = stage.client(pool)
        stage.until(1.0)
        for letter in "abc":
            for _ in range(10):
                client.tell(letter, status=400, error_body=CONTEXT)
            for status in (413, 422, 401, 403, 404):
                client.tell(letter, status=status)
            for _ in range(10):
                client.tell(letter, status=500, error_body=json.dumps({"error": CONTEXT}))

    stage.script(run)


def test_b08_bad_requests_of_a_client_cost_nobody(stage: Stage) -> None:
    """400, 413, 422, 401, 403, 404 and a 400 wrapped in a 500: no point, no cooldown."""
    for letter in "abc":
        assert min(stage.scores("b08", letter, 1.0, 5.0)) >= 99.0
        assert {row["state"] for row in stage.series("b08", letter)} == {"healthy"}


def b09(stage: Stage) -> None:
    pool = stage.pool("b09", "B13", {"a": "ok.prom", "b": "ok.prom"})

    def run() -> None:
        client = stage.client(pool)
        for _ in range(10):
            for letter in "ab":
                client.tell(letter, status=200, ttft_seconds=0.4)
        stage.until(1.0)
        for _ in every(0.05, 10):
            client.tell("a", status=408, duration_seconds=0.1)
            client.tell("a", status=499, duration_seconds=0.05)
        stage.until(5.0)
        for _ in every(0.1, 10):
            client.tell("a", status=499, duration_seconds=60.0, ttft_seconds=None)

    stage.script(run)


def test_b09_short_patience_of_a_caller_costs_nothing(stage: Stage) -> None:
    """Timeouts of 100 ms and aborts after 50 ms change the score by at most 2."""
    scores = stage.scores("b09", "a", 0.8, 4.9)
    assert max(scores) - min(scores) <= 2.0


def test_b09_long_waits_without_a_token_cost_points_and_no_cooldown(stage: Stage) -> None:
    """Abandoned after a minute: clearly below its peer, by TTFT, not by errors."""
    row = stage.series("b09", "a", 6.5, 8.0)[-1]
    assert row["score"] < stage.scores("b09", "b", 6.5, 8.0)[-1] - 10.0
    assert (row["points_lost"]["errors"], row["state"] == "cooldown") == (0.0, False)


def b11(stage: Stage) -> None:
    letters = [*RETRY_AFTER, *(f"other{index}" for index in range(12))]
    pool = stage.pool("b11", "B13", dict.fromkeys(letters, "ok.prom"))

    def run() -> None:
        client = stage.client(pool)
        stage.until(1.0)
        for letter, value in RETRY_AFTER.items():
            headers = {} if value is None else {"retry-after": value}
            client.tell(letter, status=429, error_body=FULL, headers=headers)
        lengths = stage.notes["b11"] = {}
        while not lengths.keys() >= RETRY_AFTER.keys() and stage.now < LENGTH:
            lengths |= client.cooldowns()

    stage.script(run)


@pytest.mark.parametrize(
    ("letters", "shortest", "longest"),
    [
        (["r0", "r1"], 7.0, 8.0),
        (["r2", "r3", "r4", "r5", "r6", "r9"], 3.0, 5.0),
        (["r8", "r10", "r11"], 30.0, 30.0),
        (["r7"], 3.0, 30.0),
    ],
)
def test_b11_retry_after_in_every_form(
    stage: Stage, letters: list[str], shortest: float, longest: float
) -> None:
    """Seconds and dates are honoured, the past and garbage mean the default, 30 s is the most."""
    assert {status for status, _ in stage.pools["b11"].answers} == {202}
    for letter in letters:
        assert shortest - 0.002 <= stage.notes["b11"][letter] <= longest + 0.002, letter
        assert stage.series("b11", letter)[-1]["state"] == "healthy"


def b12(stage: Stage) -> None:
    pool = stage.pool("b12", "B12", "scenario.json")

    def run() -> None:
        client = stage.client(pool)
        for _ in every(0.05, 20):
            client.tell("a", status=429, error_body=FULL)
        for _ in every(0.01, 100):
            client.pick()
        began = stage.now + 1.0  # by then all of them have been judged
        for _ in every(0.1, 50):
            for letter in "abc":
                client.tell(letter, status=429, error_body=FULL)
            for _ in range(5):
                client.pick()
        stage.notes["b12"] = began, stage.now
        for _ in every(0.05, 300):
            who = client.pick()
            client.tell(who, status=200, ttft_seconds=0.3)

    stage.script(run)


def test_b12_refusals_are_pressure_not_death(stage: Stage) -> None:
    """All three refuse: N=200 picks spread over them; none is ever out, none fails."""
    refused = stage.notes["b12"]
    assert stage.picked("b12", *refused) >= 100
    for letter in "abc":
        rows = stage.series("b12", letter)
        assert {row["state_reason"] for row in rows} & {"failing", "engine_fault"} == set()
        assert stage.share("b12", letter, *refused) > 0.1


def b13(stage: Stage) -> None:
    pool = stage.pool("b13", "B13", {"a": "ok.prom", "b": "ok.prom"})

    def run() -> None:
        client = stage.client(pool)
        stage.until(1.0)
        for _ in range(6):
            client.tell("a", status=500, error_body="internal error")
        stage.until(11.0)
        for _ in every(0.1, 200):
            who = client.pick()
            first = not any(w == "a" and at > 11.0 for at, w, _ in pool.picks[:-1])
            if who != "a" or not first:
                client.tell(who, status=200, ttft_seconds=0.2)

    stage.script(run)


def test_b13_cooldown_ends_by_time_and_a_trickle_leads_back(stage: Stage) -> None:
    """With no traffic the cooldown ends; the engine is asked again and is back in use."""
    assert "cooldown" not in {row["state"] for row in stage.series("b13", "a", 8.0, 11.0)}
    assert stage.share("b13", "a", 11.0, 31.0) > 0.0


def b28(stage: Stage) -> None:
    pool = stage.pool("b28", "B13", dict.fromkeys("abcde", "ok.prom"))

    def run() -> None:
        client = stage.client(pool)
        stage.until(1.0)
        for _ in every(0.1, 5):
            for letter, body in IN_STREAM.items():
                client.tell(letter, status=200, error_body=body)
            client.tell("d", status=200, stream=True, output_tokens=0, ttft_seconds=None)
            client.tell("e", status=200, ttft_seconds=0.3)
        stage.notes["long body"] = client.tell("a", status=200, error_body="x" * 100_000)

    stage.script(run)


def test_b28_failure_inside_a_good_status_counts(stage: Stage) -> None:
    """Errors inside 200, engine death, out of memory, no token at all: points for each kind."""
    for letter in "abcd":
        assert min(stage.scores("b28", letter, 1.5, 4.0)) <= 60.0, letter
    assert min(stage.scores("b28", "e", 1.5, 4.0)) > 98.0
    assert stage.notes["long body"].status_code == 202


def b30(stage: Stage) -> None:
    pool = stage.pool("b30", "B30", "scenario.json")

    def run() -> None:
        client: Client = stage.client(pool)
        stage.until(5.0)
        for _ in every(0.02, 1200):
            client.tell(client.pick(), status=200, ttft_seconds=0.3)

    stage.script(run)


def test_b30_everybody_new_at_once_shares_at_once(stage: Stage) -> None:
    """A fleet that is known from the start is not ramped against itself."""
    letters = list(stage.pools["b30"].ports)
    shares = [stage.share("b30", letter, 5.0, 29.0) for letter in letters]
    assert min(shares) > 0.2 / len(letters)
    assert max(shares) < 3.0 / len(letters)


def b45(stage: Stage) -> None:
    pool = stage.pool("b45", "B45", "scenario.json")

    def run() -> None:
        client = stage.client(pool)
        for _ in every(0.2, 30):  # as many as the window holds at one a second
            for letter in "abc":
                client.tell(letter, status=200, ttft_seconds=0.3)
        stage.until(8.0)
        client.tell("c", status=503)
        for _ in range(20):
            client.tell("a", status=503)
        for _ in every(0.4, 20):
            client.tell("b", status=503)

    stage.script(run)


def test_b45_burst_of_errors_weighs_what_it_is(stage: Stage) -> None:
    """Twenty errors in 50 ms or over eight seconds cost alike, and at least 30 points."""
    burst, spread = stage.scores("b45", "a", 8.0, 18.0), stage.scores("b45", "b", 8.0, 18.0)
    assert min(burst) <= 70.0
    assert abs(min(burst) - min(spread)) <= 12.0


def test_b45_one_old_error_is_forgotten_by_time(stage: Stage) -> None:
    """Forty seconds after a single error nothing is left of it."""
    assert stage.scores("b45", "c", LENGTH - 3.0)[-1] > 99.0 - 35.0 * (0.3 / 2.0) ** 2


def test_case_data_is_complete() -> None:
    """Every case named in this file has its folder with what is expected of it."""
    for case in ("B01", "B02", "B04", "B05", "B07", "B08", "B09", "B11", "B12", "B13", "B28"):
        assert (CASES / case / "expected.md").is_file()
