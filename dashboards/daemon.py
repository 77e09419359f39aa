"""The dashboard ``scorer-daemon``: the daemon itself, replica by replica."""

from frame import JOB, dashboard, values, variable
from panels import (
    STALE,
    Json,
    Panel,
    Query,
    Steps,
    heatmap,
    mappings,
    series,
    stat,
    table,
)  # fmt: skip
from shared import RATE, REPLICAS, quantile

INSTANCE = variable("instance", values('scorer_build_info{job=~"$job"}', "instance"))
RELOADED = mappings({0: ("Failed", "red"), 1: ("OK", "green")})
DISAGREEMENT = Steps("green", ((20, "orange"),))
NAMES = {
    "instance": "Replica", "version": "Version", "revision": "Revision", "python_version": "Python",
}  # fmt: skip
ROUTE = "{{handler}} {{code}}"


def daemon() -> Json:
    """Return the dashboard."""
    return dashboard(
        "daemon",
        "The daemon itself: discovery, scraping, scoring, what it serves, what it needs.",
        [JOB, INSTANCE],
        [
            ("", _top()), ("Discovery and scraping", _discovery()),
            ("Scoring and outputs", _outputs()), ("Process", _process()),
        ],
    )  # fmt: skip


def _top() -> list[Panel]:
    score = f"by (pool, target) (scorer_target_score{{{REPLICAS}}})"
    build = f"scorer_build_info{{{REPLICAS}}}"
    return [
        stat("Replicas up", "Replicas that Prometheus can scrape.", "none",
             f"sum(up{{{REPLICAS}}})", width=6),
        stat("Config reload", "Whether every replica could apply the last configuration.", "none",
             f"min(scorer_config_last_reload_successful{{{REPLICAS}}})", words=RELOADED, width=6),
        stat("Oldest scoring pass", "Time since the pool that waits longest was judged.", "s",
             f"time() - min(scorer_scoring_last_run_timestamp_seconds{{{REPLICAS}}})", STALE, 6),
        stat("Replica disagreement",
             "Largest difference between the scores that two replicas give one target.", "none",
             f"max(max {score} - min {score})", DISAGREEMENT, 6, decimals=1),
        table("Build", "What runs.",
              Query(f"group by (instance, version, revision, python_version) ({build})"),
              width=24, height=5, names=NAMES),
    ]  # fmt: skip


def _discovery() -> list[Panel]:
    failed = f"rate(scorer_sd_refresh_failures_total{{{REPLICAS}}}[{RATE}])"
    scrapes = f"sum by (pool) (rate(scorer_scrapes_total{{{REPLICAS}}}[{RATE}]))"
    failures = f"sum by (pool) (rate(scorer_scrape_failures_total{{{REPLICAS}}}[{RATE}]))"
    duration = f"rate(scorer_scrape_duration_seconds_bucket{{{REPLICAS}}}[{RATE}])"
    return [
        series("Targets by discovery mechanism", "Targets that discovery found.", "none",
               Query(f"max by (pool, mechanism) (scorer_sd_targets{{{REPLICAS}}})",
                     "{{pool}} / {{mechanism}}")),
        series("Discovery failures", "Refreshes that failed; the previous targets are kept.",
               "ops", Query(f"sum by (pool, mechanism) ({failed})", "{{pool}} / {{mechanism}}")),
        heatmap("Scrape duration", "How long scrapes took, parsing included.",
                f"sum by (le) ({duration})"),
        series("Scrape failure ratio", "Share of scrapes that failed.", "percentunit",
               Query(f"{failures} / ({scrapes} > 0)", "{{pool}}")),
    ]  # fmt: skip


def _outputs() -> list[Panel]:
    outputs = f"rate(scorer_output_requests_total{{{REPLICAS}}}[{RATE}])"
    requests = f"rate(scorer_http_requests_total{{{REPLICAS}}}[{RATE}])"
    return [
        series("Scoring pass p99", "Time of one scoring pass over a pool.", "s",
               Query(quantile(0.99, "instance", "scorer_scoring_duration_seconds", REPLICAS),
                     "{{instance}}")),
        series("Output requests", "What others pull to balance by themselves.", "reqps",
               Query(f"sum by (output) ({outputs})", "{{output}}")),
        series("HTTP requests by route and code", "All that is served, picks included.", "reqps",
               Query(f"sum by (handler, code) ({requests})", ROUTE), stacked=True, beside=True),
        series("HTTP latency p99 by route", "Without picks, which have a dashboard of their own.",
               "s", Query(quantile(0.99, "handler", "scorer_http_request_duration_seconds",
                                   REPLICAS), "{{handler}}"), beside=True),
    ]  # fmt: skip


def _process() -> list[Panel]:
    return [
        series("CPU", "Cores in use.", "none",
               Query(f"rate(process_cpu_seconds_total{{{REPLICAS}}}[{RATE}])", "{{instance}}"),
               width=6),
        series("Resident memory", "Memory in use.", "bytes",
               Query(f"process_resident_memory_bytes{{{REPLICAS}}}", "{{instance}}"), width=6),
        series("Open file descriptors", "Share of the limit; each connection takes one.",
               "percentunit",
               Query(f"process_open_fds{{{REPLICAS}}} / (process_max_fds{{{REPLICAS}}} > 0)",
                     "{{instance}}"), width=6),
        series("Event loop lag", "By how much timers are late; picks wait as long.", "s",
               Query(f"scorer_event_loop_lag_seconds{{{REPLICAS}}}", "{{instance}}"), width=6),
    ]  # fmt: skip
