"""What each ingredient of the pick buys: the shipped scorer with one thing left out.

Ingredients that have no setting are left out by replacing a constant or a function of the
shipped core while the run lasts; nothing else of the code differs.
"""

import random
from collections.abc import Mapping
from functools import partial
from math import inf

from benchmarks.simulator.baselines import LeastConnections
from benchmarks.simulator.ours import Keyed, Ours
from benchmarks.simulator.scenarios import (
    A100_SIZE,
    FEW,
    H800_SIZE,
    Point,
    Scenario,
    kind,
    pool,
    scenarios,
)
from benchmarks.simulator.workloads import Request, Source, shared_prefixes
from benchmarks.simulator.world import Flow, Setting
from scorer.demo.cost import A100, H800, LLAMA_8B

ABLATED = ("S1", "S2", "S6")


class Without(Ours):
    """The shipped scorer with constants of its core replaced."""

    def __init__(self, name: str, constants: Mapping[str, object]) -> None:
        """Replace ``constants`` as in :func:`benchmarks.simulator.ours.patched`."""
        super().__init__(name=name)
        self.constants = constants


class Untold(Ours):
    """A gateway that reports nothing, or the ends of requests alone."""

    def __init__(self, name: str, *, ends: bool) -> None:
        """Report ``ends`` or nothing."""
        super().__init__(name=name)
        self.ends = ends

    def first(self, flow: Flow, now: float) -> None:
        """Report no first token."""

    def _report(self, flow: Flow, now: float, **told: object) -> None:
        if self.ends:
            super()._report(flow, now, **told)


def _same_rate(rate: float, _seen: float, *, row: int) -> float:  # noqa: ARG001 - a stand-in
    return rate


SKEPTICAL = partial(
    Without, "rates beyond twice the known never learned", {"prefill__UNDOUBTED": inf}
)
SELFISH = partial(Without, "no regard for those that decode", {"pick__HARM": 0.0})
VARIANTS = (
    LeastConnections,
    partial(Ours, name="the rule as shipped"),
    partial(Ours, 4, name="four choices"),
    partial(Ours, "all", name="the cheapest of all"),
    partial(Ours, lengths=False, name="prompts count the same (penalty per request)"),
    partial(Without, "no cold set", {"pick__COLD_SECONDS": inf}),
    SELFISH,
    partial(Without, "no learned rates", {"load__learned": _same_rate}),
    SKEPTICAL,
    partial(Without, "wait not discounted by health", {"table__LEAST_SHARE": 1.0}),
    partial(Without, "no score at all", {"table__health_of": lambda _: 100.0}),
    partial(Ours, options=", warmup: {rise_limit: 1000}", name="no warm-up"),
    partial(Untold, "ends reported, no first tokens", ends=True),
    partial(Untold, "nothing reported", ends=False),
)


def _parts(scenario: Scenario) -> Scenario:
    points = [Point(p.label, p.setting, p.requests, VARIANTS) for p in scenario.points]
    return Scenario(f"A{scenario.key[1:]}", f"Ablations on {scenario.key}", tuple(points))


def _saturation(scenario: Scenario) -> Scenario:
    makes = (LeastConnections, partial(Ours, name="the rule as shipped"), SELFISH)
    points = [Point(p.label, p.setting, p.requests, makes) for p in scenario.points]
    return Scenario("A9", "Ablation on S9", tuple(points))


def _prefixes() -> Scenario:
    slow = kind(LLAMA_8B, A100, A100_SIZE, cached=True)
    fast = kind(LLAMA_8B, H800, H800_SIZE, cached=True)
    points = []
    for label, engines, rate in (
        ("8 × A100", pool((8, slow)), 19.5),
        ("4 × A100 and 4 × H800", pool((4, slow), (4, fast)), 32.0),
    ):
        requests = partial(_hot, rate=rate)
        points.append(Point(label, Setting(engines), requests, (*FEW, SKEPTICAL, Keyed)))
    title = "Learned rates where nine in ten prompts are mostly cached"
    return Scenario("A13", title, tuple(points))  # fmt: skip


def _hot(_: Source, seed: int, rate: float) -> list[Request]:
    return shared_prefixes(random.Random(seed), rate)


def ablations() -> tuple[Scenario, ...]:
    """Return one scenario for each that the rule is taken apart on."""
    found = {each.key: each for each in scenarios()}
    return (*(_parts(found[key]) for key in ABLATED), _saturation(found["S9"]), _prefixes())
