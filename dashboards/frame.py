"""What all dashboards have around their panels: variables, annotations, links, places."""

from panels import SOURCE, Json, Panel

WIDTH = 24
KEPT = "${__url_time_range}&${datasource:queryparam}&${job:queryparam}"
"""Time range and variables that a link from one dashboard to another keeps."""

Rows = list[tuple[str, list[Panel]]]
"""Sections: title (empty for none) and panels, from left to right."""


def variable(name: str, listed: str, *, single: bool = False) -> Json:
    """Return a variable of the values that ``listed`` gives: all of them, or one if ``single``."""
    several = {"multi": True, "includeAll": True, "allValue": ".*",
               "current": {"text": "All", "value": "$__all"}}  # fmt: skip
    return {
        "type": "query", "name": name, "label": name.capitalize(), "datasource": SOURCE,
        "query": {"query": listed, "refId": name}, "definition": listed, "refresh": 2, "sort": 1,
        "hide": 0, "options": [], "regex": "", "skipUrlSync": False,
    } | ({"multi": False, "includeAll": False, "current": {}} if single else several)  # fmt: skip


def values(metric: str, label: str) -> str:
    """Return the query for all values of a label."""
    return f"label_values({metric}, {label})"


JOB = variable("job", values("scorer_build_info", "job"))
POOL = variable("pool", values('scorer_pool_eligible_targets{job=~"$job"}', "pool"))
TARGET = variable("target", values('scorer_target_score{job=~"$job", pool=~"$pool"}', "target"))
DATASOURCE = {
    "type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus",
    "refresh": 1, "hide": 0, "includeAll": False, "multi": False, "options": [], "regex": "",
    "current": {}, "skipUrlSync": False,
}  # fmt: skip
FILTERS = {
    "type": "adhoc", "name": "filters", "label": "Filters", "datasource": SOURCE, "hide": 0,
    "filters": [], "skipUrlSync": False,
}  # fmt: skip


def annotation(name: str, color: str, expression: str, title: str, text: str) -> Json:
    """Return marks on every chart wherever ``expression`` has a value."""
    return {
        "name": name, "datasource": SOURCE, "enable": True, "hide": False, "iconColor": color,
        "expr": expression, "titleFormat": title, "textFormat": text, "step": "",
        "useValueForTime": False,
        "target": {"expr": expression, "refId": "Anno", "interval": ""},
    }  # fmt: skip


ANNOTATIONS = [
    annotation(
        "Cooldowns", "orange",
        "max by (pool, target) (sum without (reason) (increase("
        'scorer_target_cooldowns_total{job=~"$job", pool=~"$pool"}[$__rate_interval]))) > 0',
        "Cooldown entered", "{{pool}} / {{target}}",
    ),
    annotation(
        "Configuration reloads", "blue",
        'changes(scorer_config_last_reload_success_timestamp_seconds{job=~"$job"}'
        "[$__rate_interval]) > 0",
        "Configuration reloaded", "{{instance}}",
    ),
    annotation(
        "Pages", "red",
        'ALERTS{alertname=~"Scorer.+", alertstate="firing", severity="critical"}',
        "{{alertname}}", "{{pool}}",
    ),
]  # fmt: skip


def placed(rows: Rows) -> list[Json]:
    """Return panels with ids and places, left to right and below each other."""
    found: list[Json] = []
    y = 0
    for title, panels in rows:
        if title:
            found.append(
                {"type": "row", "title": title, "collapsed": False, "panels": [],
                 "id": len(found) + 1, "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}}
            )  # fmt: skip
            y += 1
        x = height = 0
        for each in panels:
            if x + each.width > WIDTH:
                x, y, height = 0, y + height, 0
            place = {"x": x, "y": y, "w": each.width, "h": each.height}
            found.append({**each.json, "id": len(found) + 1, "gridPos": place})
            x, height = x + each.width, max(height, each.height)
        y += height
    return found


def dashboard(name: str, text: str, variables: list[Json], rows: Rows) -> Json:
    """Return the dashboard ``scorer-<name>``."""
    others = {
        "type": "dashboards", "title": "Scorer", "tags": ["scorer"], "asDropdown": False,
        "icon": "external link", "includeVars": True, "keepTime": True, "targetBlank": False,
        "tooltip": "", "url": "",
    }  # fmt: skip
    return {
        "id": None,
        "uid": f"scorer-{name}",
        "title": f"Scorer / {name.capitalize()}",
        "description": text,
        "tags": ["scorer"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [others],
        "annotations": {"list": ANNOTATIONS},
        "templating": {"list": [DATASOURCE, *variables, FILTERS]},
        "panels": placed(rows),
    }
