"""The policies that ours is compared with, each in a few lines.

All of them pass by a target that refused a connection for ten seconds, as nginx does
by default, and targets that the request was tried on.
"""

from math import inf

from benchmarks.simulator.world import Flow, Policy, World

DOWN_FOR = 10.0
"""Seconds for which a target that failed is passed by (nginx: fail_timeout)."""


class Baseline(Policy):
    """A policy that counts its requests under way; subclasses say what a target costs."""

    def start(self, world: World) -> None:
        """Start with nothing under way."""
        super().start(world)
        size = len(world.engines)
        self.connections = [0] * size
        self.prefill = [0] * size
        self.down = [-inf] * size

    def candidates(self, flow: Flow, now: float) -> list[int]:
        """Return the targets that are not down; all, if none is left."""
        every = range(len(self.connections))
        left = [index for index in every if index not in flow.tried and self.down[index] <= now]
        return left or [index for index in every if index not in flow.tried]

    def pick(self, flow: Flow, now: float) -> int:
        """Count the request where it is placed."""
        index = self.chosen(flow, self.candidates(flow, now), now)
        self.connections[index] += 1
        self.prefill[index] += flow.request.prompt
        return index

    def chosen(self, flow: Flow, left: list[int], now: float) -> int:
        """Return one of ``left``: the cheapest, one of several at random."""
        costs = [self.cost(index, flow, now) for index in left]
        best = min(costs)
        return self.dice.choice(
            [each for each, cost in zip(left, costs, strict=True) if cost == best]
        )

    def cost(self, index: int, flow: Flow, now: float) -> float:
        """Return what is to be least: all are alike unless a policy says otherwise."""
        return 0.0

    def first(self, flow: Flow, now: float) -> None:
        """Take the prompt off the prefill ahead."""
        self.prefill[flow.target] -= flow.request.prompt

    def done(self, flow: Flow, now: float) -> None:
        """Count the request no more."""
        self.connections[flow.target] -= 1

    def aborted(self, flow: Flow, now: float) -> None:
        """Count neither the request nor its prompt."""
        self.connections[flow.target] -= 1
        self.prefill[flow.target] -= flow.request.prompt

    def failed(self, flow: Flow, now: float) -> None:
        """Pass the target by for a while."""
        self.down[flow.target] = now + DOWN_FOR
        self.connections[flow.target] -= 1
        if flow.first == inf:
            self.prefill[flow.target] -= flow.request.prompt


class RoundRobin(Baseline):
    """Each in turn."""

    name = "round robin"
    _last = -1

    def chosen(self, flow: Flow, left: list[int], now: float) -> int:
        """Return the next one after the last."""
        self._last = next((each for each in left if each > self._last), left[0])
        return self._last


class Random(Baseline):
    """Any."""

    name = "random"


class LeastConnections(Baseline):
    """The fewest requests under way, as nginx and HAProxy count them."""

    name = "least connections"

    def cost(self, index: int, flow: Flow, now: float) -> float:
        """Return the requests under way."""
        return self.connections[index]


class TwoChoices(LeastConnections):
    """The one of two random targets with fewer requests under way."""

    name = "P2C least requests"

    def chosen(self, flow: Flow, left: list[int], now: float) -> int:
        """Draw two."""
        return super().chosen(flow, self.dice.sample(left, min(2, len(left))), now)


class LeastPrefill(Baseline):
    """The fewest prompt tokens whose first token has not come."""

    name = "least outstanding prompt"

    def cost(self, index: int, flow: Flow, now: float) -> float:
        """Return the prompt tokens ahead."""
        return self.prefill[index]


class Scraped(Baseline):
    """A policy that sees queue and KV usage as of its last scrape."""

    def __init__(self, interval: float = 1.0) -> None:
        """Scrape every ``interval`` seconds."""
        self.interval = interval

    def start(self, world: World) -> None:
        """Scrape from the beginning."""
        super().start(world)
        self.queue = [0] * len(world.engines)
        self.usage = [0.0] * len(world.engines)
        for index in range(len(world.engines)):
            offset = self.interval * index / len(world.engines)
            world.every(offset, self.interval, lambda _, index=index: self._scrape(index))

    def _scrape(self, index: int) -> None:
        engine = self.world.engines[index]
        self.queue[index], self.usage[index] = engine.waiting, engine.kv_usage


class LeastKv(Scraped):
    """The emptiest KV cache at the last scrape."""

    name = "least KV"

    def cost(self, index: int, flow: Flow, now: float) -> float:
        """Return the share in use."""
        return self.usage[index]


class EndpointPicker(Scraped):
    """The Gateway API's endpoint picker with its default profile, less its prefix scorer.

    Twice the queue score (1 for the shortest queue of the pool, 0 for the longest) plus
    twice the share of KV cache that is free; the best wins.
    """

    def __init__(self, interval: float) -> None:
        """Scrape every ``interval`` seconds."""
        super().__init__(interval)
        self.name = f"endpoint picker, {interval * 1000:.0f} ms"

    def chosen(self, flow: Flow, left: list[int], now: float) -> int:
        """Return the best, one of several at random."""
        lengths = [self.queue[index] for index in left]
        low, span = min(lengths), max(lengths) - min(lengths)
        self._scale = (low, span)
        return super().chosen(flow, left, now)

    def cost(self, index: int, flow: Flow, now: float) -> float:
        """Return the score, negative."""
        low, span = self._scale
        queue = 1 - (self.queue[index] - low) / span if span else 1.0
        return -(2 * queue + 2 * (1 - self.usage[index]))


class Clairvoyant(Baseline):
    """The earliest first token, by the work that each engine really has left.

    No gateway can know this. It is a bound for whoever decides request by request, not for
    whoever would hold requests back.
    """

    name = "clairvoyant"

    def cost(self, index: int, flow: Flow, now: float) -> float:
        """Return the seconds to the first token there."""
        if not self.world.alive[index]:
            return inf
        request = flow.request
        return self.world.engines[index].forecast(request.prompt, now, request.prefix)
