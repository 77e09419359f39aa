"""``/metrics``: what the page says of a snapshot."""

import dataclasses
import math
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporters.catalogue import METRICS, Type
from exporters.prometheus import Inputs, build_exposition
from scorer.core.snapshot import SignalView
from scorer.core.vocabulary import Gap, ScrapeFailure, SignalName, State
from scorer.daemon_stats import DaemonStats
from scorer.discovered import Mechanism
from scorer.http_stats import HttpStats
from scorer.inflight import InFlight
from scorer.output_stats import Output, OutputStats
from scorer.pick_stats import PickFailure, PickStats
from scorer.sources.discovery.stats import SdStats
from tests.http.builders import (
    NOW,
    WALL,
    frozen_clocks,
    pool,
    snapshot,
    target,
    unreachable,
    unscored,
)

FILES, WEB = ("chat", Mechanism.FILE), ("chat", Mechanism.HTTP)
GOLDEN = Path(__file__).parent / "golden.prom"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


def inputs(*pools, **changes):
    """Return what the collector reads, after a little of everything has happened."""
    stats, picks, inflight = DaemonStats(), PickStats(), InFlight()
    stats.scrape_done("chat", 0.012)
    stats.scrape_missed("chat", "10.0.0.7:8000")
    stats.scoring_done("chat", 0.0004, NOW - 1.0)
    stats.reloaded(True, WALL - 60.0)
    stats.state_kept()
    stats.state_written(True, WALL - 10.0)
    stats.state_written(False, WALL)
    picks.record("chat", 0.00003)
    picks.record("", 0.00002, PickFailure.UNKNOWN_POOL)
    inflight.opened("chat", "10.0.0.7:8000")
    sd = SdStats()
    sd.keep([(FILES, 0), (WEB, 1)])
    sd.refreshed(FILES, 0, targets=3, at=NOW - 4.0)
    sd.refreshed(WEB, 1, targets=0, at=NOW - 3.0, failures=1)
    stats.loop_lagged(0.002)
    served, outputs = HttpStats(), OutputStats()
    served.count("/pick", b"GET", 200)
    served.count("/metrics", "GET", 200)
    served.took("/metrics", 0.004)
    outputs.answered(Output.HTTP_SD)
    fields = {
        "snapshot": lambda: snapshot(*pools),
        "inflight": inflight,
        "picks": picks,
        "stats": stats,
        "version": "0.1.0",
        "revision": "abc1234",
        "clocks": frozen_clocks(),
        "sd": sd,
        "served": served,
        "outputs": outputs,
    }
    return Inputs(**(fields | changes))


def render(*pools, accept="", names=(), **changes):
    """Return headers and body of the page."""
    headers, body = build_exposition(inputs(*pools, **changes))(accept, names)
    return dict(headers), body


def values(*pools, **changes):
    """Return the page's samples as a mapping from (name, labels without pool) to value."""
    _, body = render(*pools, **changes)
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for found in parse_text(body.decode())
        for sample in found.samples
    }


def names(*pools):
    """Return the names of the samples about targets."""
    return {name for name, *_ in values(*pools)}


def ours(body):
    """Return the lines of our own metrics, without what differs from machine to machine."""
    text = body.decode().replace(platform.python_version(), "3.x")
    return [line for line in text.splitlines() if "scorer_" in line]


def test_golden_page():
    """The whole page of a pool of three, line by line."""
    _, body = render(pool(target(), unreachable(), unscored(), models=("llama-*",)))
    assert ours(body) == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_openmetrics_page_is_valid():
    """The strict parser reads the OpenMetrics page and finds the same samples."""
    pools = (pool(target(), unreachable(), unscored()),)
    headers, body = render(*pools, accept=OPENMETRICS)
    found = {s.name for f in parse_openmetrics(body.decode()) for s in f.samples}
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert found >= {name for name in names(*pools) if name.startswith("scorer_")}


@pytest.mark.system
def test_promtool_has_no_complaint(tmp_path):
    """``promtool check metrics`` says nothing about the page."""
    promtool = shutil.which("promtool")
    assert promtool, "the package `prometheus` is part of the set-up"
    _, body = render(pool(target(), unreachable(), unscored()))
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=body, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_without_a_state_file_there_is_nothing_of_it():
    """A failure that cannot happen has no count, and no file no time of writing."""
    found = {name for name, *_ in values(pool(target()), stats=DaemonStats())}
    assert "scorer_build_info" in found
    assert not {name for name in found if "state_file" in name}


def test_every_metric_of_the_catalogue_is_there():
    """A page of a judged pool has a sample of everything in the catalogue."""
    histograms = {metric.name for metric in METRICS if metric.type is Type.HISTOGRAM}
    present = {name.removesuffix("_count") for name in names(pool(target()))}
    assert {metric.name for metric in METRICS} <= present
    assert histograms <= present


def test_samples_have_the_labels_of_the_catalogue():
    """Every sample carries exactly the labels that are documented."""
    documented = {metric.name: set(metric.labels) for metric in METRICS}
    _, body = render(pool(target(), unreachable(), unscored()))
    samples = [sample for found in parse_text(body.decode()) for sample in found.samples]
    checked = 0
    for sample in samples:
        name = re.sub("_seconds_(bucket|sum|count)$", "_seconds", sample.name)
        if name in documented:
            checked += 1
            assert set(sample.labels) - {"le"} == documented[name], sample
    assert checked > 100


def test_created_series_are_absent():
    """No counter brings a second series along."""
    assert not [name for name in names(pool(target())) if name.endswith("_created")]


ABSENT_BEFORE_A_SCRAPE = {
    "scorer_target_score",
    "scorer_target_points_lost",
    "scorer_target_ttft_seconds",
    "scorer_target_error_ratio",
    "scorer_target_requests_waiting",
    "scorer_target_requests_running",
    "scorer_target_kv_cache_usage_ratio",
    "scorer_target_preemptions_total",
    "scorer_target_signal_available",
    "scorer_target_up",
    "scorer_target_metrics_frozen",
}


def test_unknown_values_have_no_sample():
    """Of a target that was never scraped nothing is made up."""
    assert not names(pool(unscored())) & ABSENT_BEFORE_A_SCRAPE


def test_known_values_have_a_sample():
    """Of a target that was scraped and judged all of that is there."""
    assert names(pool(target())) >= ABSENT_BEFORE_A_SCRAPE


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_value_that_is_no_number_has_no_sample(value):
    """NaN and infinity are not shown as values of the engine."""
    odd = dataclasses.replace(target(), running=value)
    assert "scorer_target_requests_running" not in names(pool(odd))


def test_state_is_one_hot():
    """The current state is 1, the other five are 0."""
    shown = values(pool(target()))
    states = {
        state: shown["scorer_target_state", "chat", state, "10.0.0.7:8000"] for state in State
    }
    assert states == {**dict.fromkeys(State, 0.0), State.HEALTHY: 1.0}


@pytest.mark.parametrize("gap", [Gap.NOT_OFFERED, Gap.IDLE, Gap.FAMILY_ABSENT])
def test_signal_that_there_cannot_be_is_not_missing(gap):
    """What the engine never has, or has nothing to say of yet, must not raise an alert."""
    name = "scorer_target_signal_available"
    signals = {**target().signals, SignalName.TTFT: SignalView(None, unavailable=gap)}
    shown = values(pool(target(signals=signals)))
    key = (name, "chat", SignalName.TTFT, "10.0.0.7:8000")
    assert shown.get(key) == (0.0 if gap is Gap.FAMILY_ABSENT else None)


def test_failures_start_at_zero():
    """Every reason is there from the start, so that the first failure is an increase."""
    shown = values(pool(unscored("a:1")))
    name = "scorer_scrape_failures_total"
    failures = {reason: shown[name, "chat", reason, "a:1"] for reason in ScrapeFailure}
    assert failures == dict.fromkeys(ScrapeFailure, 0.0)


def test_pick_failures_start_at_zero():
    """A pool that was never asked has all its pick counters, at zero."""
    shown = values(pool(target(pool="new"), name="new"))
    counts = [shown["scorer_pick_request_failures_total", "new", why] for why in PickFailure]
    assert (shown["scorer_pick_requests_total", "new"], *counts) == (0.0,) * 6


def test_times_are_unix_times():
    """Monotonic times become the Unix times they were."""
    shown = values(pool(target()))
    key = ("chat", "10.0.0.7:8000")
    assert shown["scorer_target_state_since_timestamp_seconds", *key] == WALL - 90.0
    assert shown["scorer_target_last_scrape_success_timestamp_seconds", *key] == WALL - 0.5
    assert shown["scorer_scoring_last_run_timestamp_seconds", "chat"] == WALL - 1.0


def test_success_time_is_zero_before_the_first():
    """A target that was never scraped well has been so since the epoch."""
    shown = values(pool(unscored("a:1")))
    assert shown["scorer_target_last_scrape_success_timestamp_seconds", "chat", "a:1"] == 0.0


def test_thresholds_are_series():
    """Alert rules compare with what the configuration says, by severity."""
    shown = values(pool(target()))
    found = {(key[0], key[2]): bound for key, bound in shown.items() if "_threshold" in key[0]}
    assert found == {
        ("scorer_pool_score_threshold", "warning"): 70.0,
        ("scorer_pool_score_threshold", "critical"): 50.0,
        ("scorer_pool_kv_cache_usage_threshold_ratio", "warning"): 0.9,
        ("scorer_pool_kv_cache_usage_threshold_ratio", "critical"): 0.97,
        ("scorer_pool_ttft_threshold_seconds", "warning"): 2.0,
    }


def test_departed_target_is_gone():
    """Counts of a target that the snapshot does not have are not shown."""
    _, body = render(pool(target("other:1")))
    assert b"10.0.0.7" not in body


def test_departed_pool_is_gone():
    """Counts of a pool that the snapshot does not have are not shown."""
    _, body = render(pool(target(pool="new"), name="new"))
    assert b'pool="chat"' not in body


def test_reload_state_is_unknown_before_the_first_load():
    """Before any load neither success nor failure is claimed."""
    shown = values(pool(target()), stats=DaemonStats())
    assert not [name for name, *_ in shown if name.startswith("scorer_config_")]


def test_failed_reload_keeps_the_time_of_the_last_good_one():
    """A failed reload turns the flag and leaves the time."""
    stats = DaemonStats()
    stats.reloaded(True, WALL - 60.0)
    stats.reloaded(False, WALL)
    shown = values(pool(target()), stats=stats)
    assert shown["scorer_config_last_reload_successful",] == 0.0
    assert shown["scorer_config_last_reload_success_timestamp_seconds",] == WALL - 60.0


def test_hostile_labels_cannot_break_the_page():
    """What an engine says of itself is a label value, whatever it is."""
    hostile = target(engine_version='1"\n} evil 1\n\udcff\\', model_names=('a"b', "c\n"))
    _, body = render(pool(hostile))
    assert "scorer_target_info" in {f.name for f in parse_text(body.decode())}
    assert not [line for line in body.decode().splitlines() if "evil" in line[:10]]


def info(**changes) -> dict[str, str]:
    """Return the labels of a target's metadata."""
    _, body = render(pool(target(**changes)))
    families = {family.name: family for family in parse_text(body.decode())}
    return families["scorer_target_info"].samples[0].labels


def test_model_names_are_bounded():
    """A page that names many models, or long ones, leaves an ellipsis in a short label."""
    assert info(model_names=("a", "b"))["model_name"] == "a,b"
    eight = tuple("abcdefgh")
    assert info(model_names=eight)["model_name"] == "a,b,c,d,e,f,g,h"
    assert info(model_names=(*eight, "i"))["model_name"] == "a,b,c,d,e,f,g,h,…"
    assert info(model_names=("x" * 128,))["model_name"] == "x" * 128
    assert info(model_names=("x" * 129,))["model_name"] == "x" * 127 + "…"
    hostile = info(model_names=tuple(f"{n}" * 60_000 for n in range(10_000)))
    assert len(hostile["model_name"]) <= 8 * 129 + 1


def test_names_restrict_the_page():
    """``name[]`` leaves only the metrics of these names."""
    _, body = render(pool(target()), names=["scorer_target_score", "scorer_target_up"])
    assert {f.name for f in parse_text(body.decode())} == {
        "scorer_target_score",
        "scorer_target_up",
    }


def test_histogram_is_restricted_by_its_own_name():
    """A histogram is asked for as it is documented, not by its parts."""
    _, body = render(pool(target()), names=["scorer_pick_duration_seconds"])
    assert b'scorer_pick_duration_seconds_bucket{pool="chat",le="+Inf"} 1.0' in body


def test_unknown_name_gives_an_empty_page():
    """A name that does not exist is no error."""
    assert render(pool(target()), names=["nothing"])[1] == b""


def test_process_metrics_are_there():
    """The process's own metrics come along."""
    assert {"process_cpu_seconds_total", "python_info"} <= names(pool(target()))
