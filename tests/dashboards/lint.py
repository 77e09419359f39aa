"""Rules that dashboards keep. Each takes a dashboard and yields what is wrong with it.

They are those of Grafana's dashboard-linter and some of our own; a template variable is
filled in by Grafana, so nothing here needs a server.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from exporters.catalogue import METRICS
from tests.dashboards.boards import panels

Board = Mapping[str, Any]
Rule = Callable[[Board], Iterator[str]]

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
KINDS = {"stat", "timeseries", "table", "state-timeline", "heatmap", "bargauge"}
UNITS = {"none", "percentunit", "s", "reqps", "ops", "bytes"}
NAMES = {metric.name for metric in METRICS}
PART = re.compile(r"_(bucket|sum|count)$")
METRIC = re.compile(r"\b((?:scorer|process)_[a-z_]+|up)\b(\{[^}]*\})?")
COUNTED = re.compile(r"(\w+)\(\w+(?:_total|_bucket)\b")
RANGE = re.compile(r"\[([^\]]+)\]")
NO_SUM = re.compile(
    r"\bsum(?: by \([^)]*\) )?\((?:max by \([^)]*\) \()?(scorer_\w+_(?:ratio|score))\b"
)


def everything(node: object) -> Iterator[Mapping[str, Any]]:
    """Yield every object of a JSON document."""
    if isinstance(node, Mapping):
        yield node
        for value in node.values():
            yield from everything(value)
    elif isinstance(node, list):
        for value in node:
            yield from everything(value)


def queries(board: Board) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], str]]:
    """Yield panel, target and expression of every query."""
    for panel in panels(board):
        for target in panel["targets"]:
            yield panel, target, target["expr"]


def imports_anywhere(board: Board) -> Iterator[str]:
    """Stable uid, no id, the schema of Grafana 10.4, nothing that only an export has."""
    if not re.fullmatch(r"scorer-[a-z]{1,30}", board["uid"]):
        yield "uid"
    if board["id"] is not None or board["schemaVersion"] != 39:
        yield "id or schemaVersion"
    for word in ("__inputs", "__requires", "elements", "layout"):
        if word in board:
            yield word
    if board["tags"] != ["scorer"] or not any(
        link["tags"] == ["scorer"] and link["keepTime"] and link["includeVars"]
        for link in board["links"]
    ):
        yield "tag, or links to the other dashboards"


def source_is_a_variable(board: Board) -> Iterator[str]:
    """Whatever has a data source has the one that was chosen."""
    need = [*panels(board), *board["annotations"]["list"]]
    need += [target for panel in panels(board) for target in panel["targets"]]
    need += board["templating"]["list"][1:]
    yield from (str(each)[:60] for each in need if "datasource" not in each)
    for each in everything(board):
        if each.get("datasource", SOURCE) != SOURCE:
            yield str(each["datasource"])


def variables_never_blank(board: Board) -> Iterator[str]:
    """Have the data source first, filters last; All match anything, values follow the time."""
    listed = board["templating"]["list"]
    kinds = [each["type"] for each in listed]
    if (kinds[0], kinds[-1], listed[1]["name"]) != ("datasource", "adhoc", "job"):
        yield f"order {kinds}"
    if (listed[0]["name"], listed[0]["label"]) != ("datasource", "Data source"):
        yield "name of the data source"
    for each in listed[1:-1]:
        if each["refresh"] != 2:
            yield f"{each['name']}: refresh"
        if each["includeAll"] != each["multi"] or each.get("allValue") != (
            ".*" if each["multi"] else None
        ):
            yield f"{each['name']}: All"
        metric = re.match(r"label_values\((\w+)", each["definition"])
        if metric is None or metric[1] not in NAMES or each["query"]["query"] != each["definition"]:
            yield f"{each['name']}: {each['definition']}"


def places_do_not_overlap(board: Board) -> Iterator[str]:
    """Ids are unique, and every cell of the 24 columns belongs to one panel at most."""
    ids = [panel["id"] for panel in board["panels"]]
    if len(ids) != len(set(ids)):
        yield "ids"
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        if cells & taken or max(x for x, _ in cells) > 23:
            yield panel["title"]
        taken |= cells


def panels_explain_themselves(board: Board) -> Iterator[str]:
    """Title, a sentence, the names of the metrics, a unit or words for the values."""
    for panel in panels(board):
        used = {PART.sub("", found[1]) for target in panel["targets"]
                for found in METRIC.finditer(target["expr"])}  # fmt: skip
        text, _, names = panel["description"].rpartition(". ")
        if not panel["title"] or not text or not used <= set(names.split(", ")):
            yield f"{panel['title']}: description"
        if panel["type"] not in KINDS:
            yield f"{panel['title']}: type {panel['type']}"
        if panel["fieldConfig"]["defaults"].get("unit") not in UNITS:
            yield f"{panel['title']}: unit"


def targets_are_named(board: Board) -> Iterator[str]:
    """Every panel asks something; its queries have letters of their own."""
    for panel in panels(board):
        letters = [target["refId"] for target in panel["targets"]]
        if not letters or len(letters) != len(set(letters)):
            yield f"{panel['title']}: {letters}"
        if panel["type"] == "heatmap" and panel["targets"][0].get("format") != "heatmap":
            yield f"{panel['title']}: format"


def metrics_exist(board: Board) -> Iterator[str]:
    """Every metric of ours is in the catalogue, and is chosen by job."""
    marks = [mark["expr"] for mark in board["annotations"]["list"]]
    for query in [*marks, *(query for *_, query in queries(board))]:
        for name, selector in METRIC.findall(query):
            if name.startswith("scorer_") and not {name, PART.sub("", name)} & NAMES:
                yield name
            if 'job=~"$job"' not in selector:
                yield f"{name}{selector}"


def counters_are_rates(board: Board) -> Iterator[str]:
    """Show counters as rates: by itself one tells for how long the daemon has been running."""
    for _, _, query in queries(board):
        counted = COUNTED.findall(query)
        bare = len(re.findall(r"(?:_total|_bucket)\b\{", query)) - len(counted)
        if bare or set(counted) - {"rate", "increase", "changes"}:
            yield query


def ranges_follow_the_chart(board: Board) -> Iterator[str]:
    """Charts use $__rate_interval; only tables have columns of a fixed range."""
    for panel, target, query in queries(board):
        allowed = {"$__range"} if target.get("instant") else {"$__rate_interval"}
        if panel["type"] == "table":
            allowed |= {"1h", "5m"}
        if set(RANGE.findall(query)) - allowed:
            yield f"{panel['title']}: {query}"


def arithmetic_is_sound(board: Board) -> Iterator[str]:
    """No sum of scores or shares, no division by nothing, quantiles of whole buckets."""
    for panel, _, query in queries(board):
        summed = set(NO_SUM.findall(query)) - {"scorer_target_weight_ratio"}
        if summed:
            yield f"{panel['title']}: sum of {summed}"
        if query.count(" / ") > query.count(" > 0)"):
            yield f"{panel['title']}: division"
        if query.count("histogram_quantile") != len(
            re.findall(r"histogram_quantile\([\d.]+, sum by \((?:\w+, )*le\) \(rate\(", query)
        ):
            yield f"{panel['title']}: quantile"


def units_fit_the_metrics(board: Board) -> Iterator[str]:
    """Ratios are shown in per cent, seconds as times, bytes as bytes."""
    for panel in panels(board):
        for target in panel["targets"]:
            wanted = unit_of(target["expr"])
            if wanted and shown_unit(panel, target["refId"]) != wanted:
                yield f"{panel['title']} {target['refId']}: {wanted}"


def unit_of(query: str) -> str:
    """Return the unit that the name of a query's first metric asks for, if it does."""
    found = METRIC.search(query)
    name = found[1] if found else ""
    if "cpu_seconds" in name or "100 *" in query or "changes(" in query:
        return ""
    if name.endswith("cooldown_seconds_total") or (" / " in query and "rate(" in query):
        return "" if "max by (pool) (sum" in query else "percentunit"
    if name.endswith(("_bucket", "_seconds")):
        return "s"
    if name.endswith("_ratio"):
        return "percentunit"
    return "bytes" if name.endswith("_bytes") else ""


def shown_unit(panel: Mapping[str, Any], letter: str) -> str:
    """Return the unit of a query: in a table that of its column."""
    config = panel["fieldConfig"]
    if panel["type"] != "table":
        return str(config["defaults"]["unit"])
    names = panel["transformations"][-1]["options"]["renameByName"]
    name = names.get(f"Value #{letter}", names.get("Value"))
    units = [
        each["value"] for override in config["overrides"]
        if override["matcher"]["options"] == name
        for each in override["properties"] if each["id"] == "unit"
    ]  # fmt: skip
    return str(units[0]) if units else "none"


def thresholds_begin_below(board: Board) -> Iterator[str]:
    """Have a first colour that holds from minus infinity."""
    for each in everything(board):
        steps = each.get("steps")
        if isinstance(steps, list) and steps[0]["value"] is not None:
            yield str(steps)


RULES: tuple[Rule, ...] = (
    imports_anywhere, source_is_a_variable, variables_never_blank, places_do_not_overlap,
    panels_explain_themselves, targets_are_named, metrics_exist, counters_are_rates,
    ranges_follow_the_chart, arithmetic_is_sound, units_fit_the_metrics, thresholds_begin_below,
)  # fmt: skip
