"""Orders of operators: carried out on the memory of targets, and judged at once.

What an order leaves behind is part of what is remembered of a target, so it survives a
reload of the configuration; :mod:`scorer.core.absent` keeps it while the target is away.
"""

from collections.abc import Callable, Sequence

import structlog

from scorer.clocks import Clocks
from scorer.core.orders import Order, ends_at, obey
from scorer.core.snapshot import TargetView
from scorer.feedback.trust import ORDERS, Trust
from scorer.registry import Registry

logger = structlog.stdlib.get_logger(__name__)


def judge_later(_: str) -> None:
    """Leave a pool to its next regular judgement."""


class Operators:
    """Takes orders for the targets of a registry; any thread may hand one in.

    ``trust`` says from whom.
    """

    def __init__(
        self, registry: Registry, clocks: Clocks, judge: Callable[[str], None] = judge_later
    ) -> None:
        """Have ``judge`` judge and publish a pool, by name, once an order is carried out."""
        self._registry = registry
        self._clocks = clocks
        self._judge = judge
        self.use("")

    def use(self, token_file: str) -> None:
        """Take orders from whoever knows the token in a file, or from this machine."""
        self.trust = Trust(token_file, self._clocks.monotonic, ORDERS)

    def carry_out(
        self, order: Order, target: str, pools: Sequence[str], peer: str | None
    ) -> list[TargetView]:
        """Obey an order from ``peer`` in those of ``pools`` that have the target.

        Return the target as it is published afterwards, once per pool.
        """
        obeyed = [pool for pool in pools if self._obey(order, target, pool)]
        if not obeyed:
            return []
        for pool in obeyed:
            self._judge(pool)
        views = self._registry.snapshot.pools
        found = [
            view for pool in obeyed if pool in views
            for view in views[pool].targets if view.target == target
        ]  # fmt: skip
        self._log(order, target, found, peer)
        return found

    def _obey(self, order: Order, target: str, name: str) -> bool:
        pool = self._registry.pools.get(name)
        if pool is None:
            return False
        with pool.lock:
            health = pool.targets.get(target)
            if health is not None:
                obey(health, order, self._clocks.monotonic())
        return health is not None

    def _log(
        self, order: Order, target: str, found: Sequence[TargetView], peer: str | None
    ) -> None:
        """Write one line per order, however many pools have the target."""
        facts: dict[str, object] = {"pool": ",".join(view.pool for view in found)}
        ends = [at for view in found if (at := ends_at(view, order.verb)) is not None]
        if ends:
            facts["until"] = self._clocks.rfc3339(max(ends))
        if order.note:
            facts["note"] = order.note
        logger.info(
            "Operator's order carried out",
            target=target, order=str(order.verb), peer="unix" if peer is None else peer, **facts,
        )  # fmt: skip
