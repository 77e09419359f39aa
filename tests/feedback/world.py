"""A registry with targets that nobody scrapes, and feedback for them."""

from types import MappingProxyType

from scorer.addresses import parse_address
from scorer.clocks import Clocks
from scorer.config import parse_config
from scorer.core.snapshot import PoolView, SignalView
from scorer.core.vocabulary import SignalName
from scorer.discovered import DiscoveredTarget, Found
from scorer.feedback import Feedback, Refused
from scorer.inflight import InFlight
from scorer.registry import Registry
from tests.http.builders import pool as pool_view
from tests.http.builders import target as target_view

A, B, C = "10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"
WALL = 1_790_000_000.0


class World:
    """Two pools: ``chat`` with A and B, ``code`` with B and C; a clock that is set by hand."""

    def __init__(self, feedback: str = "{}", folder: str = "") -> None:
        text = f"feedback: {feedback}\npools:\n" + "".join(
            f"  - {{name: {name}, static_configs: [{{targets: ['{first}', '{second}']}}]}}\n"
            for name, first, second in (("chat", A, B), ("code", B, C))
        )
        self.now = 100.0
        self.config = parse_config(text, folder)
        self.registry = Registry()
        found = {
            each.name: Found(
                tuple(DiscoveredTarget(parse_address(name)) for name in each.static_targets())
            )
            for each in self.config.pools
        }
        self.registry.apply(self.config.pools, found, self.now)
        self.inflight = InFlight()
        clocks = Clocks(lambda: self.now, lambda: WALL)
        self.feedback = Feedback(self.registry, self.inflight, clocks)
        self.feedback.use(self.config.feedback)

    @property
    def stats(self):
        """The counts of feedback."""
        return self.feedback.stats

    def pick(self, pick_id="p1", name=A, pool="chat", tokens=500):
        """Open a lease, as a pick does."""
        view = target_view(name, pool)
        self.inflight.open(pool, view, pick_id, float(tokens), tokens, self.now)

    def take(self, raw=None, *, dry_run=False, logged=False, **fields):
        """Return what came of an item."""
        return self.feedback.take(fields if raw is None else raw, dry_run=dry_run, logged=logged)

    def outcomes(self, pool="chat"):
        """Empty a pool's inbox; return its outcomes by target, in their order."""
        inbox = self.registry.pools[pool].inbox
        found = [(health.id.target, outcome) for health, outcome in inbox]
        inbox.clear()
        return found

    def outcome(self, raw=None, **fields):
        """Return the one outcome of an item for pool ``chat``."""
        taken = self.take(raw, **fields)
        assert not isinstance(taken, Refused), taken
        [(_, outcome)] = self.outcomes()
        return outcome

    def error(self, raw=None, **fields):
        """Return the message that an item is refused with."""
        taken = self.take(raw, **fields)
        assert isinstance(taken, Refused), taken
        return taken.message

    def publish(self, name=A, waiting=0.0, kv_cache=0.0):
        """Publish a view of pool ``chat`` with one target's last numbers."""
        signals = dict.fromkeys(SignalName, SignalView(0.0))
        signals[SignalName.QUEUE] = SignalView(waiting)
        signals[SignalName.KV_CACHE] = SignalView(kv_cache)
        view: PoolView = pool_view(target_view(name, signals=MappingProxyType(signals)))
        self.registry.publish(view)
