"""The one table of the metrics that the daemon exports.

``python -m exporters.catalogue`` writes it to ``docs/metrics.md``; the collector
takes names, types, labels and help from here, so the page, the documentation and this
table cannot disagree.
"""

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from scorer.core.cooldown import CooldownReason
from scorer.core.outcome import OutcomeClass
from scorer.core.vocabulary import Cause, ScrapeFailure, SignalName, State
from scorer.daemon_stats import SCORING_BOUNDS, SCRAPE_BOUNDS
from scorer.discovered import Mechanism
from scorer.feedback.stats import Rejection
from scorer.http_stats import HTTP_BOUNDS
from scorer.output_stats import Output
from scorer.pick_stats import PICK_BOUNDS, PickFailure

DOCUMENT = Path(__file__).parent.parent / "docs" / "metrics.md"


class Type(StrEnum):
    """Type of a metric, as OpenMetrics names it."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


SUFFIXES = {Type.COUNTER: "_total", Type.INFO: "_info"}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric by the ``name`` it has in queries; ``unit`` is for people."""

    name: str
    type: Type
    labels: tuple[str, ...]
    unit: str
    help: str

    @property
    def family(self) -> str:
        """The name without the suffix that the type adds."""
        return self.name.removesuffix(SUFFIXES.get(self.type, ""))


TARGET = ("pool", "target")
POOL = ("pool",)
NONE = ()
UNIX = "seconds (Unix)"
RATIO = "ratio 0-1"
POINTS = "points 0-100"
FLAG = "0/1"

METRICS = (
    Metric(
        "scorer_target_score", Type.GAUGE, TARGET, POINTS,
        "Health score of the target, from 0 (do not use) to 100 (healthy).",
    ),
    Metric(
        "scorer_target_points_lost", Type.GAUGE, (*TARGET, "signal"), POINTS,
        "Points lost by the target, by cause: ttft, errors, queue, kv_cache, saturation, cap, "
        "warmup; 100 minus their sum is the score.",
    ),
    Metric(
        "scorer_target_state", Type.GAUGE, (*TARGET, "state"), FLAG,
        "Whether the target is in the state: 1 for the current state, 0 for every other one.",
    ),
    Metric(
        "scorer_target_state_since_timestamp_seconds", Type.GAUGE, TARGET, UNIX,
        "Unix time at which the target entered its current state.",
    ),
    Metric(
        "scorer_target_weight_ratio", Type.GAUGE, TARGET, RATIO,
        "Share of its full weight the target has in picks, after score, cooldown and warm-up.",
    ),
    Metric(
        "scorer_target_warmup_ratio", Type.GAUGE, TARGET, RATIO,
        "Progress of the warm-up ramp of the target; 1 when it is complete.",
    ),
    Metric(
        "scorer_target_state_transitions_total", Type.COUNTER, (*TARGET, "from", "to"),
        "transitions", "State changes of the target.",
    ),
    Metric(
        "scorer_target_cooldowns_total", Type.COUNTER, (*TARGET, "reason"), "cooldowns",
        "Cooldowns the target entered, by what caused them.",
    ),
    Metric(
        "scorer_target_cooldown_seconds_total", Type.COUNTER, (*TARGET, "reason"), "seconds",
        "Time the target has spent in cooldown, by what caused it.",
    ),
    Metric(
        "scorer_target_cooldown_end_timestamp_seconds", Type.GAUGE, TARGET, UNIX,
        "Unix time at which the current or last cooldown of the target ends; 0 if it had none.",
    ),
    Metric(
        "scorer_target_restarts_total", Type.COUNTER, TARGET, "restarts", "Engine restarts seen.",
    ),
    Metric(
        "scorer_target_confidence_ratio", Type.GAUGE, TARGET, RATIO,
        "Sum of the weights of the signals that the score rests on.",
    ),
    Metric(
        "scorer_target_ttft_seconds", Type.GAUGE, TARGET, "seconds",
        "EWMA of time to first token used for scoring.",
    ),
    Metric(
        "scorer_target_error_ratio", Type.GAUGE, TARGET, RATIO,
        "Share of requests that failed over the scoring window.",
    ),
    Metric(
        "scorer_target_requests_waiting", Type.GAUGE, TARGET, "requests",
        "Requests queued on the target at the last scrape.",
    ),
    Metric(
        "scorer_target_requests_running", Type.GAUGE, TARGET, "requests",
        "Requests being executed by the target at the last scrape.",
    ),
    Metric(
        "scorer_target_preemptions_total", Type.COUNTER, TARGET, "preemptions",
        "Preemptions reported by the engine, as of the last scrape; absent if the engine does not "
        "report them.",
    ),
    Metric(
        "scorer_target_kv_cache_usage_ratio", Type.GAUGE, TARGET, RATIO,
        "Share of the KV cache of the target in use at the last scrape.",
    ),
    Metric(
        "scorer_target_signal_available", Type.GAUGE, (*TARGET, "signal"), FLAG,
        "Whether the signal can be read from the target; only for signals that its mapping or a "
        "configured source can give.",
    ),
    Metric(
        "scorer_target_metrics_frozen", Type.GAUGE, TARGET, FLAG,
        "Whether the engine's metrics have stopped moving while it has work.",
    ),
    Metric(
        "scorer_target_info", Type.INFO, (*TARGET, "engine", "engine_version", "model_name"), "1",
        "Metadata of the target; always 1.",
    ),
    Metric(
        "scorer_target_up", Type.GAUGE, TARGET, FLAG,
        "Whether the last scrape of the target succeeded.",
    ),
    Metric(
        "scorer_target_last_scrape_success_timestamp_seconds", Type.GAUGE, TARGET, UNIX,
        "Unix time of the last successful scrape of the target; 0 before the first.",
    ),
    Metric("scorer_scrapes_total", Type.COUNTER, TARGET, "scrapes", "Scrapes of the target."),
    Metric(
        "scorer_scrape_failures_total", Type.COUNTER, (*TARGET, "reason"), "scrapes",
        "Scrapes of the target that failed, by reason.",
    ),
    Metric(
        "scorer_scrapes_missed_total", Type.COUNTER, TARGET, "scrapes",
        "Scrapes skipped because the previous one was still running or the schedule was late.",
    ),
    Metric(
        "scorer_target_in_flight_requests", Type.GAUGE, TARGET, "requests",
        "Requests picked for the target and not reported finished.",
    ),
    Metric(
        "scorer_target_expected_wait_seconds", Type.GAUGE, TARGET, "seconds",
        "Time a short prompt picked at this moment would wait for its first token, as the "
        "picker estimates it.",
    ),
    Metric(
        "scorer_target_prefill_rate_tokens_per_second", Type.GAUGE, TARGET, "tokens/s",
        "Learned prefill rate of the target.",
    ),
    Metric(
        "scorer_picks_total", Type.COUNTER, TARGET, "picks", "Picks that returned the target.",
    ),
    Metric(
        "scorer_probes_total", Type.COUNTER, TARGET, "probes",
        "Requests sent to the target to find out whether it has recovered.",
    ),
    Metric(
        "scorer_leases_lost_total", Type.COUNTER, TARGET, "leases",
        "Leases closed by a scrape or by expiry because no feedback came.",
    ),
    Metric(
        "scorer_feedback_total", Type.COUNTER, (*TARGET, "outcome"), "feedback",
        "Request outcomes reported by clients.",
    ),
    Metric(
        "scorer_feedback_rejected_total", Type.COUNTER, ("reason",), "items",
        "Feedback items not applied, or not whole.",
    ),
    Metric(
        "scorer_pool_targets", Type.GAUGE, (*POOL, "state"), "targets",
        "Targets of the pool in each state.",
    ),
    Metric(
        "scorer_pool_eligible_targets", Type.GAUGE, POOL, "targets",
        "Targets of the pool that picks may return.",
    ),
    Metric(
        "scorer_pool_panic", Type.GAUGE, POOL, FLAG,
        "Whether too few targets are eligible and picks go beyond them (panic mode).",
    ),
    Metric(
        "scorer_pool_score_threshold", Type.GAUGE, (*POOL, "severity"), POINTS,
        "Configured score below which alerts of the severity apply.",
    ),
    Metric(
        "scorer_pool_kv_cache_usage_threshold_ratio", Type.GAUGE, (*POOL, "severity"), RATIO,
        "Configured KV cache usage above which alerts of the severity apply.",
    ),
    Metric(
        "scorer_pool_ttft_threshold_seconds", Type.GAUGE, (*POOL, "severity"), "seconds",
        "Configured time to first token above which alerts of the severity apply.",
    ),
    Metric(
        "scorer_pick_requests_total", Type.COUNTER, POOL, "requests", "Pick requests received.",
    ),
    Metric(
        "scorer_pick_request_failures_total", Type.COUNTER, (*POOL, "reason"), "requests",
        "Pick requests that returned no target, by reason.",
    ),
    Metric(
        "scorer_pick_duration_seconds", Type.HISTOGRAM, POOL, "seconds",
        "Time to answer a pick request.",
    ),
    Metric(
        "scorer_scrape_duration_seconds", Type.HISTOGRAM, POOL, "seconds",
        "Time to scrape one target, including parsing.",
    ),
    Metric(
        "scorer_scoring_duration_seconds", Type.HISTOGRAM, POOL, "seconds",
        "Time of one scoring pass over the pool, pauses for others included.",
    ),
    Metric(
        "scorer_scoring_last_run_timestamp_seconds", Type.GAUGE, POOL, UNIX,
        "Unix time of the last completed scoring pass of the pool.",
    ),
    Metric(
        "scorer_sd_targets", Type.GAUGE, (*POOL, "mechanism"), "targets",
        "Targets found by the discovery mechanism.",
    ),
    Metric(
        "scorer_sd_refreshes_total", Type.COUNTER, (*POOL, "mechanism"), "refreshes",
        "Refreshes of the discovery mechanism.",
    ),
    Metric(
        "scorer_sd_refresh_failures_total", Type.COUNTER, (*POOL, "mechanism"), "refreshes",
        "Refreshes of the discovery mechanism that failed; the previous targets are kept.",
    ),
    Metric(
        "scorer_sd_last_refresh_success_timestamp_seconds", Type.GAUGE, (*POOL, "mechanism"), UNIX,
        "Unix time of the last successful refresh of the discovery mechanism.",
    ),
    Metric(
        "scorer_output_requests_total", Type.COUNTER, ("output",), "requests",
        "Requests answered by an output that others pull.",
    ),
    Metric(
        "scorer_http_requests_total", Type.COUNTER, ("handler", "method", "code"), "requests",
        "HTTP requests served, by route template.",
    ),
    Metric(
        "scorer_http_request_duration_seconds", Type.HISTOGRAM, ("handler",), "seconds",
        "Time to serve an HTTP request, with the wait that it asks for; that of /pick is in "
        "scorer_pick_duration_seconds.",
    ),
    Metric(
        "scorer_event_loop_lag_seconds", Type.GAUGE, NONE, "seconds",
        "Delay of the last timer of the event loop.",
    ),
    Metric(
        "scorer_config_last_reload_successful", Type.GAUGE, NONE, FLAG,
        "Whether the last configuration reload attempt was successful.",
    ),
    Metric(
        "scorer_config_last_reload_success_timestamp_seconds", Type.GAUGE, NONE, UNIX,
        "Unix time of the last successful configuration reload.",
    ),
    Metric(
        "scorer_state_file_last_write_success_timestamp_seconds", Type.GAUGE, NONE, UNIX,
        "Unix time of the last successful write of the state file.",
    ),
    Metric(
        "scorer_state_file_write_failures_total", Type.COUNTER, NONE, "writes",
        "Writes of the state file that failed.",
    ),
    Metric(
        "scorer_log_lines_dropped_total", Type.COUNTER, NONE, "lines",
        "Log lines dropped because standard error was not read.",
    ),
    Metric(
        "scorer_build_info", Type.INFO, ("version", "revision", "python_version"), "1",
        "Build of the running daemon; always 1.",
    ),
)  # fmt: skip
"""Every metric of the daemon's own, in the order of the page."""

LABEL_VALUES = {
    "`state`, `from`, `to`": State,
    "`signal` of points lost": Cause,
    "`signal` of availability": SignalName,
    "`reason` of scrape failures": ScrapeFailure,
    "`reason` of cooldowns": CooldownReason,
    "`reason` of pick request failures": PickFailure,
    "`outcome`": OutcomeClass,
    "`reason` of rejected feedback": Rejection,
    "`mechanism`": Mechanism,
    "`output`": Output,
}
BUCKETS = {
    "scorer_pick_duration_seconds": PICK_BOUNDS,
    "scorer_scrape_duration_seconds": SCRAPE_BOUNDS,
    "scorer_scoring_duration_seconds": SCORING_BOUNDS,
    "scorer_http_request_duration_seconds": HTTP_BOUNDS,
}


def markdown() -> str:
    """Return the documentation page of the catalogue."""
    rows = "\n".join(_row(metric) for metric in METRICS)
    values = "\n".join(
        f"- {label}: {', '.join(f'`{word}`' for word in words)}"
        for label, words in LABEL_VALUES.items()
    )
    buckets = "\n".join(
        f"- `{name}`: {', '.join(f'{bound:g}' for bound in bounds)}"
        for name, bounds in BUCKETS.items()
    )
    return _TEMPLATE.format(rows=rows, values=values, buckets=buckets)


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
    return f"| `{metric.name}` | {metric.type} | {labels} | {metric.unit} | {metric.help} |"


_TEMPLATE = """\
# Metrics

<!-- Written by `python -m exporters.catalogue`; edit exporters/catalogue.py. -->

`GET /metrics`: text format 0.0.4, or OpenMetrics for a client that asks for it, gzip for
one that accepts it, and only the metrics named by `?name[]=` when given. All target and
pool metrics of a page come from one snapshot. A target or pool that leaves the
configuration leaves the page at once.

A value that is not known has no sample: no score before a target was judged, no
`scorer_target_ttft_seconds` without traffic, no signal the engine does not report. It is
never 0 in its place.

| Metric | Type | Labels | Unit | Help |
| --- | --- | --- | --- | --- |
{rows}

`process_*` and `python_info` come from `prometheus_client`.

## Label values

{values}

Failures and cooldowns are counted for every reason from the start, so that the first one is an
increase. Pick requests whose pool is not known (no such pool, no such model, malformed)
count with an empty `pool` label. `from` and `to` appear with the first such change,
`handler`, `method` and `code` with the first such request. `handler` is a route such as
`/api/v1/targets/<target>`, or `other`; a method that is not in common use is `other`, too.
`model_name` lists what the engine serves, separated by commas: at most 8 names of 128
characters, with `…` for what is left out.

## Histogram buckets (seconds)

{buckets}
"""


if __name__ == "__main__":
    DOCUMENT.write_text(markdown(), encoding="utf-8")
    sys.stdout.write(f"{DOCUMENT.name} written\n")
