"""What survives a restart of the daemon of one target, as plain JSON types, and back.

Three kinds of memory age differently. What was *seen* (score, EWMAs, windows, the counters
of the last page) is believed for a minute. What was *decided* (cooldowns, an operator's
drain) lasts as long as was decided. What was *learned* of a target's speed is kept by who
keeps loads. Our own counters start over: a counter that comes back a little lower than it
was reads as a reset.

A target that is recalled was not scraped yet. It keeps score and state of before until a
scrape tells more, and the counters tell whether its engine was restarted meanwhile.
"""

import math
from collections import deque
from typing import Any

from scorer.core.contact import Contact
from scorer.core.cooldown import LONGEST, MOST_DOUBLINGS, Cooldown, CooldownReason
from scorer.core.deltas import CounterDelta, HistogramDelta, OutcomeDelta, SeriesMemory
from scorer.core.ewma import TtftEwma
from scorer.core.failing import Failing
from scorer.core.health import BELIEVED_FOR, Ramp, Reported, TargetHealth
from scorer.core.lost import Held, SignalWatch
from scorer.core.overrides import Override
from scorer.core.plain import (
    COUNTERS,
    FLAG,
    LONGEST_AGE,
    LONGEST_TEXT,
    TEXT,
    Form,
    NotPlainError,
    by_word,
    fields,
    made,
    moment,
    number,
    optional,
    record,
    row,
    several,
    step,
    whole,
    word,
)
from scorer.core.progress import ProgressWatch
from scorer.core.samples import EngineSamples, Histogram, Outcomes, Reading
from scorer.core.sourced import Source, SourcedOutcomes, SourcedTtft
from scorer.core.vocabulary import Engine, Gap, Reason, SignalName, State
from scorer.core.window import OutcomeWindow

VERSION = 1
"""Version of the form; another one is not read."""
MOST_SECONDS = 3_600
"""Length of a window; the configuration allows less."""
MOST_NAMES = 1024
MOST_WAYS = 16
"""Ways in which an engine counts failures."""

_PAST = moment()
_AHEAD = moment(future=True)
_AMOUNT = number(0.0)
_GAP = optional(word(Gap))
_COUNT = whole(0, 10**9)
_NAMES = several(TEXT, MOST_NAMES)

_NOTE: Form[str] = Form(lambda note, now: TEXT.write(note[:LONGEST_TEXT], now), TEXT.read)

_END: Form[float] = Form(
    lambda until, now: None if until == math.inf else _AHEAD.write(until, now),
    lambda data, then: math.inf if data is None else _AHEAD.read(data, then),
)
"""When a decision ends, which may be never."""

_OVERRIDE = record(Override, since=_PAST, until=_END, note=_NOTE)
_COOLDOWN = record(
    Cooldown,
    began_at=optional(_PAST),
    until=_AHEAD,
    reason=optional(word(CooldownReason)),
    by_hand=optional(_OVERRIDE),
    refused_at=optional(_PAST),
    length=number(0.0, LONGEST),
    episode=whole(0, MOST_DOUBLINGS),
    penalty_ends=optional(_AHEAD),
)
_READING = record(Reading, value=optional(_AMOUNT), gap=_GAP)
_SAMPLES = record(
    EngineSamples,
    engine=word(Engine),
    mapping=TEXT,
    version=TEXT,
    running=_READING,
    waiting=_READING,
    kv_cache=_READING,
    ttft=record(Histogram, gap=_GAP),
    outcomes=record(Outcomes, gap=_GAP),
    preemptions=_READING,
    paused=_READING,
    capacity=_READING,
    start_time=optional(number()),
    asleep=optional(FLAG),
    model_names=made(_NAMES, tuple),
    loras=made(_NAMES, frozenset),
)


def _buckets(rows: list[tuple[int, float, float]]) -> deque[tuple[int, float, float]]:
    seconds = [second for second, _, _ in rows]
    if sorted(set(seconds)) != seconds or any(failed > outcomes for _, failed, outcomes in rows):
        raise NotPlainError("must be seconds in their order, with failures among the outcomes")
    return deque(rows)


def _histogram_delta(values: dict[str, Any]) -> HistogramDelta:
    counts, sums = (values[name]._last or {} for name in ("_counts", "_sums"))  # noqa: SLF001
    if counts.keys() != sums.keys():
        raise NotPlainError("must have a sum for each count")
    return HistogramDelta(**values)


def _series_memory(values: dict[str, Any]) -> SeriesMemory:
    return SeriesMemory(_last=values["_last"], _overflowed=values["lacking"])


_WINDOW = record(
    OutcomeWindow,
    length=whole(1, MOST_SECONDS),
    _buckets=made(several(row(step(1.0), _AMOUNT, _AMOUNT), MOST_SECONDS), _buckets),
)
_EWMA = record(TtftEwma, value=optional(_AMOUNT), observed_at=optional(_PAST), _moved_at=_PAST)
_SERIES = made(fields(_last=optional(COUNTERS), lacking=FLAG), _series_memory)
"""The last page; of series that were on an earlier one only that there were some."""
_COUNTER_DELTA = record(CounterDelta, _memory=_SERIES)
_WAYS = several(row(whole(0, MOST_WAYS), _COUNTER_DELTA), MOST_WAYS)
_OUTCOME_DELTA = record(
    OutcomeDelta,
    _failures=Form(
        lambda ways, now: _WAYS.write(ways.items(), now),
        lambda data, then: dict(_WAYS.read(data, then)),
    ),
    _successes=_COUNTER_DELTA,
    _saturations=_COUNTER_DELTA,
)
_SEEN = fields(
    score=number(0.0, 100.0),
    judged_at=_PAST,
    ramp=optional(record(Ramp, began_at=_PAST, reason=word(Reason))),
    state=word(State),
    reason=word(Reason),
    since=_PAST,
    samples=optional(_SAMPLES),
    reported=optional(
        record(Reported, waiting=optional(_AMOUNT), kv_cache=optional(_AMOUNT), at=_PAST)
    ),
    ttft=record(SourcedTtft, _ewmas=by_word(Source, _EWMA)),
    outcomes=record(
        SourcedOutcomes, length=whole(1, MOST_SECONDS), _windows=by_word(Source, _WINDOW)
    ),
    failing=record(
        Failing,
        since=optional(_PAST),
        in_row=_AMOUNT,
        last_success_at=optional(_PAST),
        _window=_WINDOW,
    ),
    watch=record(
        SignalWatch,
        _held=by_word(SignalName, record(Held, value=_AMOUNT, at=_PAST)),
        _missed=by_word(SignalName, _COUNT),
    ),
    contact=record(
        Contact, failed_in_row=_COUNT, refused=_COUNT, refused_at=_PAST, unheard=_AMOUNT
    ),
    progress=record(ProgressWatch, alive_at=optional(_PAST), still_pages=_COUNT),
    loading_at=optional(_PAST),
    outcome_at=optional(_PAST),
    outcome_gap=_AMOUNT,
    success_at=optional(_PAST),
    _falling_since=optional(_PAST),
    _ttft_delta=made(fields(_counts=_SERIES, _sums=_SERIES), _histogram_delta),
    _outcome_delta=_OUTCOME_DELTA,
    _progress_delta=_COUNTER_DELTA,
)
_DECIDED = fields(cooldown=_COOLDOWN, drain=optional(_OVERRIDE))


def remember(health: TargetHealth, now: float, *, allowance: float = 0.0) -> dict[str, Any]:
    """Return what survives of a target, as JSON types.

    ``allowance`` is the seconds that the largest prompt under way may take: requests under
    way do not survive, so an engine that stands still for one starts over being watched.
    What was seen is left out when there was no score, or when it is too much to keep.
    """
    kept: dict[str, Any] = {"version": VERSION, "seen": None, "vouched": False}
    kept.update(_DECIDED.write(health, now))
    if health.score is None or health.judged_at is None:
        return kept
    try:
        kept["seen"] = _SEEN.write(health, now)
    except NotPlainError:
        return kept
    if not health.progress.frozen(now, allowance):
        kept["seen"]["progress"] = {"alive_at": None, "still_pages": 0}
    seen = health.good_scrapes > 0 or health.alive_by_feedback(now)
    kept["vouched"] = seen or health.eligible_before(now)
    return kept


def recall(data: object, health: TargetHealth, elapsed: float) -> bool:
    """Give a target that is just known what was remembered ``elapsed`` seconds ago.

    Returns whether ``data`` could be understood; if not, the target is left as it was. A
    negative ``elapsed`` is a clock that was set back: nobody knows how long ago that was,
    so what was seen is not believed, and what was decided has its whole time left.
    """
    then = health.known_at - min(LONGEST_AGE, max(0.0, elapsed))
    try:
        decided, vouched, seen = _read(data, then)
    except NotPlainError:
        return False
    _set(health, decided)
    health.cooldown.counted_from = health.known_at
    believed = seen is not None and health.known_at - seen["judged_at"] <= BELIEVED_FOR
    if seen is not None and believed and elapsed >= 0.0:
        _set(health, seen)
        health.outcomes.length = health.params.errors_window
        health.ttft.hold(health.known_at)
        health.vouched, health.late = vouched, False
    return True


def _set(health: TargetHealth, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(health, name, value)


def _read(data: object, then: float) -> tuple[dict[str, Any], bool, dict[str, Any] | None]:
    """Return what was decided, whether picks could return it, and what was seen."""
    if not isinstance(data, dict):
        raise NotPlainError("must be an object")
    rest = dict(data)
    whole(VERSION, VERSION).read(rest.pop("version", None), then)
    vouched = FLAG.read(rest.pop("vouched", None), then)
    seen = optional(_SEEN).read(rest.pop("seen", ()), then)
    decided = _DECIDED.read(rest, then)
    _check_cooldown(decided["cooldown"], then)
    return decided, vouched, seen


def _check_cooldown(cooldown: Cooldown, then: float) -> None:
    """Refuse a cooldown that no rule could have begun."""
    latest = then + LONGEST + 1e-6
    if (cooldown.began_at is None) != (cooldown.reason is None):
        raise NotPlainError("must have a reason where it has a beginning")
    if cooldown.until > latest or (cooldown.penalty_ends or then) > latest:
        raise NotPlainError(f"must end within {LONGEST:g} seconds")
