"""Grafana dashboards as code.

    python dashboards/generate.py           writes dashboards/*.json
    python dashboards/generate.py --check   fails when a file is not what this writes

Classic JSON for Grafana 10.4 and later (schemaVersion 39); the data source is a variable,
so the files import and provision anywhere.
"""

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
POOL = 'job=~"$job", pool=~"$pool"'
TARGET = f'{POOL}, target=~"$target"'
STATES = {
    0: ("healthy", "green"),
    1: ("warmup", "blue"),
    2: ("degraded", "yellow"),
    3: ("cooldown", "orange"),
    4: ("draining", "purple"),
    5: ("unreachable", "red"),
}
WIDTH = 24

Panel = dict[str, Any]


def query(expression: str, legend: str, ref: str = "A") -> dict[str, Any]:
    """Return one query of a panel."""
    return {"datasource": SOURCE, "expr": expression, "legendFormat": legend, "refId": ref}


def panel(kind: str, title: str, text: str, unit: str, *targets: dict[str, Any]) -> Panel:
    """Return a panel; ``text`` describes it and ends with the metric names."""
    return {
        "type": kind,
        "title": title,
        "description": text,
        "datasource": SOURCE,
        "targets": list(targets),
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "options": {},
    }


def steps(*bounds: tuple[float | None, str]) -> dict[str, Any]:
    """Return thresholds; the first bound is None."""
    return {"mode": "absolute", "steps": [{"value": v, "color": c} for v, c in bounds]}


def score_panels() -> list[Panel]:
    """Return the panels that say how the targets are."""
    code = " + ".join(
        f'{number} * max by (pool, target) (scorer_target_state{{{TARGET}, state="{name}"}})'
        for number, (name, _) in STATES.items()
        if number
    )
    state = panel(
        "state-timeline", "State by target",
        "The state of each target over time. scorer_target_state", "none",
        query(code, "{{pool}} / {{target}}"),
    )  # fmt: skip
    options = {str(n): {"text": name, "color": colour} for n, (name, colour) in STATES.items()}
    state["fieldConfig"]["defaults"]["mappings"] = [{"type": "value", "options": options}]
    state["options"] = {"mergeValues": True, "showValue": "never"}
    score = panel(
        "timeseries", "Score by target",
        "0 is do not use, 100 is healthy; dashed lines are the configured thresholds. "
        "scorer_target_score, scorer_pool_score_threshold", "none",
        query(f"avg by (pool, target) (scorer_target_score{{{TARGET}}})", "{{pool}} / {{target}}"),
        query(
            f"max by (severity) (scorer_pool_score_threshold{{{POOL}}})", "{{severity}}", "B"
        ),
    )  # fmt: skip
    score["fieldConfig"]["defaults"] |= {"min": 0, "max": 100}
    lost = panel(
        "timeseries", "Points lost by signal",
        "Why scores are down, averaged over targets. scorer_target_points_lost", "none",
        query(f"avg by (signal) (scorer_target_points_lost{{{TARGET}}})", "{{signal}}"),
    )  # fmt: skip
    lost["fieldConfig"]["defaults"]["custom"] = {"stacking": {"mode": "normal"}, "fillOpacity": 30}
    return [state, score, lost]


def signal_panels() -> list[Panel]:
    """Return one panel per signal."""
    rows = (
        ("Time to first token", "s", "scorer_target_ttft_seconds"),
        ("KV cache usage", "percentunit", "scorer_target_kv_cache_usage_ratio"),
        ("Requests waiting", "none", "scorer_target_requests_waiting"),
        ("Error ratio", "percentunit", "scorer_target_error_ratio"),
    )
    return [
        panel(
            "timeseries", title, f"{title} of each target. {metric}", unit,
            query(f"max by (pool, target) ({metric}{{{TARGET}}})", "{{pool}} / {{target}}"),
        )
        for title, unit, metric in rows
    ]  # fmt: skip


def top_panels() -> list[Panel]:
    """Return the row of single numbers."""
    score = panel(
        "stat", "Pool score", "Average score of all targets. scorer_target_score", "none",
        query(f"avg(scorer_target_score{{{POOL}}})", ""),
    )  # fmt: skip
    score["fieldConfig"]["defaults"]["thresholds"] = steps(
        (None, "red"), (50, "orange"), (70, "yellow"), (85, "green")
    )
    out = panel(
        "stat", "Out of rotation",
        "Targets that picks do not return. scorer_pool_targets, scorer_pool_eligible_targets",
        "none",
        query(
            f"sum(max by (pool) (sum without (state) (scorer_pool_targets{{{POOL}}}))"
            f" - max by (pool) (scorer_pool_eligible_targets{{{POOL}}}))", "",
        ),
    )  # fmt: skip
    out["fieldConfig"]["defaults"]["thresholds"] = steps((None, "green"), (1, "orange"))
    picks = panel(
        "stat", "Picks / s", "Pick requests answered. scorer_pick_requests_total", "reqps",
        query(f"sum(rate(scorer_pick_requests_total{{{POOL}}}[$__rate_interval]))", ""),
    )  # fmt: skip
    return [score, out, picks]


def pick_panels() -> list[Panel]:
    """Return where picks went and how long they took."""
    return [
        panel(
            "timeseries", "Picks by target", "Picks that named each target. scorer_picks_total",
            "reqps",
            query(
                f"sum by (pool, target) (rate(scorer_picks_total{{{TARGET}}}[$__rate_interval]))",
                "{{pool}} / {{target}}",
            ),
        ),
        panel(
            "timeseries", "Pick latency p99",
            "Time to answer a pick request. scorer_pick_duration_seconds", "s",
            query(
                "histogram_quantile(0.99, sum by (le) "
                f"(rate(scorer_pick_duration_seconds_bucket{{{POOL}}}[$__rate_interval])))", "p99",
            ),
        ),
    ]  # fmt: skip


def variable(name: str, metric: str, label: str) -> dict[str, Any]:
    """Return a variable that lists a label's values."""
    listed = f"label_values({metric}, {label})"
    return {
        "type": "query", "name": name, "label": name.capitalize(), "datasource": SOURCE,
        "query": {"query": listed, "refId": name}, "definition": listed, "refresh": 2,
        "multi": True, "includeAll": True, "allValue": ".*", "sort": 1,
        "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def placed(rows: list[tuple[list[Panel], int]]) -> list[Panel]:
    """Return panels with ids and places: each row shares the width, ``height`` units high."""
    found, y = [], 0
    for panels, height in rows:
        width = WIDTH // len(panels)
        for index, each in enumerate(panels):
            place = {"x": index * width, "y": y, "w": width, "h": height}
            found.append({**each, "id": len(found) + 1, "gridPos": place})
        y += height
    return found


def overview() -> dict[str, Any]:
    """Return the dashboard ``scorer-overview``."""
    state, score, lost = score_panels()
    ttft, kv_cache, waiting, errors = signal_panels()
    rows = [
        (top_panels(), 4), ([state], 7), ([score], 8), ([lost], 7),
        ([ttft, kv_cache], 7), ([waiting, errors], 7), (pick_panels(), 7),
    ]  # fmt: skip
    return {
        "uid": "scorer-overview",
        "title": "Scorer / Overview",
        "tags": ["scorer"],
        "schemaVersion": 39,
        "id": None,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "graphTooltip": 1,
        "templating": {
            "list": [
                {"type": "datasource", "name": "datasource", "label": "Data source",
                 "query": "prometheus"},
                variable("job", "scorer_build_info", "job"),
                variable("pool", 'scorer_pool_eligible_targets{job=~"$job"}', "pool"),
                variable("target", f"scorer_target_score{{{POOL}}}", "target"),
            ]
        },
        "panels": placed(rows),
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` say which one is not up to date."""
    path = FOLDER / "scorer-overview.json"
    text = json.dumps(overview(), indent=2) + "\n"
    if "--check" not in arguments:
        path.write_text(text)
        return 0
    if path.exists() and path.read_text() == text:
        return 0
    print(f"{path.name} is not up to date: run python dashboards/generate.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
