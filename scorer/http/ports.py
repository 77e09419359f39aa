"""What the HTTP interface needs from the rest of the daemon, as one frozen object.

The daemon builds it; tests build their own. Nothing here is imported from the
scheduler, the cycle or the exporters, so the interface renders what it is handed and
knows no more.
"""

import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from scorer.clocks import Clocks
from scorer.core.snapshot import Snapshot
from scorer.decisions import Decisions
from scorer.discovered import ListedTarget
from scorer.feedback import Feedback
from scorer.http_stats import HttpStats
from scorer.inflight import InFlight
from scorer.operators import Operators
from scorer.output_stats import OutputStats
from scorer.pick_stats import PickStats
from scorer.rates import PickRates
from scorer.registry import Registry
from scorer.trends import Trends

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

Exposition = Callable[[str, Sequence[str]], tuple[Sequence[tuple[str, str]], bytes]]
"""``(accept, names) -> (headers, body)`` of ``/metrics``; ``names`` are the values of
``name[]``, empty for all metrics. May be called from several threads."""


class Dice(Protocol):
    """Source of chance, such as :class:`random.Random`."""

    def random(self) -> float:
        """Return a float from 0, included, to 1, not included."""


ListedTargets = Callable[[str], Sequence[ListedTarget] | None]
"""``(pool) -> its targets``, None when there is no such pool; called from several threads."""


EnvoyEds = Callable[[bytes], tuple[int, str]]
"""``(body of a discovery request) -> (status, body)``; called from several threads."""


Subscribe = Callable[[Callable[[], None]], None]
"""Has a function called after each publication, from the thread that publishes."""


def nothing_published(_: Callable[[], None]) -> None:
    """Publish nothing."""


def fine() -> None:
    """Know no problem."""


def no_discovery(_: bytes) -> tuple[int, str]:
    """Tell Envoy nothing."""
    return 403, "This daemon tells Envoy nothing."


def no_pool(_: str) -> None:
    """Know no pool."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The daemon as the HTTP interface sees it.

    ``snapshot`` returns the published view, without waiting. ``ready`` returns None,
    or a sentence saying why the daemon is not ready, ``alive`` the same of why it needs
    to be started again. ``exposition`` renders ``/metrics``. ``listed`` returns what
    discovery knows of a pool. ``subscribe`` tells of publications. ``envoy_eds``
    answers Envoy's discovery of endpoints. ``dice`` is used on the event loop only.
    ``served`` counts requests, ``outputs`` what others pull. ``reload``
    loads the configuration again and says whether it was applied, None where nobody may ask
    for that; ``document`` returns it as its file has it.
    """

    snapshot: Callable[[], Snapshot]
    inflight: InFlight
    stats: PickStats
    ready: Callable[[], str | None]
    exposition: Exposition
    dice: Dice
    version: str
    clocks: Clocks = field(default_factory=Clocks)
    listed: ListedTargets = no_pool
    subscribe: Subscribe = nothing_published
    envoy_eds: EnvoyEds = no_discovery
    decisions: Decisions = field(default_factory=Decisions)
    alive: Callable[[], str | None] = fine
    feedback: Feedback = field(default_factory=lambda: Feedback(Registry(), InFlight(), Clocks()))
    operators: Operators = field(default_factory=lambda: Operators(Registry(), Clocks()))
    served: HttpStats = field(default_factory=HttpStats)
    outputs: OutputStats = field(default_factory=OutputStats)
    reload: Callable[[], bool] | None = None
    document: Callable[[], dict[str, Any]] = dict
    trends: Trends = field(default_factory=Trends)
    rates: PickRates = field(default_factory=lambda: PickRates(InFlight().count, time.monotonic))
