"""One target with all that explains it, as JSON data: what the API, the page and the CLI show."""

from itertools import islice

from scorer.clocks import Clocks
from scorer.core.explain import CapRow, Explanation, SignalRow, explain
from scorer.core.outcome import LastError
from scorer.core.remedies import Remedy
from scorer.core.snapshot import TargetView
from scorer.decisions import Decision
from scorer.http.ports import Ports
from scorer.http.remedies import cap_text, remedy_text
from scorer.http.views import Data, decision_data, number, signal_data, target_data, transition_data

LAST_DECISIONS = 20
"""Picks that one target is shown with."""


def explained_target(view: TargetView, ports: Ports) -> Data:
    """Return one target as ``/api/v1/targets/<target>`` shows it."""
    clocks = ports.clocks
    return target_data(view, ports) | {
        "explanation": explanation_data(explain(view, clocks.monotonic()), clocks),
        "transitions": [transition_data(change, clocks) for change in view.transitions],
        "decisions": [decision_data(each, clocks) for each in last_decisions(view, ports)],
        "last_errors": [error_data(error, clocks) for error in reversed(view.last_errors)],
    }


def last_decisions(view: TargetView, ports: Ports) -> list[Decision]:
    """Return the last picks that compared or returned the target, the latest first."""
    latest = ports.decisions.latest(pool=view.pool, target=view.target)
    return list(islice(latest, LAST_DECISIONS))


def explanation_data(explanation: Explanation, clocks: Clocks) -> Data:
    """Return what the score is made of; points and shares to four decimals."""
    return {
        "goal": number(explanation.goal),
        "signals": [_signal(row, clocks) for row in explanation.signals],
        "saturation": number(explanation.saturation),
        "caps": [_cap(cap) for cap in explanation.caps],
        "held_back": number(explanation.held_back),
        "rise_limit": number(explanation.rise_limit),
        "remedies": [_remedy(remedy, explanation) for remedy in explanation.remedies],
    }


def _signal(row: SignalRow, clocks: Clocks) -> Data:
    curve = row.curve
    return {"signal": row.name} | signal_data(row.signal, clocks) | {
        "curve": {
            "shape": curve.shape,
            "knee": number(curve.knee),
            "ceiling": number(curve.ceiling),
            "knots": [[number(value), number(points)] for value, points in row.knots],
        },
        "factor": number(row.factor),
        "weight": number(row.weight),
        "points_lost": number(row.points),
    }  # fmt: skip


def _cap(cap: CapRow) -> Data:
    return {
        "reason": cap.reason,
        "limit": number(cap.limit),
        "points_lost": number(cap.points),
        "text": cap_text(cap),
    }


def _remedy(remedy: Remedy, explanation: Explanation) -> Data:
    return {
        "lever": remedy.lever,
        "points": number(remedy.points),
        "value": number(remedy.value),
        "best": number(remedy.best),
        "seconds": number(remedy.seconds),
        "reason": remedy.reason,
        "text": remedy_text(remedy, explanation),
    }


def error_data(error: LastError, clocks: Clocks) -> Data:
    """Return one error of a target."""
    return {
        "at": clocks.rfc3339(error.at),
        "source": error.source,
        "class": error.kind,
        "reason": error.reason,
        "detail": error.detail or None,
        "times": number(error.times),
    }
