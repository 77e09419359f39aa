"""``scorer explain``: what the API says of one target, as a text that fits a terminal.

The data is that of ``/api/v1/targets/<target>``; nothing is computed here.
"""

from collections.abc import Iterable, Iterator, Sequence

from scorer.core.vocabulary import Cause, SignalName
from scorer.http import words
from scorer.http.stories import Data, Story, change_story, error_story, pick_story

VISIBLE = 0.05
"""Points below which a loss is shown as 0."""
TITLES = ("", "value", "age", "source", "curve", "weight", "points lost")
CURVE, NUMBERS = 4, 5
"""Columns of the account: the one that takes what room is left, and the first number."""
GAP = "  "


def as_text(target: Data) -> str:
    """Return the explanation of a target, with its history, the latest first."""
    name, explanation = target["target"], target["explanation"]
    changes, picks = target["transitions"][::-1], target["decisions"]
    parts = [
        [_headline(target), *_facts(target)],
        ["where the points went", *_account(target, explanation)],
        ["what would raise the score", *_remedies(explanation)],
        ["state changes", *_stories((each, change_story(each)) for each in changes)],
        ["last picks it was part of", *_stories((each, pick_story(each, name)) for each in picks)],
        ["last errors", *_stories((each, error_story(each)) for each in target["last_errors"])],
    ]
    shown = ("\n".join(part if len(part) > 1 else [*part, "  none"]) for part in parts)
    return "\n\n".join(shown).replace("\u202f", " ")


def _headline(target: Data) -> str:
    score = "no score yet" if target["score"] is None else f"score {target['score']:.1f}"
    reason = words.said(words.REASONS, target["state_reason"])
    state = f"{target['state']} ({reason})" if reason else target["state"]
    return f"{target['target']} of pool {target['pool']}: {score}, {state}"


def _facts(target: Data) -> Iterator[str]:
    goal = target["explanation"]["goal"]
    if goal is not None and goal - target["score"] >= VISIBLE:
        yield _line("rising to", f"{goal:.1f}")
    yield _line("state since", _time(target["state_since"]))
    engine = " ".join(filter(None, (target["engine"], target["engine_version"]))) or "unknown"
    yield _line("engine", engine)
    eligible = "eligible" if target["eligible"] else "not eligible"
    yield _line("weight", f"{target['weight']:.2f}, {eligible}")
    yield _line("last scrape", _scrape(target["last_scrape"]))


def _scrape(scrape: Data | None) -> str:
    if scrape is None:
        return "not yet"
    if scrape["ok"]:
        return f"good, {words.left(scrape['age'])} ago"
    why = words.said(words.FAILURES, scrape["reason"] or "failed")
    return f"{why}, {words.left(scrape['age'])} ago: {scrape['detail'] or 'no more is known'}"


def _line(name: str, text: str) -> str:
    return f"  {name:<13}{text}"


def _account(target: Data, explanation: Data) -> list[str]:
    """Return a row per signal, one per other cause that costs points, and the sum."""
    rows = [TITLES, *(_signal(each) for each in explanation["signals"])]
    lines = _table(rows, list(_other_causes(explanation)))
    score = "not known" if target["score"] is None else f"{target['score']:.1f}"
    return [
        *lines,
        f"  score = 100 - {_total(explanation)}".ljust(len(lines[0]) - len(score)) + score,
    ]


def _total(explanation: Data) -> str:
    rows = (*explanation["signals"], *explanation["caps"])
    total = sum(row["points_lost"] for row in rows)
    return f"{total + explanation['saturation'] + explanation['held_back']:.1f}"


def _other_causes(explanation: Data) -> Iterator[tuple[str, str, str]]:
    """Yield (title, sentence, points) of what is no signal and costs points."""
    causes = [(Cause.SATURATION, "said lately that it is full", explanation["saturation"])]
    causes += [(Cause.CAP, cap["text"], cap["points_lost"]) for cap in explanation["caps"]]
    held_back = f"rises at most {explanation['rise_limit']:g} points a second"
    causes.append((Cause.WARMUP, held_back, explanation["held_back"]))
    for cause, text, points in causes:
        if points >= VISIBLE or cause is Cause.CAP:
            yield words.said(words.CAUSES, cause), text, _lost(points)


def _signal(row: Data) -> list[str]:
    name, curve = SignalName(row["signal"]), row["curve"]
    return [
        words.said(words.CAUSES, name),
        _value(name, row),
        "-" if row.get("age") is None else words.left(row["age"]),
        row.get("source") or "-",
        words.curve(name, curve["shape"], curve["knee"], curve["ceiling"]),
        f"{row['weight']:.2f}",
        _lost(row["points_lost"]),
    ]


def _value(name: SignalName, row: Data) -> str:
    if "unavailable" in row:
        return f"n/a: {words.said(words.GAPS, row['unavailable'])}"
    return "no traffic" if row["value"] is None else words.VALUES[name](row["value"])


def _lost(points: float) -> str:
    return f"{points:.1f}" if points >= VISIBLE else "0"


def _remedies(explanation: Data) -> list[str]:
    return _aligned(
        [[words.gain(each["points"]), each["text"]] for each in explanation["remedies"]]
    )


def _stories(told: Iterable[tuple[Data, Story]]) -> list[str]:
    """Return a line per event: when, what, and more about it."""
    rows = [[_time(event["at"]), story.text, *story.details] for event, story in told]
    width = max(map(len, rows), default=0)
    return _aligned([row + [""] * (width - len(row)) for row in rows])


def _time(at: str) -> str:
    return f"{at[:10]} {at[11:19]} UTC"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    widths = _widths(rows)
    return ["  " + GAP.join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _table(rows: Sequence[Sequence[str]], causes: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return the account: rows in columns, then causes, whose sentences span the columns."""
    widths = _widths(rows)
    widths[0] = max(widths[0], *(len(title) for title, _, _ in causes), 0)
    room = len(GAP.join("".ljust(width) for width in widths[1:-1]))
    longest = max((len(sentence) for _, sentence, _ in causes), default=0)
    widths[CURVE] += max(0, longest - room)
    room = max(room, longest)
    lines = []
    for row in rows:
        left = map(str.ljust, row[:NUMBERS], widths)
        right = map(str.rjust, row[NUMBERS:], widths[NUMBERS:])
        lines.append("  " + GAP.join((*left, *right)))
    for title, sentence, points in causes:
        cells = (title.ljust(widths[0]), sentence.ljust(room), points.rjust(widths[-1]))
        lines.append("  " + GAP.join(cells))
    return lines
