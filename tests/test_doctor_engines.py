"""The doctor on every engine and gateway: what is missing, what to switch on, and the table."""

import csv
import json
from pathlib import Path

import pytest

from scorer.doctor import diagnose, exit_code, run_doctor

PAGES = Path(__file__).parent / "data" / "expositions"


@pytest.fixture
def printed(capsys):
    """Return a function that runs the doctor on a page and returns what it printed."""

    def run(page: str, output: str = "json"):
        run_doctor([str(PAGES / page)], output, 2.0)
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("page", "hint"),
    [
        ("tensorrt_llm/prometheus-nocompletion.prom", "set return_perf_metrics: true"),
        ("tensorrt_llm/prometheus-nocompletion.prom", "set enable_iter_perf_stats: true"),
        ("tensorrt_llm/prometheus-1.1.prom", "this version prints no load gauges: upgrade"),
        ("tensorrt_llm/iterstats-empty.json", "let nobody else read this page"),
        ("tensorrt_llm/iterstats-empty.json", "nothing happened since the last read"),
        ("triton/trtllm.prom", "--metrics-config histogram_latencies=true"),
        ("tgi/tgi.prom", "name a gateway that does"),
        ("llamacpp/llamacpp.prom", "prints no KV-cache gauge any more"),
        ("vllm-0.32-real/20_dp2_just_started.prom", "no samples yet: send one request"),
        ("gateways/envoy-ai-gateway.prom", "it can serve a pool of one target only"),
    ],
)
def test_hint_says_what_to_switch_on(page, hint):
    """What is missing comes with what to do about it at the engine."""
    assert any(hint in given for given in diagnose(str(PAGES / page), 2.0).hints)


def test_vllm_without_statistics(tmp_path):
    """The flag is named where its rows are missing altogether, and where one is late it is not."""
    late = PAGES / "vllm-0.32-real" / "20_dp2_just_started.prom"
    off = tmp_path / "off.prom"
    off.write_text("".join(
        line for line in late.read_text().splitlines(keepends=True) if "vllm:" not in line
    ))  # fmt: skip
    assert "--disable-log-stats" not in "".join(diagnose(str(late), 2.0).hints)
    assert "vLLM without --disable-log-stats" in "".join(diagnose(str(off), 2.0).hints)


def test_complete_engine_gets_no_advice():
    """Nothing is to be switched on where nothing is missing."""
    assert diagnose(str(PAGES / "nim" / "nim.prom"), 2.0).hints == (
        "no process_start_time_seconds: a restart shows only by counters that go back",
    )


@pytest.mark.parametrize(
    ("page", "code"),
    [
        ("sglang/latest.prom", 0),
        ("triton/trtllm-histogram.prom", 0),
        ("triton/trtllm.prom", 3),
        ("tgi/tgi.prom", 3),
        ("tensorrt_llm/iterstats.json", 3),
        ("gateways/apisix.prom", 0),
        ("others/smg.prom", 1),
    ],
)
def test_exit_code_tells_whether_a_signal_is_missing(page, code):
    """0 with everything, 3 with a signal missing, 1 for no engine and no gateway."""
    assert exit_code(diagnose(str(PAGES / page), 2.0)) == code


def test_json_of_iteration_statistics(printed):
    """An engine's JSON page is read like any other, with its gaps."""
    found = json.loads(printed("tensorrt_llm/iterstats-saturated.json"))
    assert (found["engine"], found["mapping"]) == ("tensorrt_llm", "tensorrt_llm_json")
    assert (found["signals"]["running"], found["signals"]["waiting"]) == (256, 133)
    assert found["unavailable"] == {"ttft": "not_offered", "errors": "not_offered"}


def test_json_of_an_empty_list(printed):
    """Nothing to report is unavailable, not 0."""
    found = json.loads(printed("tensorrt_llm/iterstats-empty.json"))
    assert {found["unavailable"][name] for name in ("running", "waiting", "kv_cache")} == {"idle"}


def test_values_that_an_engine_never_has_are_not_missed(printed):
    """Preemptions of an engine that counts none are no gap."""
    assert "preemptions" not in json.loads(printed("tgi/tgi.prom"))["unavailable"]


def test_json_of_a_gateway(printed):
    """Per target the TTFT counted, in seconds, and the outcomes."""
    found = json.loads(printed("gateways/apisix.prom"))
    assert found["gateway"] == "apisix"
    assert found["ttft"] == {
        "engine-a": {"count": 410, "sum": 196.708488007},
        "engine-b": {"count": 390, "sum": 1444.989705235},
    }
    assert found["requests"]["engine-b"] == {"failures": 7.0, "successes": 0}


def test_json_of_a_gateway_without_ttft(tmp_path, printed):
    """A gateway that has not streamed anything yet says why there is nothing."""
    page = tmp_path / "fresh.prom"
    page.write_text('gen_ai_server_request_duration_seconds_count{a="b"} 3\n')
    found = json.loads(printed(str(page)))
    assert found["ttft"] == {"unavailable": "family_absent"}
    assert any(
        "the page has no gen_ai_server_time_to_first_token_seconds yet" in hint
        for hint in found["hints"]
    )


def test_absent_family_is_named(printed):
    """What was looked for is told, so that it can be looked for by hand."""
    family = "nv_inference_first_response_histogram_ms"
    text = printed("triton/trtllm.prom", "table")
    assert f"  ttft        unavailable: the page has no {family} (family_absent)\n" in text
    assert json.loads(printed("triton/trtllm.prom"))["looked_for"] == {"ttft": [family]}


def test_every_absent_family_is_named(tmp_path, printed):
    """All that tell a part of it, or would do instead of another."""
    page = tmp_path / "old.prom"
    page.write_text("vllm:num_requests_running 0\n")
    assert (
        "  errors      unavailable: the page has none of http_requests_total, "
        "vllm:request_success_total (family_absent)\n"
    ) in printed(str(page), "table")


def test_text_of_a_gateway(printed):
    """People read the preset, the targets and their mean."""
    lines = printed("gateways/nginx.prom", "table").splitlines()
    assert lines[0].endswith(": a gateway, nginx (scorer's Lua) (preset nginx)")
    assert "  ttft        engine-a:8000: 900 observations, mean 0.351 s" in lines
    assert "  requests    engine-a:8000: 3 failures, 900 successes" in lines


def test_table_has_a_row_per_page_and_target(printed):
    """A folder is one table, with values or reasons in its cells."""
    rows = list(csv.DictReader(printed("gateways", "csv").splitlines()))
    assert [row["target"] for row in rows if row["page"] == "apisix.prom"] == [
        "engine-a", "engine-b",
    ]  # fmt: skip
    assert {row["mapping"] for row in rows if row["page"] == "kong.prom"} == {"no_mapping"}


def test_text_of_an_engine_names_its_gaps(printed):
    """The reason in words, and its name in the API."""
    text = printed("tgi/tgi.prom", "table")
    assert "  ttft        unavailable: the engine has no such metric (not_offered)\n" in text
    assert "Text Generation Inference (mapping tgi)\n" in text
