"""The doctor: targets in every form, what it prints, and its exit codes."""

import io
import json
import os
import sys
import threading
from pathlib import Path

import pytest

from scorer.doctor import diagnose, diagnose_all, exit_code, run_doctor

PAGES = Path(__file__).parent / "data" / "expositions"
READABLE = str(PAGES / "vllm" / "v1-latest.prom")
PARTLY = str(PAGES / "vllm-0.32-real" / "20_dp2_just_started.prom")
ROUTER = str(PAGES / "others" / "production-stack-router.prom")
OLD = str(PAGES / "vllm" / "v0-0.4.prom")


@pytest.fixture
def page(tmp_path):
    """Return a function that saves a page and returns its path."""

    def save(body: bytes) -> str:
        path = tmp_path / "saved.prom"
        path.write_bytes(body)
        return str(path)

    return save


@pytest.fixture
def printed(capsys):
    """Return a function that runs the doctor and returns what it printed."""

    def run(*targets: str, output: str = "table") -> str:
        run_doctor(list(targets), output, 2.0)
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("targets", "code"),
    [
        ([READABLE], 0),
        ([PARTLY], 3),
        ([ROUTER], 1),
        ([OLD], 0),
        ([READABLE, PARTLY], 3),
        ([ROUTER, PARTLY, READABLE], 1),
    ],
)
@pytest.mark.parametrize("output", ["table", "json"])
def test_exit_code_is_that_of_the_worst_target(targets, code, output, capsys):
    """0 readable, 3 in part, 1 not; an old version without error counters is readable."""
    assert run_doctor(targets, output, 2.0) == code
    assert capsys.readouterr().out


def test_json_of_a_readable_page(printed):
    """Everything a script needs, under the documented keys."""
    assert json.loads(printed(READABLE, output="json")) == {
        "target": READABLE,
        "engine": "vllm",
        "mapping": "vllm_v1",
        "version": "0.32 or later",
        "model_names": ["meta-llama/Llama-3.1-8B-Instruct"],
        "signals": {
            "running": 18,
            "waiting": 5,
            "kv_cache": 0.6142,
            "ttft": {"count": 420, "sum": 138.35485974447985},
            "errors": {"failures": 0, "successes": 412, "refusals": 0},
            "preemptions": 0,
            "capacity": 439200,
            "start_time": 1796001506.65,
            "asleep": False,
        },
        "unavailable": {},
        "hints": [],
    }


def test_json_of_a_page_with_gaps(printed):
    """A missing signal has a reason and no value; a histogram without observations has zeros."""
    found = json.loads(printed(PARTLY, output="json"))
    assert found["unavailable"] == dict.fromkeys(("running", "waiting", "kv_cache"), "no_samples")
    assert found["signals"]["ttft"] == {"count": 0, "sum": 0}
    assert not found["unavailable"].keys() & found["signals"].keys()


def test_json_of_a_page_of_no_engine(printed):
    """Nothing is known of the engine, and every signal says why."""
    found = json.loads(printed(ROUTER, output="json"))
    assert (found["engine"], found["mapping"], found["version"]) == (None, None, None)
    assert found["unavailable"]["running"] == "no_mapping"
    assert found["failure"]["reason"] == "no_mapping"


def test_json_of_several_targets_is_an_array(printed):
    """One object for one target, an array for several."""
    found = json.loads(printed(READABLE, ROUTER, output="json"))
    assert [entry["target"] for entry in found] == [READABLE, ROUTER]


def test_table_says_every_signal_with_its_unit(printed):
    """Engine, version range, mapping, models and values in words."""
    assert printed(READABLE).splitlines() == [
        f"{READABLE}: vLLM V1, version 0.32 or later by its metrics (mapping vllm_v1)",
        "  models      meta-llama/Llama-3.1-8B-Instruct",
        "  running     18 requests",
        "  waiting     5 requests",
        "  kv_cache    0.6142 (61.4% of the KV cache in use)",
        "  ttft        420 observations, 138.355 s in total, mean 0.329 s",
        "  errors      0 failures, 412 successes, 0 refusals",
        "  preemptions 0",
        "  capacity    439200 tokens of KV cache",
        "  started     2026-11-30T01:18:26Z",
        "  asleep      no",
    ]


def test_table_says_why_a_signal_is_missing(printed):
    """The reason in words, and its name in the API."""
    expected = "unavailable: the metric is known to the page but has no sample yet (no_samples)"
    assert f"  running     {expected}\n" in printed(PARTLY)


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        (PARTLY, "no samples yet: send one request"),
        (PARTLY, "2 engines on this page"),
        (PARTLY, "no process_start_time_seconds"),
        (str(PAGES / "vllm" / "v1-0.10-apiserver2-pid.prom"), "label pid"),
        (ROUTER, "a router (its rows have the label server): point at the engines behind it"),
        (str(PAGES / "others" / "vllm-router.prom"), "a router (vllm-router): point at"),
        (str(PAGES / "gateways" / "kong.prom"), "the page of Kong, which measures no TTFT"),
        (str(PAGES / "others" / "dynamo-frontend.prom"), "a router (Dynamo's front-end)"),
        (str(PAGES / "oddities" / "kv_percent.prom"), "it counts as missing, not as 0"),
    ],
)
def test_hint_says_what_to_do(path, hint):
    """What the page leaves out or is instead comes with advice."""
    assert any(hint in given for given in diagnose(path, 2.0).hints)


@pytest.mark.parametrize(
    ("body", "reason", "hint"),
    [
        (b"<html>", "wrong_content", "metrics are at /metrics of the API port"),
        (b"", "empty", "is this the engine's own port?"),
        (b"up 1", "truncated", "something cuts the page"),
        (b"vllm:num_requests_running=5\n", "parse", "was it edited or merged?"),
        (b"up 1\n", "no_mapping", "no metrics of an inference engine here yet"),
        (b"# TYPE vllm:num_requests_running gauge\n", "no_mapping", "send one request"),
    ],
)
def test_bad_page_is_named_with_advice(page, body, reason, hint):
    """Each kind of bad page has its reason and something to check."""
    got = diagnose(page(body), 2.0)
    assert (got.reason, exit_code(got)) == (reason, 1)
    assert any(hint in given for given in got.hints)


def test_sleeping_engine_is_pointed_out(page):
    """An engine that sleeps looks idle, so the doctor says that it sleeps."""
    body = (
        b'vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0\nvllm:kv_cache_usage_perc 0\n'
    )
    got = diagnose(page(body), 2.0)
    assert any("asleep" in hint for hint in got.hints)


def test_start_time_of_no_calendar_is_printed_as_it_is(page, printed):
    """A start time beyond every year does not end in a traceback."""
    path = page(b"vllm:kv_cache_usage_perc 0\nprocess_start_time_seconds 1e18\n")
    assert "  started     1e+18 seconds since 1970\n" in printed(path)


def test_saved_openmetrics_page_is_recognised(page):
    """A file has no content type; its last line tells the format."""
    got = diagnose(page(b"vllm:kv_cache_usage_perc 0.5 # {} 1\n# EOF\n"), 2.0)
    assert got.samples.kv_cache.value == 0.5


def test_page_on_standard_input(monkeypatch):
    """A dash reads the page from standard input."""
    stdin = io.TextIOWrapper(io.BytesIO(Path(READABLE).read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert diagnose("-", 2.0).samples.running.value == 18


def test_too_large_file_is_refused(page, monkeypatch):
    """A file is held to the limit of a fetched page."""
    monkeypatch.setattr("scorer.doctor.MAX_BYTES", 3)
    assert diagnose(page(b"up 1\n"), 2.0).detail == "more than 3 bytes"


@pytest.mark.parametrize(
    ("target", "detail"),
    [
        ("nowhere.prom", "no such file, and as an address it must name the port, as host:port"),
        ("ftp://engine/metrics", "neither an http nor an https URL"),
        ("http://", "neither an http nor an https URL"),
        ("http://[::1", "Invalid IPv6 URL"),
        ("/dev/zero", "a device, not a regular file"),
        ("x" * 5_000, "no such file, and as an address it must name a host as host:port"),
        (str(PAGES.parent / "tls"), "Is a directory"),
    ],
)
def test_target_that_is_none_is_named(target, detail, printed):
    """What is neither a page nor an address is one line, not a traceback."""
    assert printed(target).splitlines() == [
        f"{target}: not readable",
        f"  reason      target: {detail}",
    ]


def test_pipe_is_waited_for_until_the_deadline(tmp_path):
    """A named pipe that nobody writes to is given up, one that is written to is read."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "a pipe whose writer does not" in diagnose(str(pipe), 0.1).detail
    content = Path(READABLE).read_bytes()
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    assert diagnose(str(pipe), 10.0).samples.running.value == 18
    writer.join()


def test_folder_is_read_without_its_pipes(tmp_path):
    """A pipe among saved pages holds up none of them."""
    os.mkfifo(tmp_path / "a.prom")
    (tmp_path / "b.prom").write_text("up 1\n")
    assert [each.target for each in diagnose_all(str(tmp_path), 0.1)] == ["b.prom"]


def test_closed_standard_input_is_told(monkeypatch):
    """A daemon's shell may have closed it."""
    monkeypatch.setattr(sys, "stdin", None)
    assert diagnose("-", 2.0).detail == "standard input is closed"


def test_user_of_a_url_that_is_none_is_not_shown():
    """What stands before an '@' is a secret, in a broken URL too."""
    assert diagnose("http://user:secret@[::1", 2.0).target == "[::1"
