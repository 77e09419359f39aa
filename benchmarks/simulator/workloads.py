"""What is asked: real traces by path, and a generator of our own that needs no download.

A workload is a list of requests in order of arrival. A trace is replayed from a place
that the seed chooses, as a ring, with its gaps scaled to the asked rate: bursts stay bursts.
``docP`` replaces P % of the requests by long documents.
"""

import csv
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

DOCUMENT = 16_000
"""Tokens above which a prompt is a document."""
LONGEST = 128_000
FEWEST = 5_000
"""Requests that every trace has at least."""
JITTER = 3.0
"""Seconds to which Mooncake's times are rounded; each request is moved by up to as much."""


class Request(NamedTuple):
    """One request: arrival in seconds, tokens of prompt and answer, hashes of its prefix."""

    at: float
    prompt: int
    output: int
    prefix: tuple[int, ...] = ()


Lengths = tuple[int, int, tuple[int, ...]]


class TraceError(Exception):
    """A trace that cannot be read: which file and line, and why."""


class Trace(NamedTuple):
    """Arrivals in seconds from 0, the lengths of each, and how long it lasts."""

    arrivals: Sequence[float]
    lengths: Sequence[Lengths]
    seconds: float


@cache
def azure(path: Path) -> Trace:
    """Read an Azure 2023 trace: CSV of time, context and generated tokens."""
    return _trace(path, _rows(path, _azure))


@cache
def mooncake(path: Path) -> Trace:
    """Read a Mooncake trace: JSON lines with milliseconds, lengths and hashes."""
    dice = random.Random(0)
    rows = [
        (at + dice.random() * JITTER, lengths) for at, lengths in _rows(path, _mooncake, head=False)
    ]
    return _trace(path, sorted(rows, key=lambda each: each[0]))


@cache
def servegen(path: Path) -> Trace:
    """Read a sampled ServeGen trace: CSV of seconds, input and output tokens."""
    return _trace(path, _rows(path, _servegen))


Row = tuple[float, Lengths]
"""When a request came, in seconds, and its lengths."""


def _azure(row: Mapping[str, Any]) -> Row:
    at = datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
    return at, _lengths(row["ContextTokens"], row["GeneratedTokens"])


def _mooncake(row: Mapping[str, Any]) -> Row:
    lengths = _lengths(row["input_length"], row["output_length"], tuple(row["hash_ids"]))
    return row["timestamp"] / 1000, lengths


def _servegen(row: Mapping[str, Any]) -> Row:
    return float(row["timestamp_s"]), _lengths(row["input_tokens"], row["output_tokens"])


def _rows(path: Path, read: Callable[[Mapping[str, Any]], Row], *, head: bool = True) -> list[Row]:
    """Return the rows of a CSV file (with a ``head``) or of JSON lines; raises TraceError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise TraceError(f"{path} cannot be read: {reason}") from error
    lines = text.splitlines()
    names = next(csv.reader(lines[:1]), []) if head else []
    rows = []
    for number, line in enumerate(lines[head:], 1 + head):
        try:
            row = (
                dict(zip(names, next(csv.reader([line])), strict=True))
                if head
                else json.loads(line)
            )
            rows.append(read(row))
        except (KeyError, TypeError, ValueError, StopIteration) as error:
            what = f"no {error}" if isinstance(error, KeyError) else error
            raise TraceError(f"{path}, line {number} is no request: {what}") from error
    if not rows:
        raise TraceError(f"{path} holds no request")
    return rows


def _lengths(prompt: str | int, output: str | int, prefix: tuple[int, ...] = ()) -> Lengths:
    return min(max(1, int(prompt)), LONGEST), max(1, int(output)), prefix


def _trace(path: Path, rows: Sequence[Row]) -> Trace:
    times = [at for at, _ in rows]
    if sorted(times) != times or times[0] == times[-1]:
        raise TraceError(f"{path}: its requests are not in the order of their times")
    return _timed(times, [lengths for _, lengths in rows])


def _timed(times: Sequence[float], lengths: Sequence[Lengths]) -> Trace:
    start = times[0]
    return Trace([at - start for at in times], lengths, (times[-1] - start) * (1 + 1 / len(times)))


Draw = Callable[[random.Random], Lengths]


def _made(draw: Draw, seconds: float = 3600.0, rate: float = 5.0, swing: float = 0.35) -> Trace:
    """Return a trace of our own: Poisson arrivals whose rate swings over minutes and bursts."""
    dice = random.Random(2024)
    arrivals, now = [], 0.0
    while now < seconds:
        wave = 1 + swing * math.sin(now / 97) + swing * math.sin(now / 17 + 1)
        now += dice.expovariate(rate * max(0.1, wave) * dice.choice((0.6, 1.0, 1.4)))
        arrivals.append(now)
    return _timed(arrivals, [draw(dice) for _ in arrivals])


def _chat(dice: random.Random) -> Lengths:
    """Half of the prompts are below 1,000 tokens, answers of about 200."""
    prompt = min(14_000, max(5, int(dice.lognormvariate(6.6, 0.95))))
    return prompt, min(1_000, max(5, int(dice.lognormvariate(4.9, 0.85)))), ()


def _thinking(dice: random.Random) -> Lengths:
    """Short prompts, answers of about 800 tokens, of 8,000 now and then."""
    prompt = min(30_000, max(5, int(dice.lognormvariate(6.0, 1.1))))
    return prompt, min(16_000, max(20, int(dice.lognormvariate(6.3, 0.85)))), ()


def _document(dice: random.Random) -> Lengths:
    """16K tokens and up, a few beyond 100K."""
    prompt = min(LONGEST, int(DOCUMENT * dice.paretovariate(1.6)))
    return prompt, min(2_000, max(5, int(dice.lognormvariate(5.5, 0.7)))), ()


def _reading(dice: random.Random) -> Lengths:
    """Long contexts of many turns: median 7K tokens, a quarter documents."""
    prompt = min(LONGEST, max(200, int(dice.lognormvariate(8.9, 1.0))))
    return prompt, min(2_000, max(5, int(dice.lognormvariate(5.5, 0.7)))), ()


def shared_prefixes(dice: random.Random, rate: float, seconds: float = 600.0) -> list[Request]:
    """Return Poisson arrivals of which nine in ten begin with one of five prompts of 8K tokens.

    One in a hundred is a new document, the rest are new prompts of ordinary length.
    """
    requests, now, block = [], 0.0, 1000
    while (now := now + dice.expovariate(rate)) < seconds:
        kind = dice.random()
        if kind < 0.9:
            first = dice.randrange(5) * 16
            prompt, prefix = 16 * 512 + dice.randint(200, 1000), tuple(range(first, first + 16))
        else:
            prompt = dice.randint(16_000, 60_000) if kind > 0.99 else dice.randint(500, 6000)
            prefix = tuple(range(block, block + prompt // 512))
            block += prompt // 512
        requests.append(Request(now, prompt, dice.randint(50, 300), prefix))
    return requests


class Source(NamedTuple):
    """The traces to draw from, and documents to mix in."""

    conv: Trace
    reasoning: Trace
    long: Trace
    documents: Sequence[Lengths]
    name: str


@cache
def source(folder: Path | None) -> Source:
    """Return the traces of a folder; without one those that are generated.

    Raises TraceError for a folder or file that cannot be read.
    """
    if folder is None:
        documents = [_document(dice) for dice in [random.Random(7)] for _ in range(2000)]
        return Source(_made(_chat), _made(_thinking), _made(_reading), documents, "generated")
    if not folder.is_dir():
        raise TraceError(f"{folder} is no folder")
    long = _whole(folder / "mooncake_conversation.jsonl", mooncake)
    conv = _whole(folder / "azure_2023_conv.csv", azure)
    reasoning = _whole(folder / "servegen_deepseek-r1_1h_sampled.csv", servegen)
    documents = [each for each in long.lengths if each[0] > DOCUMENT]
    name = (
        f"Azure 2023 conversations ({len(conv.arrivals):,}), Mooncake conversations "
        f"({len(long.arrivals):,}), ServeGen DeepSeek-R1 ({len(reasoning.arrivals):,})"
    )
    return Source(conv, reasoning, long, documents, name)


def _whole(path: Path, read: Callable[[Path], Trace]) -> Trace:
    """Return a trace that is long enough to be more than the same few requests again and again."""
    trace = read(path)
    if len(trace.arrivals) < FEWEST:
        raise TraceError(
            f"{path} is cut off: it holds {len(trace.arrivals)} requests, fewer than {FEWEST:,}"
        )
    return trace


def replayed(trace: Trace, rate: float, seconds: float, dice: random.Random) -> list[Request]:
    """Return ``seconds`` of a trace at a mean ``rate``, from a place that the dice choose."""
    count = len(trace.arrivals)
    stretch = (count / trace.seconds) / rate
    index = dice.randrange(count)
    begin, laps, requests = trace.arrivals[index], 0.0, []
    while (at := (trace.arrivals[index] + laps - begin) * stretch) < seconds:
        requests.append(Request(at, *trace.lengths[index]))
        index += 1
        if index == count:
            index, laps = 0, laps + trace.seconds
    return requests


def mixed(
    requests: Sequence[Request], documents: Sequence[Lengths], share: float, dice: random.Random
) -> list[Request]:
    """Return the requests with a ``share`` of them replaced by documents."""
    return [
        Request(each.at, *dice.choice(documents)) if dice.random() < share else each
        for each in requests
    ]
