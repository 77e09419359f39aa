"""What the jobs of a daemon work with, whichever they are."""

from typing import NamedTuple

from scorer.clocks import Clocks
from scorer.daemon_stats import DaemonStats
from scorer.inflight import InFlight
from scorer.registry import Registry
from scorer.scheduler import Scheduler


class Shared(NamedTuple):
    """The parts that there is one of, for everybody."""

    scheduler: Scheduler
    registry: Registry
    inflight: InFlight
    stats: DaemonStats
    clocks: Clocks
