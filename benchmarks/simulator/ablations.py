"""What each ingredient of the pick buys: the shipped scorer with one thing left out.

Ingredients that have no setting are left out by replacing a constant or a function of the
shipped core while the run lasts; nothing else of the code differs.
"""

from collections.abc import Mapping
from functools import partial
from math import inf

from benchmarks.simulator.baselines import LeastConnections
from benchmarks.simulator.ours import Ours
from benchmarks.simulator.scenarios import Point, Scenario, scenarios
from benchmarks.simulator.world import Flow

ABLATED = ("S1", "S2", "S5", "S6")


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


def _same_rate(rate: float, _ahead: float, _seconds: float) -> float:
    return rate


VARIANTS = (
    LeastConnections,
    partial(Ours, name="the rule as shipped"),
    partial(Ours, 4, name="four choices"),
    partial(Ours, "all", name="the cheapest of all"),
    partial(Ours, lengths=False, name="prompts count the same (penalty per request)"),
    partial(Without, "no cold set", {"pick__COLD_SECONDS": inf}),
    partial(Without, "no learned rates", {"load__learned": _same_rate}),
    partial(Without, "wait not discounted by health", {"table__LEAST_SHARE": 1.0}),
    partial(Without, "no score at all", {"table__health_of": lambda _: 100.0}),
    partial(Ours, options=", warmup: {rise_limit: 1000}", name="no warm-up"),
    partial(Untold, "ends reported, no first tokens", ends=True),
    partial(Untold, "nothing reported", ends=False),
)


def ablations() -> tuple[Scenario, ...]:
    """Return one scenario for each that the rule is taken apart on."""
    found = {each.key: each for each in scenarios()}
    return tuple(
        Scenario(
            f"A{key[1:]}", f"Ablations on {key}",
            tuple(Point(p.label, p.setting, p.requests, VARIANTS) for p in found[key].points),
        )
        for key in ABLATED
    )  # fmt: skip
