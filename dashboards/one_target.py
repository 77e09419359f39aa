"""The dashboard ``scorer-target``: why one target has its score."""

from frame import JOB, dashboard, values, variable
from panels import (
    PLAIN,
    SCORE,
    STALE,
    Json,
    Panel,
    Query,
    linked,
    mappings,
    series,
    stat,
    state_mappings,
    table,
    timeline,
)  # fmt: skip
from shared import ONE_TARGET, POOL, RATE, state_code

TARGET = variable("target", values('scorer_target_score{job=~"$job"}', "target"), single=True)
ITS_POOLS = variable("pool", values('scorer_target_score{job=~"$job", target="$target"}', "pool"))
READABLE = mappings({0: ("missing", "orange"), 1: ("read", "green")})
ENGINE = "/d/vllm-instances?${__url_time_range}&${datasource:queryparam}&var-instance=${target}"
NAMES = {
    "pool": "Pool", "engine": "Engine", "engine_version": "Version",
    "model_name": "Models",
}  # fmt: skip


def one_target() -> Json:
    """Return the dashboard."""
    return dashboard(
        "target",
        "One target: its score, what it loses points for, and how it compares with its pool.",
        [JOB, TARGET, ITS_POOLS],
        [
            ("", _top()), ("Why this score", _why()), ("Against its pool", _against_pool()),
            ("Scraping", _scraping()),
        ],
    )  # fmt: skip


def _top() -> list[Panel]:
    metadata = f"scorer_target_info{{{ONE_TARGET}}}"
    made = table(
        "Target", "What the engine says of itself.",
        Query(f"group by (pool, target, engine, engine_version, model_name) ({metadata})"),
        width=9, height=4, names=NAMES, hidden=("target",),
    )  # fmt: skip
    return [
        stat("Score", "From 0 (do not use) to 100 (healthy).", "none",
             f"avg(scorer_target_score{{{ONE_TARGET}}})", SCORE, decimals=0),
        stat("State", "The current state.", "none", f"max({state_code(ONE_TARGET)})",
             words=state_mappings()),
        stat("In this state for", "Time since the state changed.", "s",
             f"time() - max(scorer_target_state_since_timestamp_seconds{{{ONE_TARGET}}})"),
        stat("Weight", "Share of its full weight in picks.", "percentunit",
             f"max(scorer_target_weight_ratio{{{ONE_TARGET}}})", PLAIN, decimals=0),
        stat("Last good scrape", "Time since a scrape succeeded.", "s",
             "time() - max(scorer_target_last_scrape_success_timestamp_seconds"
             f"{{{ONE_TARGET}}})", STALE),
        linked(made, "vLLM dashboard of this instance", ENGINE, ("Engine",)),
    ]  # fmt: skip


def _why() -> list[Panel]:
    score, weight, warmup = (
        f"{function} by (target) ({metric}{{{ONE_TARGET}}})"
        for function, metric in (
            ("avg", "scorer_target_score"),
            ("max", "scorer_target_weight_ratio"),
            ("max", "scorer_target_warmup_ratio"),
        )
    )
    return [
        timeline("State", "The state over time.", state_mappings(),
                 Query(state_code(ONE_TARGET), "{{pool}}"), height=4),
        series("Points lost by signal", "100 minus their sum is the score.", "none",
               Query(f"avg by (signal) (scorer_target_points_lost{{{ONE_TARGET}}})", "{{signal}}"),
               high=100, stacked=True),
        series("Score, weight and warm-up",
               "The weight follows the score; in warm-up the score rises at a limited rate.",
               "none", Query(score, "score"), Query(f"100 * {weight}", "weight × 100"),
               Query(f"100 * {warmup}", "warm-up × 100"), high=100),
    ]  # fmt: skip


def _against_pool() -> list[Panel]:
    picks = f"sum by (pool, target) (rate(scorer_picks_total{{{ONE_TARGET}}}[{RATE}]))"
    all_picks = f"sum by (pool) (rate(scorer_picks_total{{{POOL}}}[{RATE}]))"
    weight = f"max by (pool, target) (scorer_target_weight_ratio{{{ONE_TARGET}}})"
    weights = f"max by (pool, target) (scorer_target_weight_ratio{{{POOL}}})"
    return [
        _and_median("TTFT against the pool median", "s", "scorer_target_ttft_seconds"),
        _and_median("KV cache usage against the pool median", "percentunit",
                    "scorer_target_kv_cache_usage_ratio", high=1),
        series("Requests running and waiting", "As of the last scrape.", "none",
               Query(f"max by (target) (scorer_target_requests_running{{{ONE_TARGET}}})",
                     "running"),
               Query(f"max by (target) (scorer_target_requests_waiting{{{ONE_TARGET}}})",
                     "waiting"), width=8),
        series("Preemptions / s", "Requests thrown out of a full KV cache and computed again.",
               "ops",
               Query("max by (target) "
                     f"(rate(scorer_target_preemptions_total{{{ONE_TARGET}}}[{RATE}]))",
                     "{{target}}"), width=8),
        series("Share of picks against share of weight",
               "Picks follow the weight, and the load of the moment.", "percentunit",
               Query(f"{picks} / on (pool) group_left () ({all_picks} > 0)", "picks {{pool}}"),
               Query(f"{weight} / on (pool) group_left () (sum by (pool) ({weights}) > 0)",
                     "weight {{pool}}"), width=8),
    ]  # fmt: skip


def _and_median(title: str, unit: str, metric: str, high: float | None = None) -> Panel:
    own = f"max by (pool, target) ({metric}{{{ONE_TARGET}}})"
    pool = f"quantile by (pool) (0.5, max by (pool, target) ({metric}{{{POOL}}}))"
    return series(
        title, "Far from the median, the target has a problem of its own.", unit,
        Query(own, "{{target}}"), Query(pool, "median of {{pool}}"), high=high,
    )  # fmt: skip


def _scraping() -> list[Panel]:
    failures = f"rate(scorer_scrape_failures_total{{{ONE_TARGET}}}[{RATE}])"
    cooldowns = f"increase(scorer_target_cooldowns_total{{{ONE_TARGET}}}[{RATE}])"
    available = f"scorer_target_signal_available{{{ONE_TARGET}}}"
    return [
        series("Scrape failures by reason", "Scrapes that failed, of all replicas.", "ops",
               Query(f"sum by (reason) ({failures}) > 0", "{{reason}}"), stacked=True, bars=True,
               nothing="None failed"),
        series("Cooldowns by reason", "Cooldowns entered.", "none",
               Query(f"max by (pool, target, reason) ({cooldowns})", "{{reason}}"), bars=True,
               stacked=True),
        timeline("Signals readable", "A missing signal is left out of the score.", READABLE,
                 Query(f"max by (pool, target, signal) ({available})", "{{signal}}"), height=5),
    ]  # fmt: skip
