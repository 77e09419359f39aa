"""The dashboard ``scorer-overview``: how all targets are, and why."""

from frame import JOB, KEPT, TARGET, dashboard
from frame import POOL as POOL_VARIABLE
from panels import (
    ANY_IS_ODD,
    BLUE,
    KV_CACHE,
    SCORE,
    Json,
    Panel,
    Query,
    bars,
    linked,
    series,
    stat,
    state_mappings,
    table,
    timeline,
    with_thresholds,
)  # fmt: skip
from shared import EACH, KNOWN, POOL, RATE, TARGETS, quantile, state_code

OF_TARGET = f"/d/scorer-target?{KEPT}&var-target="
TO_TARGET = OF_TARGET + "${__field.labels.target}&var-pool=${__field.labels.pool}"
TO_ROW = OF_TARGET + "${__data.fields.Target}&var-pool=${__data.fields.Pool}"
NAMES = {"pool": "Pool", "target": "Target"}


def overview() -> Json:
    """Return the dashboard."""
    return dashboard(
        "overview",
        "Health of every target of every pool, and what it loses points for.",
        [JOB, POOL_VARIABLE, TARGET],
        [
            ("", _top()), ("Pools", [_pools()]), ("State and score", _scores()),
            ("Signals", _signals()), ("Cooldowns", _cooldowns()), ("Picks", _picks()),
            ("Alerts", [_alerts()]),
        ],
    )  # fmt: skip


def _top() -> list[Panel]:
    in_rotation = (
        "max by (pool, target) "
        f'(scorer_target_state{{{POOL}, state=~"healthy|degraded|warmup"}}) == 1'
    )
    return [
        stat("Pool score", "Average score of all targets.", "none",
             f"avg(scorer_target_score{{{POOL}}})", SCORE, decimals=0),
        stat("Worst in rotation",
             "Lowest score among the targets that get picks as usual.", "none",
             f"min(min by (pool, target) (scorer_target_score{{{POOL}}})"
             f" and on (pool, target) {in_rotation})", SCORE, nothing="None", decimals=0),
        stat("Out of rotation", "Targets that picks do not return.", "none",
             f"sum(max by (pool) (sum without (state) (scorer_pool_targets{{{POOL}}}))"
             f" - max by (pool) (scorer_pool_eligible_targets{{{POOL}}}))", ANY_IS_ODD),
        stat("In cooldown", "Targets that get no long prompts for the moment.", "none",
             f'sum(max by (pool) (scorer_pool_targets{{{POOL}, state="cooldown"}})) or vector(0)',
             ANY_IS_ODD),
        stat("Warming up", "Targets whose score rises at a limited rate.", "none",
             f'sum(max by (pool) (scorer_pool_targets{{{POOL}, state="warmup"}})) or vector(0)',
             BLUE),
        stat("Max KV cache", "Fullest KV cache of any target.", "percentunit",
             f"max(scorer_target_kv_cache_usage_ratio{{{POOL}}})", KV_CACHE, decimals=0),
        stat("Waiting", "Requests queued on all targets.", "none",
             f"sum(max by (pool, target) (scorer_target_requests_waiting{{{POOL}}}))"),
        stat("Picks / s", "Pick requests received.", "reqps",
             f"sum(rate(scorer_pick_requests_total{{{POOL}}}[{RATE}]))"),
    ]  # fmt: skip


def _pools() -> Panel:
    steps, kv_cache = SCORE.thresholds(), KV_CACHE.thresholds()
    hourly = f"increase(scorer_target_cooldowns_total{{{POOL}}}[1h])"
    made = table(
        "Pools", "A line for each pool; its name leads to the dashboard of that pool alone.",
        Query(f"max by (pool) (scorer_pool_eligible_targets{{{POOL}}})", name="Eligible"),
        Query(f"max by (pool) (sum without (state) (scorer_pool_targets{{{POOL}}}))",
              name="Targets"),
        Query(f"avg by (pool) (scorer_target_score{{{POOL}}})", name="Score", steps=steps),
        Query(f"min by (pool) (scorer_target_score{{{POOL}}})", name="Worst", steps=steps),
        Query(f"max by (pool) (sum without (target, reason) (round({hourly})))",
              name="Cooldowns 1h"),
        Query(f"max by (pool) (scorer_target_kv_cache_usage_ratio{{{POOL}}})", name="KV max",
              unit="percentunit", steps=kv_cache),
        Query("sum by (pool) (max by (pool, target) "
              f"(scorer_target_requests_waiting{{{POOL}}}))", name="Waiting"),
        Query(f"max by (pool) (scorer_target_ttft_seconds{{{POOL}}})", name="TTFT max", unit="s"),
        Query(f"sum by (pool) (rate(scorer_pick_requests_total{{{KNOWN}}}[5m]))", name="Picks/s",
              unit="reqps"),
        height=5, names=NAMES,
    )  # fmt: skip
    whole = f"/d/scorer-overview?{KEPT}&var-pool=" + "${__value.text}"
    return linked(made, "Show this pool", whole, ("Pool",))


def _scores() -> list[Panel]:
    state = timeline(
        "State by target", "The state of each target over time; a click leads to the target.",
        state_mappings(), Query(state_code(TARGETS), EACH),
    )  # fmt: skip
    score = series(
        "Score by target", "0 is do not use, 100 is healthy; dashed are the configured thresholds.",
        "none", Query(f"avg by (pool, target) (scorer_target_score{{{TARGETS}}})", EACH),
        Query(f"max by (severity) (scorer_pool_score_threshold{{{POOL}}})", "{{severity}}"),
        width=24, high=100, beside=True,
    )  # fmt: skip
    lost = series(
        "Points lost by signal", "Why scores are down, averaged over targets.", "none",
        Query(f"avg by (signal) (scorer_target_points_lost{{{TARGETS}}})", "{{signal}}"),
        width=24, height=7, stacked=True,
    )  # fmt: skip
    return [
        linked(state, "Show this target", TO_TARGET),
        linked(with_thresholds(score, "B"), "Show this target", TO_TARGET),
        lost,
    ]


def _signals() -> list[Panel]:
    threshold = Query(
        f"max by (severity) (scorer_pool_kv_cache_usage_threshold_ratio{{{POOL}}})",
        "{{severity}} threshold",
    )
    return [
        series("Time to first token", "As the score takes it, for each target.", "s",
               Query(f"max by (pool, target) (scorer_target_ttft_seconds{{{TARGETS}}})", EACH),
               beside=True),
        with_thresholds(
            series("KV cache usage", "Share of the KV cache in use; dashed are the thresholds.",
                   "percentunit",
                   Query("max by (pool, target) "
                         f"(scorer_target_kv_cache_usage_ratio{{{TARGETS}}})", EACH),
                   threshold, high=1, beside=True), "B"),
        series("Requests waiting", "Requests queued on each target.", "none",
               Query(f"max by (pool, target) (scorer_target_requests_waiting{{{TARGETS}}})", EACH),
               beside=True),
        series("Error ratio", "Share of requests that failed over the scoring window.",
               "percentunit",
               Query(f"max by (pool, target) (scorer_target_error_ratio{{{TARGETS}}})", EACH),
               beside=True),
    ]  # fmt: skip


def _cooldowns() -> list[Panel]:
    entered = f"increase(scorer_target_cooldowns_total{{{TARGETS}}}[{RATE}])"
    spent = f"rate(scorer_target_cooldown_seconds_total{{{TARGETS}}}[$__range])"
    end = f"max by (pool, target) (scorer_target_cooldown_end_timestamp_seconds{{{TARGETS}}})"
    since = f"max by (pool, target) (scorer_target_state_since_timestamp_seconds{{{TARGETS}}})"
    cooling = f'max by (pool, target) (scorer_target_state{{{TARGETS}, state="cooldown"}}) == 1'
    now = table(
        "Cooldowns now", "Targets in cooldown, for how long, and how long to go.",
        Query(f"{end} - time() > 0", name="Remaining", unit="s"),
        Query(f"time() - {since} and on (pool, target) {cooling}", name="Since", unit="s"),
        width=6, height=8, nothing="No target in cooldown", names=NAMES,
    )  # fmt: skip
    return [
        series("Cooldowns entered by reason", "What caused cooldowns.", "none",
               Query(f"sum by (reason) (max by (pool, target, reason) ({entered}))", "{{reason}}"),
               width=8, stacked=True, bars=True),
        bars("Time in cooldown (selected range)", "Share of the time range spent in cooldown.",
             "percentunit",
             Query(f"topk(10, max by (pool, target) (sum without (reason) ({spent})) > 0)",
                   "{{target}}"),
             10, 8),
        linked(now, "Show this target", TO_ROW, ("Target",)),
    ]  # fmt: skip


def _picks() -> list[Panel]:
    metric = "scorer_pick_duration_seconds"
    return [
        series("Picks by target", "Picks that returned each target.", "reqps",
               Query(f"sum by (pool, target) (rate(scorer_picks_total{{{TARGETS}}}[{RATE}]))",
                     EACH), stacked=True, beside=True),
        series("Pick latency", "Time to answer a pick request.", "s",
               Query(quantile(0.5, "", metric, POOL), "p50"),
               Query(quantile(0.99, "", metric, POOL), "p99")),
    ]  # fmt: skip


def _alerts() -> Panel:
    return table(
        "Firing alerts", "Alerts of scorer that fire, whoever evaluates the rules.",
        Query('ALERTS{alertname=~"Scorer.+", alertstate="firing"}'), height=6,
        nothing="No alert firing", hidden=("__name__", "alertstate", "job"),
    )  # fmt: skip
