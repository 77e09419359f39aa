"""Captures of real engines through the shipped code: what their scores must do."""

import pytest

from benchmarks.replay.replay import Point, captures, replay

CAPTURES = captures()


@pytest.fixture(scope="module", params=CAPTURES)
def points(request: pytest.FixtureRequest) -> list[Point]:
    """Return the published views of one capture after the other."""
    return replay(*CAPTURES[request.param])


def of(name: str) -> list[Point]:
    return replay(*CAPTURES[name])


def test_score_never_rises_faster_than_15_points_a_second(points: list[Point]) -> None:
    """Whatever the engines do, the rise limit holds between any two scrapes."""
    before: dict[str, Point] = {}
    for point in points:
        last = before.get(point.view.target)
        if last is not None and last.view.score is not None and point.view.score is not None:
            assert point.view.score - last.view.score <= 15.0 * (point.at - last.at) + 1e-6
        before[point.view.target] = point


def test_points_lost_explain_every_score(points: list[Point]) -> None:
    """At every moment 100 minus the points lost is the score."""
    for point in points:
        if point.view.score is not None:
            lost = sum(point.view.points_lost.values())
            assert 100.0 - lost == pytest.approx(point.view.score)


def test_flooded_engine_scores_lower_than_its_neighbour() -> None:
    """While one engine's KV cache is full and requests wait, its score is the lower one."""
    pressure = [point for point in of("two-engines") if point.phase == "kv_pressure"]
    scores = {
        target: min(p.view.score or 0.0 for p in pressure if p.view.target == target)
        for target in ("127.0.0.1:8111", "127.0.0.1:8112")
    }
    assert abs(scores["127.0.0.1:8111"] - scores["127.0.0.1:8112"]) > 5.0


def test_killed_engine_is_out_within_three_scrapes() -> None:
    """After SIGKILL of the engine the third scrape at the latest finds it out, score 0."""
    after = [point for point in of("engine-killed") if point.phase == "signal" and point.at >= 13.0]
    assert all(point.view.score == 0.0 for point in after)
    assert all(not point.view.eligible for point in after)


def test_hung_engine_is_frozen_within_ten_seconds() -> None:
    """After SIGSTOP the page stays fine; ten seconds later the score is at most 20."""
    last = of("engine-hung")[-1]
    assert (last.at, str(last.view.state_reason)) == (20.0, "frozen")
    assert last.view.score is not None
    assert last.view.score <= 20.0
    assert (last.view.eligible, last.view.probe_only) == (False, True)
