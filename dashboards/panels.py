"""Panels of Grafana dashboards as plain dictionaries (Classic JSON, schemaVersion 39).

A panel knows its width and height in grid units and nothing of its place. Its description
ends with the names of the metrics that its queries use.
"""

import re
from dataclasses import dataclass, field
from typing import Any

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
METRIC = re.compile(r"\b(?:scorer|process)_[a-z_]+|\bup\b|\bALERTS\b")
PART = re.compile(r"_(?:bucket|sum|count)$")
STATES = {
    0: ("healthy", "green"),
    1: ("warmup", "blue"),
    2: ("degraded", "yellow"),
    3: ("cooldown", "orange"),
    4: ("draining", "purple"),
    5: ("unreachable", "red"),
}
DASHED = {"fill": "dash", "dash": [8, 8]}
LEGEND_BELOW = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
LEGEND_BESIDE = {
    "displayMode": "table", "placement": "right", "showLegend": True,
    "calcs": ["lastNotNull", "max"], "sortBy": "Last *", "sortDesc": True,
}  # fmt: skip
LEGEND_NARROW = {**LEGEND_BESIDE, "calcs": ["max"], "sortBy": "Max", "width": 330}
LAST = {"calcs": ["lastNotNull"], "fields": "", "values": False}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """One query. ``name`` is its column in a table, ``unit`` that column's unit."""

    expression: str
    legend: str = ""
    name: str = ""
    unit: str = ""
    steps: Json | None = None
    exemplars: bool = False


@dataclass(frozen=True, slots=True)
class Steps:
    """Colours from values on; the first colour holds from below."""

    first: str
    then: tuple[tuple[float, str], ...] = ()

    def thresholds(self) -> Json:
        """Return what Grafana calls thresholds."""
        steps = [{"value": None, "color": self.first}]
        steps += [{"value": value, "color": color} for value, color in self.then]
        return {"mode": "absolute", "steps": steps}


PLAIN = Steps("text")
BLUE = Steps("blue")
SCORE = Steps("red", ((50, "orange"), (70, "yellow"), (85, "green")))
KV_CACHE = Steps("green", ((0.9, "orange"), (0.97, "red")))
ANY_IS_ODD = Steps("green", ((1, "orange"),))
STALE = Steps("green", ((30, "red"),))


@dataclass(slots=True)
class Panel:
    """A panel without its place: ``width`` of 24 and ``height`` in grid units."""

    json: Json
    width: int
    height: int
    overrides: list[Json] = field(default_factory=list)


def described(text: str, queries: tuple[Query, ...]) -> str:
    """Return ``text`` with the names of the metrics at its end."""
    found = [name for query in queries for name in METRIC.findall(query.expression)]
    return f"{text} {', '.join(dict.fromkeys(PART.sub('', name) for name in found))}"


def target(query: Query, ref: str, **more: object) -> Json:
    """Return a query as a panel holds it; ``more`` replaces what a range query has."""
    json = {
        "datasource": SOURCE, "editorMode": "code", "expr": query.expression,
        "legendFormat": query.legend, "refId": ref, "range": True,
    }  # fmt: skip
    return json | ({"exemplar": True} if query.exemplars else {}) | more


def once(query: Query, ref: str) -> Json:
    """Return a query that is asked for the end of the time range only, as a table."""
    return target(query, ref, range=False, instant=True, format="table")


def refs(queries: tuple[Query, ...]) -> list[tuple[Query, str]]:
    """Return queries with the letters that name them."""
    return list(zip(queries, "ABCDEFGHIJKL", strict=False))


def panel(kind: str, title: str, text: str, queries: tuple[Query, ...], **more: object) -> Json:
    """Return what all panels have; ``more`` are ``options`` and what else there is."""
    return {
        "type": kind,
        "title": title,
        "description": described(text, queries),
        "datasource": SOURCE,
        "targets": [target(query, ref) for query, ref in refs(queries)],
        "fieldConfig": {"defaults": {}, "overrides": []},
        "options": {},
    } | more


def state_mappings() -> list[Json]:
    """Return the words and colours of the states, the same everywhere."""
    return mappings(STATES)


def mappings(words: dict[int, tuple[str, str]]) -> list[Json]:
    """Return words and colours for numbers."""
    options = {
        str(number): {"text": text, "color": color, "index": place}
        for place, (number, (text, color)) in enumerate(words.items())
    }
    return [{"type": "value", "options": options}]


def stat(
    title: str, text: str, unit: str, expression: str, steps: Steps = PLAIN, width: int = 3,
    *, words: list[Json] | None = None, nothing: str = "", decimals: int | None = None,
) -> Panel:  # fmt: skip
    """Return a single number; ``words`` stand in its place, ``nothing`` where there is none."""
    json = panel("stat", title, text, (Query(expression),))
    json["fieldConfig"]["defaults"] = {
        "unit": unit, "thresholds": steps.thresholds(), "color": {"mode": "thresholds"},
        "mappings": words or [],
    }  # fmt: skip
    if nothing:
        json["fieldConfig"]["defaults"]["noValue"] = nothing
    if decimals is not None:
        json["fieldConfig"]["defaults"]["decimals"] = decimals
    json["options"] = {
        "reduceOptions": LAST, "colorMode": "background" if words else "value",
        **({"text": {"valueSize": 26}} if words else {}),
        "graphMode": "none" if words else "area", "textMode": "value", "justifyMode": "center",
        "orientation": "auto",
    }  # fmt: skip
    return Panel(json, width, 4)


def series(
    title: str, text: str, unit: str, *queries: Query, width: int = 12, height: int = 8,
    low: float | None = 0, high: float | None = None, stacked: bool = False, bars: bool = False,
    beside: bool = False, nothing: str = "",
) -> Panel:  # fmt: skip
    """Return lines over time; ``beside`` puts a table of the series on the right."""
    json = panel("timeseries", title, text, queries)
    custom: Json = {
        "drawStyle": "bars" if bars else "line", "lineWidth": 1 if bars or stacked else 2,
        "fillOpacity": 60 if bars else 30 if stacked else 0, "showPoints": "never",
        "spanNulls": False, "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
        "axisSoftMin": 0,
    }  # fmt: skip
    defaults: Json = {"unit": unit, "color": {"mode": "palette-classic"}, "custom": custom}
    defaults |= {"min": low} if low is not None else {}
    defaults |= {"max": high} if high is not None else {}
    defaults |= {"noValue": nothing} if nothing else {}
    json["fieldConfig"]["defaults"] = defaults
    json["options"] = {
        "legend": LEGEND_BELOW if not beside else LEGEND_BESIDE if width > 12 else LEGEND_NARROW,
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return Panel(json, width, height)


def with_thresholds(made: Panel, ref: str) -> Panel:
    """Draw the query ``ref``, thresholds by severity, as dashed lines."""
    style = [
        {"id": "custom.lineStyle", "value": DASHED}, {"id": "custom.lineWidth", "value": 1},
        {"id": "custom.fillOpacity", "value": 0}, {"id": "custom.hideFrom", "value": {
            "legend": True, "tooltip": False, "viz": False}},
    ]  # fmt: skip
    made.json["fieldConfig"]["overrides"].append(
        {"matcher": {"id": "byFrameRefID", "options": ref}, "properties": style}
    )
    for word, color in (("critical", "red"), ("warning", "orange")):
        made.json["fieldConfig"]["overrides"].append(
            {
                "matcher": {"id": "byRegexp", "options": f"/^{word}/"},
                "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
            }
        )
    return made


def timeline(title: str, text: str, words: list[Json], query: Query, height: int = 8) -> Panel:
    """Return states over time; numbers are shown as ``words``."""
    json = panel("state-timeline", title, text, (query,))
    json["fieldConfig"]["defaults"] = {
        "unit": "none", "mappings": words, "color": {"mode": "fixed", "fixedColor": "text"},
        "custom": {"fillOpacity": 80, "lineWidth": 0},
    }  # fmt: skip
    json["options"] = {
        "mergeValues": True, "showValue": "never", "alignValue": "left", "rowHeight": 0.85,
        "legend": LEGEND_BELOW, "tooltip": {"mode": "single", "sort": "none"},
    }  # fmt: skip
    return Panel(json, 24, height)


def heatmap(title: str, text: str, expression: str, width: int = 12, height: int = 8) -> Panel:
    """Return a histogram over time; ``expression`` is by ``le``, in seconds."""
    query = Query(expression, "{{le}}")
    json = panel("heatmap", title, text, (query,), targets=[target(query, "A", format="heatmap")])
    json["fieldConfig"]["defaults"] = {
        "unit": "s", "custom": {"hideFrom": {"legend": False, "tooltip": False, "viz": False}},
    }  # fmt: skip
    json["options"] = {
        "calculate": False, "cellGap": 1, "showValue": "never",
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5,
                  "fill": "dark-orange", "reverse": False},
        "yAxis": {"axisPlacement": "left", "unit": "s"}, "rowsFrame": {"layout": "auto"},
        "tooltip": {"mode": "single", "yHistogram": False}, "legend": {"show": True},
        "filterValues": {"le": 1e-9}, "exemplars": {"color": "rgba(255,0,255,0.7)"},
    }  # fmt: skip
    return Panel(json, width, height)


def table(
    title: str, text: str, *queries: Query, width: int = 24, height: int = 7, nothing: str = "",
    hidden: tuple[str, ...] = (), names: dict[str, str] | None = None,
) -> Panel:  # fmt: skip
    """Return a table of the last values: a row for each set of labels, a column for each query.

    A query without a name adds its labels only. ``hidden`` labels are left out, ``names``
    are what the others are called, in their order.
    """
    asked = refs(queries)
    json = panel("table", title, text, queries, targets=[once(*each) for each in asked])
    values = {ref: "Value" if len(asked) == 1 else f"Value #{ref}" for _, ref in asked}
    shown = {values[ref]: query.name for query, ref in asked if query.name}
    dropped = {values[ref] for query, ref in asked if not query.name} | {"Time", *hidden}
    places = {name: place for place, name in enumerate([*(names or {}), *values.values()])}
    json["transformations"] = [
        *([{"id": "merge", "options": {}}] if len(asked) > 1 else []),
        {"id": "organize", "options": {
            "excludeByName": dict.fromkeys(sorted(dropped), True), "indexByName": places,
            "renameByName": shown | (names or {}),
        }},
    ]  # fmt: skip
    defaults: Json = {
        "unit": "none", "custom": {"align": "auto", "cellOptions": {"type": "auto"}},
        "thresholds": PLAIN.thresholds(), "color": {"mode": "thresholds"},
    }  # fmt: skip
    json["fieldConfig"]["defaults"] = defaults | ({"noValue": nothing} if nothing else {})
    json["fieldConfig"]["overrides"] = [column(query) for query, _ in asked if query.name]
    json["options"] = {"showHeader": True, "cellHeight": "sm"}
    return Panel(json, width, height)


def column(query: Query) -> Json:
    """Return how the column of a query is shown."""
    properties: list[Json] = [{"id": "unit", "value": query.unit or "none"}]
    if query.steps:
        properties += [
            {"id": "thresholds", "value": query.steps},
            {"id": "custom.cellOptions", "value": {"type": "color-text"}},
        ]
    return {"matcher": {"id": "byName", "options": query.name}, "properties": properties}


def bars(title: str, text: str, unit: str, query: Query, width: int, height: int) -> Panel:
    """Return one bar for each series, of its last value."""
    asked = target(query, "A", range=False, instant=True)
    json = panel("bargauge", title, text, (query,), targets=[asked])
    steps = Steps("green", ((0.05, "yellow"), (0.2, "orange")))
    json["fieldConfig"]["defaults"] = {
        "unit": unit, "min": 0, "thresholds": steps.thresholds(),
        "color": {"mode": "thresholds"}, "noValue": "None", "decimals": 1,
    }  # fmt: skip
    json["options"] = {
        "displayMode": "basic", "orientation": "horizontal", "reduceOptions": LAST,
        "valueMode": "color", "showUnfilled": True, "namePlacement": "auto", "sizing": "manual",
        "text": {"titleSize": 12, "valueSize": 14},
        "minVizWidth": 8, "minVizHeight": 16, "maxVizHeight": 28,
    }  # fmt: skip
    return Panel(json, width, height)


def linked(made: Panel, title: str, url: str, columns: tuple[str, ...] = ()) -> Panel:
    """Add a link to every value, or to the named ``columns`` of a table only."""
    link = [{"title": title, "url": url, "targetBlank": False}]
    if not columns:
        made.json["fieldConfig"]["defaults"]["links"] = link
    for name in columns:
        made.json["fieldConfig"]["overrides"].append(
            {
                "matcher": {"id": "byName", "options": name},
                "properties": [{"id": "links", "value": link}],
            }
        )
    return made
