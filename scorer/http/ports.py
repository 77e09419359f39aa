"""What the HTTP interface needs from the rest of the daemon, as one frozen object.

The daemon builds it; tests build their own. Nothing here is imported from the
scheduler, the cycle or the exporters, so the interface renders what it is handed and
knows no more.
"""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scorer.clocks import Clocks
from scorer.core.pick import Dice
from scorer.core.snapshot import Snapshot
from scorer.inflight import InFlight
from scorer.pick_stats import PickStats

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

Exposition = Callable[[str, str, Sequence[str]], tuple[Sequence[tuple[str, str]], bytes]]
"""``(accept, accept_encoding, names) -> (headers, body)`` of ``/metrics``; ``names``
are the values of ``name[]``, empty for all metrics. May be called from several threads."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The daemon as the HTTP interface sees it.

    ``snapshot`` returns the published view, without waiting. ``ready`` returns None,
    or a sentence saying why the daemon is not ready. ``exposition`` renders
    ``/metrics``. ``dice`` is used on the event loop only.
    """

    snapshot: Callable[[], Snapshot]
    inflight: InFlight
    stats: PickStats
    ready: Callable[[], str | None]
    exposition: Exposition
    dice: Dice
    version: str
    clocks: Clocks = field(default_factory=Clocks)
