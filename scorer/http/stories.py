"""State changes, picks and errors of one target, as the API tells them, in words.

The status page and ``scorer explain`` tell the same story, each in its own layout.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from scorer.http import words

Data = Mapping[str, Any]


class Story(NamedTuple):
    """What happened, and more about it, in parts."""

    text: str
    details: tuple[str, ...] = ()


def change_story(change: Data) -> Story:
    """Return a state change."""
    reason = words.said(words.REASONS, change["reason"])
    return Story(f"{change['from']} to {change['to']}", (reason,) if reason else ())


def pick_story(decision: Data, target: str) -> Story:
    """Return a pick from where ``target`` stands: whether it won, why, and what it would cost."""
    candidates = {each["target"]: each for each in decision["candidates"]}
    winner = decision["target"]
    why = words.said(words.PICK_REASONS, decision["reason"])
    details = [f"{why}, {words.count(decision['prompt_tokens'])} tokens"]
    if mine := candidates.get(target):
        details.append(f"cost {_cost(mine)}{'' if mine['cold'] else ', too long'}")
    if winner != target and winner in candidates:
        details.append(f"winner's {_cost(candidates[winner])}")
    return Story("picked" if winner == target else f"{winner} picked", tuple(details))


def error_story(error: Data) -> Story:
    """Return an error: what it was and how often, who told, why; a rule has its own name."""
    times = f" x {words.count(error['times'])}" if error["times"] > 1 else ""
    reason: str = words.FAILURES.get(error["reason"]) or error["reason"]
    detail = f"{reason}: {error['detail']}" if error["detail"] else reason
    return Story(f"{words.said({}, error['class'])}{times}", (error["source"], detail))


def _cost(candidate: Data) -> str:
    cost = candidate["cost"]
    return "not known" if cost is None else words.latency(cost)
