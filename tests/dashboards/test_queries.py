"""Every query of every dashboard in a real Prometheus, on two hours of the daemon's metrics."""

import logging
import re
from collections.abc import Iterator

import pytest
import structlog

from tests.dashboards.boards import BOARDS, QUERIES, STEP, Asked, filled
from tests.dashboards.history import Prometheus, serving, write_history
from tests.dashboards.world import CHAT, DRAINED
from tests.untraced import untraced

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(400)]

EMPTY = {"Firing alerts"}
"""Panels without anything to show: no rules are evaluated here."""
EMPTY_AT_THE_END = {"Cooldowns now"}
"""Panels that show what goes on now; the story ends quietly."""
TARGET = CHAT[2]
"""A target that fails, is slow, and cools down."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Yield a server that has the story in its database."""
    folder = tmp_path_factory.mktemp("history")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        with untraced():
            write_history(folder)
    finally:
        structlog.reset_defaults()
    with serving(folder) as server:
        yield server


def query_of(asked: Asked, **chosen: str) -> str:
    """Return a query as Grafana would send it."""
    if asked.uid == "scorer-target":
        chosen.setdefault("target", TARGET)
    return filled(asked.target["expr"], **chosen)


@pytest.mark.parametrize("asked", QUERIES, ids=lambda asked: asked.name)
def test_query_finds_something(prometheus: Prometheus, asked: Asked) -> None:
    """Over two hours in which everything happens, no panel stays empty."""
    found = prometheus.over_time(query_of(asked), STEP)
    assert bool(found) != (asked.panel["title"] in EMPTY)


@pytest.mark.parametrize(
    "asked", [each for each in QUERIES if each.target.get("instant")], ids=lambda asked: asked.name
)
def test_value_of_the_moment_is_found(prometheus: Prometheus, asked: Asked) -> None:
    """What is asked for the end of the time range only has a value there."""
    found = prometheus.at_the_end(query_of(asked))
    assert bool(found) != (asked.panel["title"] in EMPTY | EMPTY_AT_THE_END)


@pytest.mark.parametrize(
    "asked",
    [each for each in QUERIES if each.panel["type"] == "stat"],
    ids=lambda asked: asked.name,
)
def test_single_number_is_single(prometheus: Prometheus, asked: Asked) -> None:
    """A tile with several series would show several numbers, or one of them by chance."""
    assert len(prometheus.over_time(query_of(asked), STEP)) == 1


@pytest.mark.parametrize(
    "asked", [each for each in QUERIES if "}}" in each.target["legendFormat"]],
    ids=lambda asked: asked.name,
)  # fmt: skip
def test_labels_of_the_legend_are_there(prometheus: Prometheus, asked: Asked) -> None:
    """A label that the query aggregates away would show as an empty name."""
    named = set(re.findall(r"\{\{(\w+)\}\}", asked.target["legendFormat"]))
    for found in prometheus.over_time(query_of(asked), STEP):
        assert named <= set(found["metric"])


@pytest.mark.parametrize("asked", QUERIES, ids=lambda asked: asked.name)
def test_choice_of_one_is_obeyed(prometheus: Prometheus, asked: Asked) -> None:
    """With one pool, target and replica chosen nothing of another is shown."""
    chosen = {"pool": "chat", "target": DRAINED, "instance": "scorer-1:9808"}
    for found in prometheus.over_time(query_of(asked, **chosen), STEP):
        labels = found["metric"]
        for name, value in chosen.items():
            if f"${name}" in asked.target["expr"]:
                assert labels.get(name, value) == value


VARIABLES = [
    (uid, each) for uid, board in BOARDS.items() for each in board["templating"]["list"]
    if each["type"] == "query"
]  # fmt: skip


@pytest.mark.parametrize(
    ("uid", "variable"), VARIABLES, ids=[f"{uid}: {each['name']}" for uid, each in VARIABLES]
)
def test_variable_has_values(prometheus: Prometheus, uid: str, variable: dict[str, str]) -> None:
    """A variable without values blanks its whole dashboard."""
    listed = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"])
    assert listed
    match = filled(listed[1], **({"target": TARGET} if uid == "scorer-target" else {}))
    assert prometheus.ask(f"label/{listed[2]}/values", **{"match[]": match})


MARKS = BOARDS["scorer-overview"]["annotations"]["list"]


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: mark["name"])
def test_annotation_marks_something(prometheus: Prometheus, mark: dict[str, str]) -> None:
    """Cooldowns and reloads are found; pages need a server with rules."""
    found = prometheus.over_time(filled(mark["expr"]), STEP)
    assert bool(found) == (mark["name"] != "Pages")
    shown = set(re.findall(r"\{\{(\w+)\}\}", mark["textFormat"]))
    assert all(shown <= set(each["metric"]) for each in found)
