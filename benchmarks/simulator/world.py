"""One run: requests arrive, a policy places them, engines work, clients see tokens.

Discrete events on a virtual clock. Engines are asked what happened until the next moment
at which somebody decides: an arrival, a retry, a client's deadline, or a timer of the
policy (its scrapes and judgements). So every decision is made with exactly what had
happened before it. Same seed, same result.

A request that gets an error is tried again at once elsewhere, as proxies do; one whose
client gave up waiting comes back after a pause. Time to first token counts from the first
arrival to the first token that the client sees.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf

from benchmarks.simulator.engine import Job, SimEngine
from benchmarks.simulator.workloads import Request

ERROR_AFTER = 0.002
"""Seconds after which a dead engine's host refuses a connection."""
BACKOFF = (1.0, 2.0)
"""Seconds a client waits before its first and second retry, up to half as much added."""
DRAINS = 600.0
"""Seconds after the last arrival at which whatever is left counts as never answered."""
SAMPLE = 0.5


@dataclass(slots=True, eq=False)
class Flow:
    """One request on its way. ``first`` and ``end`` are when its tokens came, if they did."""

    request: Request
    number: int
    tries: int = 0
    errors: int = 0
    first: float = inf
    end: float = inf
    target: int = -1
    placed_at: float = 0.0
    job: Job | None = None
    ticket: object = None
    tried: set[int] = field(default_factory=set)


class Policy(ABC):
    """Places requests; what it may know is what it is told, and its scrapes."""

    name = "policy"

    def start(self, world: "World") -> None:
        """Take the world that the policy decides for, before its first event."""
        self.world = world
        self.dice = random.Random(world.seed * 7919 + 1)

    @abstractmethod
    def pick(self, flow: Flow, now: float) -> int:
        """Return the index of the target that gets the request."""

    @abstractmethod
    def first(self, flow: Flow, now: float) -> None:
        """Be told of the first token of a request."""

    @abstractmethod
    def done(self, flow: Flow, now: float) -> None:
        """Be told that a request is complete."""

    @abstractmethod
    def aborted(self, flow: Flow, now: float) -> None:
        """Be told that the client left before the first token."""

    @abstractmethod
    def failed(self, flow: Flow, now: float) -> None:
        """Be told that the target refused or broke the request."""


@dataclass(frozen=True, slots=True)
class Outage:
    """An engine dies, is back, and is slow for a while: seconds of each moment."""

    target: int
    dies: float
    back: float
    warm: float
    slow: float = 2.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for every policy: engines, and how clients behave."""

    engines: Callable[[], list[SimEngine]]
    seconds: float = 600.0
    patience: float = inf
    retries: int = 2
    outage: Outage | None = None
    full: float = 0.95


class World:
    """Engines, clients and a policy on one clock."""

    def __init__(
        self, setting: Setting, requests: Sequence[Request], policy: Policy, seed: int
    ) -> None:
        """Prepare a run; everything random in it follows from ``seed``."""
        self.setting = setting
        self.policy = policy
        self.seed = seed
        self.engines = setting.engines()
        self.alive = [True] * len(self.engines)
        self.flows = [Flow(request, number) for number, request in enumerate(requests)]
        self.dice = random.Random(seed * 104_729 + 3)
        self.timeouts = self.refused = self.samples = self.full_samples = self.most_waiting = 0
        self.per_target = [0] * len(self.engines)
        self.tokens_per_target = [0] * len(self.engines)
        self._preempted = 0
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = count()
        self._open = len(self.flows)
        self.every(0.0, SAMPLE, self._sample)
        if setting.outage is not None:
            self.at(setting.outage.dies, self._die)
        policy.start(self)

    def at(self, when: float, call: Callable[[float], None]) -> None:
        """Have ``call`` called with the time at ``when``."""
        heappush(self._heap, (when, next(self._numbers), call))

    def every(self, first: float, interval: float, call: Callable[[float], None]) -> None:
        """Have ``call`` called at ``first`` and each ``interval`` seconds from there on."""

        def again(now: float) -> None:
            call(now)
            self.at(now + interval, again)

        self.at(first, again)

    def run(self) -> None:
        """Let everything happen until each request is answered, or nobody waits any more."""
        flows, heap, position = self.flows, self._heap, 0
        last = (flows[-1].request.at if flows else 0.0) + DRAINS
        while self._open:
            arrival = flows[position].request.at if position < len(flows) else inf
            now = min(arrival, heap[0][0])
            if now > last:
                return
            self._settle(now)
            if heap[0][0] < now:  # what was told has consequences before this moment
                continue
            if arrival <= now:
                self._place(flows[position], now)
                position += 1
            else:
                heappop(heap)[2](now)

    @property
    def preemptions(self) -> int:
        """Preemptions of all engines so far, those of engines that died included."""
        return self._preempted + sum(engine.tally.preemptions for engine in self.engines)

    def _settle(self, now: float) -> None:
        """Tell what the engines made until ``now``, in the order in which it happened."""
        made = []
        for engine in self.engines:
            if engine.ends <= now:
                engine.advance(now)
            if engine.outbox:
                made += engine.outbox
                engine.outbox = []
        if len(made) > 1:
            made.sort(key=lambda each: each[0])
        for at, flow, last in made:
            self._tell(flow, at, last=last)

    def _tell(self, flow: Flow, at: float, *, last: bool) -> None:
        if last:
            flow.end = at
            self._open -= 1
            self.policy.done(flow, at)
        elif flow.first == inf:
            flow.first = at
            self.policy.first(flow, at)

    def _place(self, flow: Flow, now: float) -> None:
        target = self.policy.pick(flow, now)
        flow.target, flow.placed_at = target, now
        self.per_target[target] += 1
        if not self.alive[target]:
            self.at(now + ERROR_AFTER, lambda then: self._fail(flow, then))
            return
        request = flow.request
        self.tokens_per_target[target] += request.prompt
        flow.job = self.engines[target].submit(
            flow, request.prompt, request.output, now, request.prefix
        )
        if self.setting.patience < inf:
            self.at(now + self.setting.patience, lambda then: self._leave(flow, now, then))

    def _leave(self, flow: Flow, placed_at: float, now: float) -> None:
        """Let a client give up: it has no token, and comes back after a pause or never."""
        if flow.first < inf or flow.placed_at != placed_at or flow.job is None:
            return
        self.timeouts += 1
        self.engines[flow.target].abort(flow.job, now)
        self.policy.aborted(flow, now)
        self._again(flow, now)

    def _again(self, flow: Flow, now: float) -> None:
        flow.job = None
        flow.tries += 1
        if flow.tries > self.setting.retries:
            self._open -= 1
            return
        flow.tried.clear()
        pause = BACKOFF[min(flow.tries, len(BACKOFF)) - 1] * (1 + self.dice.random() / 2)
        self.at(now + pause, lambda then: self._place(flow, then))

    def _fail(self, flow: Flow, now: float) -> None:
        """Let a target break a request: the proxy tries the others, then the client again."""
        self.refused += 1
        self.policy.failed(flow, now)
        flow.job, flow.first = None, inf
        flow.errors += 1
        flow.tried.add(flow.target)
        if len(flow.tried) < len(self.engines):
            self._place(flow, now)
        else:
            self._again(flow, now)

    def _die(self, now: float) -> None:
        outage = self.setting.outage
        if outage is None:
            return
        engine = self.engines[outage.target]
        self.alive[outage.target] = False
        self._preempted += engine.tally.preemptions
        for flow in engine.restart(now):
            self._fail(flow, now)
        self.at(outage.back, self._come_back)

    def _come_back(self, now: float) -> None:
        outage = self.setting.outage
        if outage is None:
            return
        engine = self.engines[outage.target]
        engine.restart(now)
        engine.slow = outage.slow
        self.alive[outage.target] = True
        self.at(outage.warm, lambda _: setattr(engine, "slow", 1.0))

    def _sample(self, now: float) -> None:
        if now > self.setting.seconds:
            return
        for engine in self.engines:
            self.samples += 1
            self.full_samples += engine.kv_usage > self.setting.full
            self.most_waiting = max(self.most_waiting, engine.waiting)
