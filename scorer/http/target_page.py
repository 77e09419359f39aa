"""What the page of one target shows, as words and numbers ready to print."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from scorer.clocks import Clocks
from scorer.core.explain import Explanation, SignalRow, explain
from scorer.core.snapshot import TargetView
from scorer.core.vocabulary import Cause, State, Verb
from scorer.decisions import Decision
from scorer.http import words
from scorer.http.explanation import error_data, last_decisions
from scorer.http.page import VISIBLE, Cell, Row, row, signal_cell
from scorer.http.ports import Ports
from scorer.http.remedies import cap_text, remedy_text
from scorer.http.stories import Story, change_story, error_story, pick_story
from scorer.http.views import decision_data, transition_data

PICKED, FAILED = State.HEALTHY, State.UNREACHABLE
"""States whose colours a pick of the target and an error of it are marked with."""
SAID = {
    Verb.DRAIN: " --duration 10m --reason 'why'",
    Verb.COOLDOWN: " --duration 1m --reason 'why'",
}
"""What the command of an order may say besides."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One line of the account: a signal with its curve, or a cause with a sentence.

    ``counts`` is whether it costs points that can be seen.
    """

    kind: str
    title: str
    value: Cell
    points: str
    age: str = ""
    source: str = ""
    curve: str = ""
    weight: str = ""
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Gain:
    """One remedy: the points that it gives back, and what has to happen."""

    points: str
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a history: when (``time`` is RFC 3339), what, and more about it."""

    time: str
    ago: str
    kind: str
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """What an order does, the command that gives it, and the page that asks for it.

    ``href`` is empty where orders are given from the command line only.
    """

    title: str
    text: str
    command: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class TargetPage:
    """The page of one target; ``root`` leads from it to the page of all targets."""

    time: str
    root: str
    row: Row
    goal: str
    losses: tuple[Loss, ...]
    gains: tuple[Gain, ...]
    orders: tuple[Command, ...]
    transitions: tuple[Event, ...]
    decisions: tuple[Event, ...]
    errors: tuple[Event, ...]
    json_href: str
    still_href: str
    live_href: str


def target_page(view: TargetView, refresh: str, ports: Ports) -> TargetPage:
    """Return the page of a target; ``refresh`` is the interval that was asked for."""
    clocks = ports.clocks
    now = clocks.monotonic()
    explanation = explain(view, now)
    chosen = {"pool": view.pool, "refresh": refresh}
    return TargetPage(
        time=clocks.rfc3339(now),
        root=way_up(view.target),
        row=row(view, ports),
        goal=goal(explanation),
        losses=losses(explanation, clocks),
        gains=tuple(gains(explanation)),
        orders=orders(view, now, on_page=ports.operators.trust.wants_token),
        transitions=tuple(
            _event(each.at, each.after, change_story(transition_data(each, clocks)), clocks)
            for each in reversed(view.transitions)
        ),
        decisions=tuple(_pick(each, view.target, clocks) for each in last_decisions(view, ports)),
        errors=tuple(
            _event(each.at, FAILED, error_story(error_data(each, clocks)), clocks)
            for each in reversed(view.last_errors)
        ),
        json_href=address(view.target, chosen | {"refresh": "", "format": "json"}),
        still_href=address(view.target, chosen | {"refresh": "0"}),
        live_href=address(view.target, chosen | {"refresh": ""}),
    )


def address(target: str, query: Mapping[str, str]) -> str:
    """Return the address of the page from itself, with the parameters that are not empty."""
    name = quote(target.rsplit("/", 1)[-1], safe="")
    given = urlencode({key: value for key, value in query.items() if value})
    return f"./{name}?{given}" if given else f"./{name}"


def way_up(target: str) -> str:
    """Return the way from the page to that of all targets."""
    return "../" * (1 + target.count("/"))


def goal(explanation: Explanation) -> str:
    """Return what the score heads for, empty where it is there already or that is not known."""
    if explanation.goal is None or explanation.held_back < VISIBLE:
        return ""
    return f"rising to {explanation.goal:.1f}"


def losses(explanation: Explanation, clocks: Clocks) -> tuple[Loss, ...]:
    """Return the account: every signal, then what else costs points."""
    rows = [signal_loss(each, clocks) for each in explanation.signals]
    rest = [(Cause.SATURATION, "said lately that it is full", explanation.saturation)]
    rest += [(Cause.CAP, cap_text(cap), cap.points) for cap in explanation.caps]
    held_back = f"rises at most {explanation.rise_limit:g} points a second"
    rest.append((Cause.WARMUP, held_back, explanation.held_back))
    rows += [
        Loss(cause, words.said(words.CAUSES, cause), Cell(text), minus(points))
        for cause, text, points in rest
        if points >= VISIBLE or cause is Cause.CAP
    ]
    return tuple(rows)


def signal_loss(row: SignalRow, clocks: Clocks) -> Loss:
    """Return the line of a signal."""
    name, curve, signal = row.name, row.curve, row.signal
    return Loss(
        kind=name,
        title=words.said(words.CAUSES, name),
        value=signal_cell(signal, words.VALUES[name]),
        age="" if signal.at is None else f"{words.left(clocks.age(signal.at))} ago",
        source=signal.source,
        curve=words.curve(name, curve.shape, curve.knee, curve.ceiling),
        weight=f"{row.weight:.2f}",
        points=minus(row.points),
        counts=row.points >= VISIBLE,
    )


def minus(points: float) -> str:
    """Return points lost."""
    return f"−{points:.1f}" if points >= VISIBLE else "0"


def gains(explanation: Explanation) -> list[Gain]:
    """Return what would raise the score, in the order of the explanation."""
    return [
        Gain(words.gain(remedy.points), remedy_text(remedy, explanation))
        for remedy in explanation.remedies
    ]


def orders(view: TargetView, now: float, *, on_page: bool) -> tuple[Command, ...]:
    """Return the orders that make sense for the target as it is at ``now``.

    ``on_page`` says whether a page takes them, besides the command line.
    """
    drained = view.drain is not None and view.drain.active(now)
    texts = {Verb.DRAIN: "change the drain" if drained else "take it out of all picks"}
    if drained:
        texts[Verb.UNDRAIN] = "take the drain back"
    texts[Verb.COOLDOWN] = "keep long prompts away"
    if view.cooldown.active:
        texts[Verb.END_COOLDOWN] = "end the cooldown"
    return tuple(
        Command(
            words.ORDERS[verb],
            text,
            f"scorer {verb}{SAID.get(verb, '')}"
            f" --pool {shlex.quote(view.pool)} {shlex.quote(view.target)}",
            address(view.target, {"pool": view.pool, "order": verb}) if on_page else "",
        )
        for verb, text in texts.items()
    )


def _pick(decision: Decision, target: str, clocks: Clocks) -> Event:
    kind = PICKED if decision.choice.row.target == target else ""
    story = pick_story(decision_data(decision, clocks), target)
    return _event(decision.at, kind, story, clocks)


def _event(at: float, kind: str, story: Story, clocks: Clocks) -> Event:
    ago = f"{words.left(clocks.age(at))} ago"
    return Event(clocks.rfc3339(at), ago, kind, story.text, ", ".join(story.details))
