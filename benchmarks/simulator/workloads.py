"""What is asked: real traces by path, and a generator of our own that needs no download.

A workload is a list of requests in order of arrival. A trace is replayed from a place
that the seed chooses, as a ring, with its gaps scaled to the asked rate: bursts stay bursts.
``docP`` replaces P % of the requests by long documents.
"""

import csv
import json
import math
import random
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

DOCUMENT = 16_000
"""Tokens above which a prompt is a document."""
LONGEST = 128_000
JITTER = 3.0
"""Seconds to which Mooncake's times are rounded; each request is moved by up to as much."""


class Request(NamedTuple):
    """One request: arrival in seconds, tokens of prompt and answer, hashes of its prefix."""

    at: float
    prompt: int
    output: int
    prefix: tuple[int, ...] = ()


Lengths = tuple[int, int, tuple[int, ...]]


class Trace(NamedTuple):
    """Arrivals in seconds from 0, the lengths of each, and how long it lasts."""

    arrivals: Sequence[float]
    lengths: Sequence[Lengths]
    seconds: float


@cache
def azure(path: Path) -> Trace:
    """Read an Azure 2023 trace: CSV of time, context and generated tokens."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    times = [datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp() for row in rows]
    lengths = [_lengths(row["ContextTokens"], row["GeneratedTokens"]) for row in rows]
    return _trace(times, lengths)


@cache
def mooncake(path: Path) -> Trace:
    """Read a Mooncake trace: JSON lines with milliseconds, lengths and hashes."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    dice = random.Random(0)
    moved = [(row["timestamp"] / 1000 + dice.random() * JITTER, row) for row in rows]
    moved.sort(key=lambda each: each[0])
    lengths = [
        _lengths(row["input_length"], row["output_length"], tuple(row["hash_ids"]))
        for _, row in moved
    ]
    return _trace([at for at, _ in moved], lengths)


@cache
def servegen(path: Path) -> Trace:
    """Read a sampled ServeGen trace: CSV of seconds, input and output tokens."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    lengths = [_lengths(row["input_tokens"], row["output_tokens"]) for row in rows]
    return _trace([float(row["timestamp_s"]) for row in rows], lengths)


def _lengths(prompt: str, output: str, prefix: tuple[int, ...] = ()) -> Lengths:
    return min(max(1, int(prompt)), LONGEST), max(1, int(output)), prefix


def _trace(times: Sequence[float], lengths: Sequence[Lengths]) -> Trace:
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
    return _trace(arrivals, [draw(dice) for _ in arrivals])


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
    """Return the traces of a folder; without one those that are generated."""
    if folder is None:
        documents = [_document(dice) for dice in [random.Random(7)] for _ in range(2000)]
        return Source(_made(_chat), _made(_thinking), _made(_reading), documents, "generated")
    long = mooncake(folder / "mooncake_conversation.jsonl")
    documents = [each for each in long.lengths if each[0] > DOCUMENT]
    return Source(
        azure(folder / "azure_2023_conv.csv"),
        servegen(folder / "servegen_deepseek-r1_1h_sampled.csv"),
        long,
        documents,
        "Azure 2023 conversations, Mooncake conversations, ServeGen DeepSeek-R1",
    )


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
