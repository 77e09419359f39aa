"""The dashboard ``scorer-picks``: what was picked, how fast, how evenly."""

from frame import JOB, TARGET, dashboard
from frame import POOL as POOL_VARIABLE
from panels import ANY_IS_ODD, Json, Panel, Query, Steps, heatmap, series, stat
from shared import KNOWN, POOL, RATE, TARGETS, quantile

DURATION = "scorer_pick_duration_seconds"
REQUESTS = f"rate(scorer_pick_requests_total{{{POOL}}}[{RATE}])"
FAILURES = f"rate(scorer_pick_request_failures_total{{{POOL}}}[{RATE}])"
PICKS = f"sum by (pool, target) (rate(scorer_picks_total{{{POOL}}}[{RATE}]))"
FAILED = Steps("green", ((0.001, "orange"), (0.01, "red")))
SLOW = Steps("green", ((0.005, "orange"), (0.01, "red")))


def picks() -> Json:
    """Return the dashboard."""
    return dashboard(
        "picks",
        "What picks returned, how long they took, and how evenly they fell.",
        [JOB, POOL_VARIABLE, TARGET],
        [("", _top()), ("Traffic", _traffic()), ("Latency", _latency()), ("Balance", _balance())],
    )


def _top() -> list[Panel]:
    return [
        stat("Picks / s", "Pick requests received.", "reqps", f"sum({REQUESTS})", width=6),
        stat("Failed picks", "Share of pick requests that returned no target.", "percentunit",
             f"sum({FAILURES}) / (sum({REQUESTS}) > 0)", FAILED, 6, nothing="No traffic"),
        stat("Pick p99", "99 of 100 picks are answered in this time.", "s",
             quantile(0.99, "", DURATION, POOL), SLOW, 6, nothing="No traffic"),
        stat("Pools in panic mode", "Pools whose picks go beyond the eligible targets.", "none",
             f"sum(max by (pool) (scorer_pool_panic{{{POOL}}}))", ANY_IS_ODD, 6),
    ]  # fmt: skip


def named(expression: str) -> str:
    """Return a query by pool with a name for what has no pool."""
    return f'label_replace({expression}, "pool", "no pool", "pool", "")'


def _traffic() -> list[Panel]:
    failures = named(f"sum by (pool, reason) ({FAILURES}) > 0")
    return [
        series("Pick requests by pool", "All requests, those that failed included.", "reqps",
               Query(named(f"sum by (pool) ({REQUESTS})"), "{{pool}}")),
        series("Failed picks by reason",
               "Requests that returned no target; those whose pool is not known have no pool.",
               "reqps", Query(failures, "{{pool}} / {{reason}}"), stacked=True, bars=True,
               nothing="None failed"),
    ]  # fmt: skip


def _latency() -> list[Panel]:
    return [
        heatmap("Pick latency distribution", "How many picks took how long.",
                f"sum by (le) (rate({DURATION}_bucket{{{POOL}}}[{RATE}]))"),
        series("Pick latency by pool", "99 of 100 picks are answered in this time.", "s",
               Query(quantile(0.99, "pool", DURATION, KNOWN), "{{pool}} p99")),
    ]  # fmt: skip


def _balance() -> list[Panel]:
    picked = f"sum by (pool, target) (rate(scorer_picks_total{{{TARGETS}}}[{RATE}]))"
    all_picks = f"sum by (pool) (rate(scorer_picks_total{{{POOL}}}[{RATE}])) > 0"
    return [
        series("Share of picks by target", "Of the picks of its pool: each pool adds up to 100 %.",
               "percentunit",
               Query(f"{picked} / on (pool) group_left () ({all_picks})", "{{pool}} / {{target}}"),
               width=24, stacked=True, beside=True),
        series("Imbalance (busiest / mean)",
               "1 is even; more is wanted while some targets are worse than others.", "none",
               Query(f"max by (pool) ({PICKS}) / (avg by (pool) ({PICKS}) > 0)", "{{pool}}")),
        series("Eligible targets", "Targets that picks may return.", "none",
               Query(f"max by (pool) (scorer_pool_eligible_targets{{{POOL}}})", "{{pool}}")),
    ]  # fmt: skip
