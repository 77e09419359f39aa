"""Gateways at work: read each on its schedule, hand what it counted to the pools.

A gateway that cannot be read costs no target anything: after 30 s without news the next
source of TTFT is believed. It is told in the log, once per change.
"""

from collections.abc import Callable, Mapping
from typing import Any

import structlog

from scorer.core.gateway import GatewayReading
from scorer.core.health import TargetHealth
from scorer.core.samples import ScrapeFailed
from scorer.registry import Pool
from scorer.sources.gateway import GatewaySource, TargetIndex, addressed
from scorer.sources.gateway_page import Named

logger = structlog.stdlib.get_logger(__name__)

MOST_STRANGERS = 100
"""Names of no target that are told in the log, per gateway."""


class GatewayJob:
    """Reads one gateway and leaves its readings in the inboxes of the pools concerned.

    ``pools`` gives the pools by name at the time; ``pool`` is the only one that the
    gateway serves, None for every one.
    """

    def __init__(
        self,
        name: str,
        source: GatewaySource,
        pools: Callable[[], Mapping[str, Pool]],
        pool: str | None,
        clock: Callable[[], float],
    ) -> None:
        self._name = name
        self._source = source
        self._pools = pools
        self._pool = pool
        self._clock = clock
        self._trouble = ""
        self._strangers: set[str] = set()
        self._indexes: dict[str, tuple[object, TargetIndex[TargetHealth]]] = {}

    def run(self) -> None:
        """Read once."""
        got = self._source.read(self._clock)
        if isinstance(got, ScrapeFailed):
            self._told(f"{got.reason}: {got.detail}", reason=str(got.reason), detail=got.detail)
            return
        gap = self._source.gap
        self._told("" if gap is None else str(gap), reason=str(gap), detail="it tells no TTFT")
        self._deliver(got)

    def _told(self, trouble: str, **facts: Any) -> None:  # noqa: ANN401 - log fields
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if trouble:
            logger.warning("Gateway cannot be read", gateway=self._name, **facts)
        else:
            logger.info("Gateway became readable", gateway=self._name)

    def _deliver(self, readings: Mapping[Named, GatewayReading]) -> None:
        pools = self._pools()
        indexes = {name: self._index(name, pool) for name, pool in pools.items()}
        for named, found in addressed(readings, indexes, self._pool):
            for name, health in found:
                pools[name].inbox.append((health, readings[named]))
            if not found:
                self._note_stranger(str(named))

    def _index(self, name: str, pool: Pool) -> TargetIndex[TargetHealth]:
        """Return the index of a pool's targets, made anew when they changed."""
        targets = pool.targets
        made_for, index = self._indexes.get(name, (None, None))
        if index is None or made_for is not targets:
            index = TargetIndex(targets)
            self._indexes[name] = (targets, index)
        return index

    def _note_stranger(self, named: str) -> None:
        if named not in self._strangers and len(self._strangers) < MOST_STRANGERS:
            self._strangers.add(named)
            logger.info("Gateway names what is no target", gateway=self._name, named=named)
