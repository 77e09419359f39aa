"""The shipped scorer as a policy: registry, cycle, score, in-flight, feedback and pick.

Nothing of it is written anew. Time is the simulation's, chance is seeded, scrapes are the
samples that the engine's page would be read as, and the gateway reports first tokens and
ends of requests through the feedback that ``POST /feedback`` hands items to.
"""

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import structlog

from benchmarks.simulator.baselines import Baseline
from benchmarks.simulator.pages import BOOT, Sampler
from benchmarks.simulator.world import Flow, World
from scorer.addresses import parse_address
from scorer.clocks import Clocks
from scorer.config import parse_config
from scorer.core.contact import FALL
from scorer.core.prefill import work
from scorer.core.sample import Ask
from scorer.core.samples import Page, Scrape, ScrapeFailed
from scorer.core.snapshot import PoolView
from scorer.core.vocabulary import ScrapeFailure
from scorer.cycle import Cycle
from scorer.decisions import Decisions
from scorer.discovered import DiscoveredTarget, Found
from scorer.feedback import Feedback
from scorer.inflight import InFlight
from scorer.picker import Picker
from scorer.pool_jobs import PATIENCE, TICK
from scorer.registry import Registry

POOL = "sim"
SCRAPE_TAKES = 0.005
SHARED_AFTER = 0.05
"""Seconds after which other daemons hear of a pick or a report, where they share them."""
KEY_BLOCKS = 2
"""Blocks of a prompt whose hash is its key: the first alone is the same system prompt for all."""
REFUSED = ScrapeFailed(ScrapeFailure.CONNECT, "connection refused", refused=True)

Watcher = Callable[[float, PoolView], None]


def quiet() -> None:
    """Let the scorer log nothing below an error: a simulation has thousands of changes."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


def names(size: int) -> list[str]:
    """Return the addresses of so many targets."""
    return [f"e{index}:8000" for index in range(size)]


class Brain:
    """One daemon: everything it has, on the simulation's clock."""

    def __init__(
        self, targets: list[str], options: str, interval: float, draw: Callable[[], float]
    ) -> None:
        """Know ``targets``, scraped at an ``interval``; ``options`` is more of the pool's YAML."""
        self.now = 0.0
        listed = ", ".join(f"'{name}'" for name in targets)
        text = f"pools: [{{name: {POOL}, static_configs: [{{targets: [{listed}]}}]{options}}}]"
        found = tuple(DiscoveredTarget(parse_address(name)) for name in targets)
        self.inflight = InFlight()
        self.registry = Registry()
        self.registry.apply(parse_config(text).pools, {POOL: Found(found)}, 0.0)
        self.pool = self.registry.pools[POOL]
        for health in self.pool.targets.values():
            health.patience = max(PATIENCE, FALL * interval + SCRAPE_TAKES)
        self.cycle = Cycle(self.pool, self.inflight, self.registry.publish, draw=draw)
        clocks = Clocks(lambda: self.now, lambda: BOOT + self.now)
        self.feedback = Feedback(self.registry, self.inflight, clocks)
        self.picker = Picker(self.inflight, Decisions(), draw)

    def scrape(self, target: str, result: Page | ScrapeFailed, now: float) -> None:
        """Take what a scrape found."""
        mark = self.inflight.mark(POOL, target, now)
        news = Scrape(result, now, now + SCRAPE_TAKES, mark.picks, mark)
        self.pool.inbox.append((self.pool.targets[target], news))

    def take(self, target: str, pick_id: str, tokens: int, now: float) -> None:
        """Take note of a pick of another daemon."""
        load = self.inflight.load(POOL, target)
        self.inflight.lease(load, pick_id, work(tokens), tokens, now)

    def report(self, item: dict[str, object], now: float) -> None:
        """Take what a gateway tells of a pick."""
        self.now = now
        self.feedback.take(item)

    def view(self) -> PoolView:
        """Return what is published."""
        return self.registry.snapshot.pools[POOL]


@dataclass(slots=True)
class Ticket:
    """Who picked, and under which id."""

    brain: Brain
    pick_id: str


class Ours(Baseline):
    """Picks of the daemon, or of several that share the requests."""

    def __init__(
        self,
        choices: int | str = 2,
        interval: float = 1.0,
        *,
        pickers: int = 1,
        lengths: bool = True,
        options: str = "",
        name: str = "",
    ) -> None:
        """Scrape every ``interval`` seconds, from ``pickers`` daemons.

        ``lengths``: the gateway tells how long a prompt is. ``options`` is more YAML of the pool.
        """
        self.interval = interval
        self.pickers = pickers
        self.lengths = lengths
        self.options = f", pick: {{choices: {choices}}}{options}"
        self.name = name or f"scorer, choices {choices}"
        self.watcher: Watcher | None = None

    def start(self, world: World) -> None:
        """Have targets scraped in turn, and judged between scrapes."""
        super().start(world)
        random.seed(world.seed)  # tables of more than eight rows are shuffled by it
        size = len(world.engines)
        self.targets = names(size)
        self.index = {name: index for index, name in enumerate(self.targets)}
        self._samplers = [Sampler(engine) for engine in world.engines]
        for place in range(self.pickers):
            draw = random.Random(world.seed * 31 + place).random
            brain = Brain(self.targets, self.options, self.interval, draw)
            self.brains = [*getattr(self, "brains", ()), brain] if place else [brain]
            phase = place / self.pickers * self.interval
            for index in range(size):
                offset = (self.interval * index / size + phase) % self.interval
                self._scrape_each(brain, index, offset)
            tick = min(TICK, self.interval)
            for each in range(size):
                self._scrape(brain, each, 0.0)
            self._judge(brain, 0.0)
            world.every(tick, tick, lambda now, brain=brain: self._judge(brain, now))

    def _scrape_each(self, brain: Brain, index: int, offset: float) -> None:
        first = offset or self.interval
        self.world.every(first, self.interval, lambda now: self._scrape(brain, index, now))

    def _scrape(self, brain: Brain, index: int, now: float) -> None:
        if self.world.alive[index]:
            page: Page | ScrapeFailed = self._samplers[index]()
        else:
            page = REFUSED
        brain.scrape(self.targets[index], page, now)

    def _judge(self, brain: Brain, now: float) -> None:
        brain.now = now
        view = brain.cycle.tick(now)
        if self.watcher is not None:
            self.watcher(now, view)

    def pick(self, flow: Flow, now: float) -> int:
        """Ask a daemon."""
        brain = (
            self.brains[self.dice.randrange(self.pickers)] if self.pickers > 1 else self.brains[0]
        )
        tokens = flow.request.prompt if self.lengths else None
        tried = frozenset(self.targets[index] for index in flow.tried)
        ask = Ask(tokens, tried, self.key(flow))
        chosen = brain.picker.pick(brain.view(), ask, now)
        if chosen is None:
            raise LookupError("every target was tried")
        choice, pick_id = chosen
        flow.ticket = Ticket(brain, pick_id)
        target, known = choice.row.target, flow.request.prompt
        self.tell(brain, now, lambda other, then: other.take(target, pick_id, known, then))
        return self.index[target]

    def key(self, flow: Flow) -> str:
        """Return the key that the gateway asks with: none."""
        return ""

    def tell(self, brain: Brain, now: float, call: Callable[[Brain, float], None]) -> None:
        """Have the other daemons hear of what one heard: they do not."""

    def first(self, flow: Flow, now: float) -> None:
        """Report the first token."""
        waited = now - flow.placed_at
        self._report(flow, now, event="first_token", status=200, ttft_seconds=waited)

    def done(self, flow: Flow, now: float) -> None:
        """Report a complete answer."""
        ttft, took = flow.first - flow.placed_at, now - flow.placed_at
        self._report(flow, now, status=200, ttft_seconds=ttft, duration_seconds=took)

    def aborted(self, flow: Flow, now: float) -> None:
        """Report that the client closed the request."""
        self._report(flow, now, status=499, duration_seconds=now - flow.placed_at)

    def failed(self, flow: Flow, now: float) -> None:
        """Report what the proxy answers for a connection that is refused or broken."""
        self._report(flow, now, status=502, duration_seconds=now - flow.placed_at)

    def _report(self, flow: Flow, now: float, **told: object) -> None:
        ticket = flow.ticket
        if not isinstance(ticket, Ticket):
            raise TypeError("a request that nobody picked")
        target = self.targets[flow.target]
        item = {"pick_id": ticket.pick_id, "target": target, **told}
        ticket.brain.report(item, now)
        self.tell(ticket.brain, now, lambda other, then: other.report(item, then))


class Sharing(Ours):
    """Daemons that tell each other their picks, and what is reported of them; nobody built it."""

    def __init__(self, pickers: int) -> None:
        """Scrape once a second, from ``pickers`` daemons."""
        name = f"scorer, picks shared after {SHARED_AFTER * 1000:.0f} ms (not built)"
        super().__init__(pickers=pickers, name=name)

    def tell(self, brain: Brain, now: float, call: Callable[[Brain, float], None]) -> None:
        """Have the other daemons hear of it a moment later."""
        for other in self.brains:
            if other is not brain:
                self.world.at(now + SHARED_AFTER, partial(call, other))


class Keyed(Ours):
    """Picks with ``key=``: the gateway hashes the beginning of the prompt."""

    def __init__(self) -> None:
        """Scrape once a second."""
        super().__init__(name="scorer, key = hash of the prompt's beginning")

    def key(self, flow: Flow) -> str:
        """Return what stands for the beginning."""
        return ",".join(map(str, flow.request.prefix[:KEY_BLOCKS]))


class Plain(Ours):
    """The article's rule: score, two random choices, and a penalty per request in flight.

    ``points`` are taken off the score for each request that was picked and has not ended.
    """

    def __init__(self, points: float = 5.0, interval: float = 1.0) -> None:
        """Scrape every ``interval`` seconds."""
        super().__init__(2, interval, name="plain rule (score, P2C, per request)")
        self.points = points

    def pick(self, flow: Flow, now: float) -> int:
        """Draw two targets that picks may return, and take the higher score less its penalty."""
        brain = self.brains[0]
        view = brain.view()
        usable = {each.target for each in view.candidates}
        left = [index for index in self.candidates(flow, now) if self.targets[index] in usable]
        drawn = self.dice.sample(left, 2) if len(left) > 1 else left or self.candidates(flow, now)
        scores = {self.index[each.target]: each.score or 0.0 for each in view.targets}
        index = max(drawn, key=lambda each: scores[each] - self.points * self.connections[each])
        self.connections[index] += 1
        flow.ticket = Ticket(brain, "")
        return index

    def done(self, flow: Flow, now: float) -> None:
        """Report, and count the request no more."""
        self.connections[flow.target] -= 1
        super().done(flow, now)

    def aborted(self, flow: Flow, now: float) -> None:
        """Report, and count the request no more."""
        self.connections[flow.target] -= 1
        super().aborted(flow, now)

    def failed(self, flow: Flow, now: float) -> None:
        """Report, and count the request no more."""
        self.connections[flow.target] -= 1
        super().failed(flow, now)

    def _report(self, flow: Flow, now: float, **told: object) -> None:
        super()._report(flow, now, prompt_tokens=flow.request.prompt, **told)


@contextmanager
def patched(**constants: object) -> Iterator[None]:
    """Run with constants of the shipped code replaced: ``pick__COLD_SECONDS=9`` of core.pick."""
    import importlib  # noqa: PLC0415 - only ablations need it

    before = []
    for name, value in constants.items():
        module, _, attribute = name.partition("__")
        home = importlib.import_module(f"scorer.core.{module}")
        before.append((home, attribute, getattr(home, attribute)))
        setattr(home, attribute, value)
    try:
        yield
    finally:
        for home, attribute, value in before:
            setattr(home, attribute, value)
