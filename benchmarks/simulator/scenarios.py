"""The scenarios: engines, requests, and which policies meet there.

Rates are requests a second for the whole pool. A scenario has one or more *points*, such as
scrape intervals or pool sizes; all policies of a point get the same requests.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from benchmarks.simulator.baselines import (
    Clairvoyant,
    EndpointPicker,
    LeastConnections,
    LeastKv,
    LeastPrefill,
    Random,
    RoundRobin,
    TwoChoices,
)
from benchmarks.simulator.engine import PREFIX_BLOCK, SimEngine
from benchmarks.simulator.ours import Keyed, Ours, Plain, Sharing
from benchmarks.simulator.workloads import Request, Source, Trace, mixed, replayed
from benchmarks.simulator.world import Outage, Policy, Setting
from scorer.demo.cost import (
    A100,
    H800,
    LLAMA_8B,
    QWEN_14B,
    Accelerator,
    CostModel,
    Model,
    cost_model,
    kv_tokens,
)
from scorer.demo.engine import Limits

A100_SIZE, H800_SIZE = (2048, 256), (8192, 1024)
"""Tokens and sequences of a step."""
Make = Callable[[], Policy]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of engine: cost and sizes; ``prefixes`` blocks of prefix cache."""

    cost: CostModel
    limits: Limits
    prefixes: int = 0

    def __call__(self) -> SimEngine:
        """Return a new one, idle at second 0."""
        return SimEngine(self.cost, self.limits, 0.0, prefixes=self.prefixes)


def kind(model: Model, gpu: Accelerator, size: tuple[int, int], *, cached: bool = False) -> Kind:
    """Return the engine of a model on one GPU; ``cached``: with a prefix cache of its KV size."""
    tokens = kv_tokens(model)
    limits = Limits(step_tokens=size[0], sequences=size[1], kv_blocks=tokens // 16)
    return Kind(cost_model(model, gpu), limits, tokens // PREFIX_BLOCK if cached else 0)


A100_8B = kind(LLAMA_8B, A100, A100_SIZE)
H800_8B = kind(LLAMA_8B, H800, H800_SIZE)
A100_14B = kind(QWEN_14B, A100, A100_SIZE)


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a scenario: what is set, who asks, who decides."""

    label: str
    setting: Setting
    requests: Callable[[Source, int], list[Request]]
    policies: Sequence[Make]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A question that one or more points answer; in the quick run or only in the full one."""

    key: str
    title: str
    points: Sequence[Point]
    quick: bool = False


def pool(*kinds: tuple[int, Kind]) -> Callable[[], list[SimEngine]]:
    """Return what makes so many engines of each kind."""
    return lambda: [make() for count, make in kinds for _ in range(count)]


def conversations(source: Source, seed: int, rate: float, documents: float = 0.0) -> list[Request]:
    """Return ten minutes of conversations with a share of documents."""
    return asked(lambda source: source.conv, source, seed, rate, documents)


def asked(
    trace: Callable[[Source], Trace],
    source: Source,
    seed: int,
    rate: float,
    documents: float = 0.0,
    seconds: float = 600.0,
) -> list[Request]:
    """Return ``seconds`` of a trace at a rate, with a share of documents."""
    dice = random.Random(seed)
    requests = replayed(trace(source), rate, seconds, dice)
    return mixed(requests, source.documents, documents, dice) if documents else requests


BASELINES: tuple[Make, ...] = (
    RoundRobin,
    Random,
    LeastConnections,
    TwoChoices,
    LeastKv,
    partial(EndpointPicker, 0.05),
    partial(EndpointPicker, 1.0),
    LeastPrefill,
    Plain,
)
SCORERS: tuple[Make, ...] = (Ours, partial(Ours, 4), partial(Ours, "all"))
ALL = (*BASELINES, *SCORERS, Clairvoyant)
FEW: tuple[Make, ...] = (LeastConnections, LeastPrefill, Ours, Clairvoyant)
EIGHT = pool((8, A100_8B))
MIXED = pool((4, A100_8B), (4, H800_8B))


def doc1(source: Source, seed: int, rate: float = 19.5, seconds: float = 600.0) -> list[Request]:
    """Return conversations with one document in a hundred."""
    return asked(lambda each: each.conv, source, seed, rate, 0.01, seconds)


def _single(
    key: str,
    title: str,
    engines: Callable[[], list[SimEngine]],
    requests: Callable[[Source, int], list[Request]],
) -> Scenario:
    return Scenario(key, title, (Point("", Setting(engines), requests, ALL),), quick=True)


def _sweep() -> Scenario:
    points = []
    for interval in (0.1, 1.0, 2.0, 5.0, 15.0):
        makes = (
            LeastConnections,
            partial(EndpointPicker, interval),
            partial(Plain, 5.0, interval),
            partial(Ours, 2, interval),
        )
        points.append(Point(f"{interval:g} s", Setting(EIGHT), doc1, makes))
    return Scenario("S7", "S1 with older scrapes", tuple(points))


def _pickers() -> Scenario:
    points = [Point("1 daemon", Setting(EIGHT), doc1, (LeastConnections, Ours))]
    for count in (2, 4, 16):
        makes = (LeastConnections, partial(Ours, pickers=count), partial(Sharing, count))
        points.append(Point(f"{count} daemons", Setting(EIGHT), doc1, makes))
    title = "S1 with several daemons that see a part of the requests each"
    return Scenario("S8", title, tuple(points))


def _saturation() -> Scenario:
    points = []
    for rate in (25.0, 26.5, 28.0):
        setting = Setting(EIGHT, patience=10.0)
        requests = partial(doc1, rate=rate)
        points.append(Point(f"{rate:g}/s", setting, requests, (*FEW, Plain, RoundRobin)))
    title = "Near saturation: clients leave after 10 s and come back twice"
    return Scenario("S9", title, tuple(points))


def _pressure() -> Scenario:
    setting = Setting(pool((8, A100_14B)))
    documents = partial(conversations, rate=4.0, documents=0.1)
    points = [Point("10 % documents, 4/s", setting, documents, ALL)]
    for rate in (17.0, 18.5):
        requests = partial(asked, lambda source: source.reasoning, rate=rate)
        makes = (*FEW, Plain, RoundRobin, partial(EndpointPicker, 0.05))
        points.append(Point(f"reasoning, {rate:g}/s", setting, requests, makes))
    return Scenario("S10", "KV pressure: 8 × A100 14B", tuple(points))


def _sizes() -> Scenario:
    points = []
    for size in (4, 8, 16, 32, 128):
        seconds = 600.0 if size < 32 else 240.0
        requests = partial(doc1, rate=19.5 / 8 * size, seconds=seconds)
        setting = Setting(pool((size, A100_8B)), seconds=seconds)
        makes = (LeastConnections, Ours, partial(Ours, "all"))
        points.append(Point(f"{size} targets", setting, requests, makes))
    return Scenario("S11", "Pools of other sizes at the load of S1", tuple(points))


def _prefixes() -> Scenario:
    points = []
    for cached, rate in ((False, 2.3), (True, 2.3), (True, 3.2)):
        engines = pool((8, kind(LLAMA_8B, A100, A100_SIZE, cached=cached)))
        label = f"{rate:g}/s, prefix cache {'on' if cached else 'off'}"
        requests = partial(asked, lambda source: source.long, rate=rate)
        points.append(Point(label, Setting(engines), requests, (*FEW, Keyed)))
    return Scenario("S12", "Mooncake with its prefixes", tuple(points))


def scenarios() -> tuple[Scenario, ...]:
    """Return all of them, in order."""
    outage = Setting(EIGHT, outage=Outage(3, 240.0, 300.0, 330.0), patience=inf)
    return (
        _single("S1", "8 × A100 8B, conversations with 1 % documents, 19.5/s", EIGHT, doc1),
        _single(
            "S2", "4 × A100 and 4 × H800 8B, 1 % documents, 34.5/s", MIXED,
            partial(doc1, rate=34.5),
        ),
        _single(
            "S3", "8 × A100 8B, reasoning (short prompts, long answers), 27/s", EIGHT,
            partial(asked, lambda source: source.reasoning, rate=27.0),
        ),
        _single(
            "S4", "8 × A100 8B, conversations alone, 34/s", EIGHT,
            partial(conversations, rate=34.0),
        ),
        _single(
            "S5", "4 × A100 and 4 × H800 8B, long contexts, 4.1/s", MIXED,
            partial(asked, lambda source: source.long, rate=4.1),
        ),
        Scenario(
            "S6", "S1, one engine killed at 240 s, back at 300 s, at half speed until 330 s",
            (Point("", outage, doc1, (*FEW, Plain, RoundRobin)),),
        ),
        _sweep(),
        _pickers(),
        _saturation(),
        _pressure(),
        _sizes(),
        _prefixes(),
    )  # fmt: skip
