"""Two replicas of the daemon on a virtual clock: two hours of their metrics in seconds.

Targets, judgements, picks, feedback and the page go through the code that the daemon runs.
What is made up: the engines, what the network would do, and how long things take.
"""

import heapq
import json
import math
import random
from collections.abc import Iterator
from functools import partial

from exporters.prometheus import Inputs, build_exposition
from scorer.addresses import parse_address
from scorer.clocks import Clocks
from scorer.config import Config, parse_config
from scorer.core.orders import Order
from scorer.core.samples import Scrape, ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure, Verb
from scorer.cycle import Cycle
from scorer.daemon_stats import DaemonStats
from scorer.discovered import DiscoveredTarget, Found, Mechanism
from scorer.feedback import Feedback
from scorer.http.pick import PickEndpoint
from scorer.http.ports import Ports
from scorer.http_stats import FEEDBACK, PICK, HttpStats
from scorer.inflight import InFlight
from scorer.mappings.shipped import engine_mappings
from scorer.operators import Operators
from scorer.output_stats import Output, OutputStats
from scorer.pick_stats import PickStats
from scorer.registry import Registry
from scorer.sources.discovery.stats import SdStats
from scorer.sources.mapping import PageReader
from tests.dashboards.engines import Mishap, QueueEngine

START = 1_748_736_000
"""Unix seconds at which the story begins, a boundary of Prometheus' blocks: 2025-06-01T00:00Z."""
HOURS = 2.0
SCRAPE, TICK, PAGE_EVERY = 5, 2, 15
"""Seconds between two scrapes of an engine, two judgements, and two scrapes of the daemon."""
MODELS = {"chat": "llama-3.1-8b", "code": "qwen2.5-coder-7b"}
CHAT = [f"10.0.0.{number}:8000" for number in range(1, 6)]
CODE = [f"10.0.1.{number}:8000" for number in range(1, 4)]
LATECOMER, LEAVER = "10.0.1.4:8000", "10.0.1.1:8000"
COMES, LEAVES = 2400.0, 6000.0
CONFIG = f"""\
pools:
  - name: chat
    models: ["llama-*"]
    static_configs: [{{targets: {json.dumps(CHAT)}}}]
  - name: code
    models: ["qwen*"]
    http_sd_configs: [{{url: "http://inventory:8080/code"}}]
"""
MISHAPS = {
    CHAT[0]: (Mishap("slow", 900, 1800, 6.0),),
    CHAT[1]: (Mishap("down", 2100, 2160),),
    CHAT[2]: (Mishap("failing", 3000, 3120), Mishap("slow", 5400, 6600, 4.0)),
    CHAT[3]: (Mishap("frozen", 4200, 4320),),
    CODE[1]: (Mishap("blind", 4800, 5700), Mishap("slow", 6300, 6700, 3.0)),
    CODE[2]: (Mishap("down", 3600, 3660), Mishap("down", 3720, 3780)),
}  # fmt: skip
DRAINED, DRAIN_AT = CHAT[4], 3300.0
STREAMS = {("code", Mechanism.HTTP): 0, ("chat", Mechanism.STATIC): 1}


def rate(pool: str, now: float) -> float:
    """Return the requests a second that come for a pool: waves, and a rush."""
    base = {"chat": 5.0, "code": 2.0}[pool]
    rush = 1.9 if pool == "chat" and 6300 <= now < 6900 else 1.0
    return base * rush * (1.0 + 0.35 * math.sin(now / 900.0))


class VirtualClock:
    """Seconds; every look at it takes some microseconds, as in life."""

    def __init__(self, dice: random.Random) -> None:
        self.now = 0.0
        self._dice = dice

    def read(self) -> float:
        self.now += self._dice.lognormvariate(-10.8, 0.7)
        return self.now


class Replica:
    """The parts of one daemon, as its composition root puts them together."""

    def __init__(self, instance: str, clock: VirtualClock, seed: int) -> None:
        self.instance, self.clock = instance, clock
        self.dice = random.Random(seed)
        self.clocks = Clocks(clock.read, lambda: START + clock.now)
        self.registry, self.inflight = Registry(), InFlight()
        self.picks, self.stats, self.sd = PickStats(), DaemonStats(), SdStats()
        self.served, self.outputs = HttpStats(), OutputStats()
        self.feedback = Feedback(self.registry, self.inflight, self.clocks)
        self.operators = Operators(self.registry, self.clocks)
        self.config: Config = parse_config(CONFIG)
        self.render = build_exposition(self._inputs())
        self.readers: dict[str, PageReader] = {}
        self.cycles: dict[str, Cycle] = {}
        self.endpoint = PickEndpoint(self._ports())
        self._start()

    def _inputs(self) -> Inputs:
        return Inputs(
            snapshot=lambda: self.registry.snapshot, inflight=self.inflight, picks=self.picks,
            stats=self.stats, version="0.1.0", clocks=self.clocks, sd=self.sd,
            feedback=self.feedback.stats, served=self.served, outputs=self.outputs,
        )  # fmt: skip

    def _ports(self) -> Ports:
        return Ports(
            snapshot=lambda: self.registry.snapshot, inflight=self.inflight, stats=self.picks,
            ready=lambda: None, exposition=self.render, dice=self.dice, version="0.1.0",
            clocks=self.clocks, feedback=self.feedback, operators=self.operators,
            served=self.served, outputs=self.outputs,
        )  # fmt: skip

    def _start(self) -> None:
        now = self.clock.now
        found = {"chat": found_of(CHAT), "code": found_of(code_targets(now))}
        self.registry.apply(self.config.pools, found, now)
        self.sd.keep(list(STREAMS.items()))
        self.stats.reloaded(ok=True, wall_time=START + now)
        for name, pool in self.registry.pools.items():
            self.cycles[name] = Cycle(
                pool, self.inflight, self.registry.publish, draw=self.dice.random
            )

    def discover(self, now: float) -> None:
        """Ask for the targets of ``code``; the inventory is out of order for a while."""
        broken = 5000 <= now < 5600
        names = code_targets(now)
        self.sd.refreshed(
            ("code", Mechanism.HTTP), 0, targets=len(names), at=now, failures=int(broken)
        )
        self.sd.refreshed(("chat", Mechanism.STATIC), 1, targets=len(CHAT), at=now)
        for gone in self.registry.update("code", found_of(names), now, settled=True):
            self.inflight.forget(gone.pool, gone.target)
        targets = {
            (name, target) for name, pool in self.registry.pools.items() for target in pool.targets
        }
        self.stats.keep(set(self.registry.pools), targets)
        self.feedback.stats.keep(targets)

    def scrape(self, pool: str, target: str, engine: QueueEngine, now: float) -> None:
        """Read the page of an engine, or fail to."""
        owner = self.registry.pools[pool]
        mark = self.inflight.mark(pool, target, now)
        took = self.dice.lognormvariate(-5.0, 0.6)
        page = engine.page(now)
        if page is None:
            result = ScrapeFailed(ScrapeFailure.CONNECT, "connection refused", refused=True)
        elif self.dice.random() < 0.004:
            result, took = ScrapeFailed(ScrapeFailure.TIMEOUT, "no answer in 0.8 s"), 0.8
        else:
            if target not in self.readers:
                self.readers[target] = PageReader(engine_mappings())
            result = self.readers[target].read(page, "text/plain; version=0.0.4", complete=True)
        news = Scrape(result, now, now + took, mark.picks, mark)
        owner.inbox.append((owner.targets[target], news))
        self.stats.scrape_done(pool, took)

    def judge(self, now: float) -> None:
        """Judge every pool."""
        for name, cycle in self.cycles.items():
            cycle.tick(now)
            self.stats.scoring_done(name, self.dice.lognormvariate(-7.6, 0.4), now)

    def pick(self, query: bytes) -> dict[str, str]:
        """Return the answer to a pick request."""
        answer = self.endpoint.answer(query, (), bare=True)
        self.served.count(PICK, b"GET", answer.status)
        return json.loads(answer.body)

    def told(self, item: dict[str, object]) -> None:
        """Take feedback."""
        self.feedback.take(item)
        self.served.count(FEEDBACK, b"POST", 202)
        self.served.took(FEEDBACK, self.dice.lognormvariate(-9.0, 0.4))

    def visitors(self) -> None:
        """Count what people and programs look at while a page is due."""
        for handler, code in (("/", 200), ("/metrics", 200), ("/api/v1/sd/<pool>", 200)):
            self.served.count(handler, "GET", code)
            self.served.took(handler, self.dice.lognormvariate(-5.3, 0.5))
        for output in (Output.HTTP_SD, Output.ENVOY_EDS, Output.HAPROXY_AGENT):
            self.outputs.answered(output)
        for _ in range(PAGE_EVERY):
            self.served.count("/api/v1/snapshot", "GET", 200)
            self.outputs.answered(Output.SNAPSHOT)
        self.stats.loop_lagged(self.dice.expovariate(1500.0))


def found_of(names: list[str]) -> Found:
    """Return targets as discovery hands them over."""
    return Found(tuple(DiscoveredTarget(parse_address(name)) for name in names))


def code_targets(now: float) -> list[str]:
    """Return what the inventory lists for the pool ``code``."""
    names = CODE if now < LEAVES else [name for name in CODE if name != LEAVER]
    return [*names, LATECOMER] if now >= COMES else names


class World:
    """The story; :meth:`pages` tells it."""

    def __init__(self, seed: int = 1) -> None:
        self.dice = random.Random(seed)
        self.clock = VirtualClock(self.dice)
        self.engines = {
            name: QueueEngine(MODELS[pool], MISHAPS.get(name, ()))
            for pool, names in (("chat", CHAT), ("code", [*CODE, LATECOMER]))
            for name in names
        }
        self.replicas = [Replica("scorer-0:9808", self.clock, 1),
                         Replica("scorer-1:9808", self.clock, 2)]  # fmt: skip
        self.due: list[tuple[float, int, partial[None]]] = []
        self.sent = 0

    def pages(self, hours: float = HOURS) -> Iterator[tuple[str, float, str]]:
        """Yield instance, Unix time and text of every page as time goes by."""
        for second in range(int(hours * 3600)):
            self.clock.now = now = max(float(second), self.clock.now)
            self._events(second)
            while self.due and self.due[0][0] <= now:
                heapq.heappop(self.due)[2]()
            for number, replica in enumerate(self.replicas):
                self._scrapes(replica, second + 2 * number, now)
                if (second + number) % TICK == 0:
                    replica.judge(now)
            self._requests(now)
            if second % PAGE_EVERY == 0 and second >= PAGE_EVERY:
                for replica in self.replicas:
                    replica.visitors()
                    body = replica.render("", ())[1]
                    yield replica.instance, float(START + second), body.decode()

    def _events(self, second: int) -> None:
        first, other = self.replicas
        if second % 30 == 0:
            for replica in self.replicas:
                replica.discover(float(second))
        if second == DRAIN_AT:
            order = Order(Verb.DRAIN, 600.0, "kernel update")
            for replica in self.replicas:
                replica.operators.carry_out(order, DRAINED, ["chat"], "127.0.0.1")
        if second == 4500:
            first.stats.reloaded(ok=True, wall_time=START + second)
            other.stats.reloaded(ok=False, wall_time=START + second)
        if second == 4800:
            other.stats.reloaded(ok=True, wall_time=START + second)

    def _scrapes(self, replica: Replica, second: int, now: float) -> None:
        for name, pool in replica.registry.pools.items():
            for place, target in enumerate(list(pool.targets)):
                if (second + place) % SCRAPE == 0:
                    replica.scrape(name, target, self.engines[target], now)

    def _requests(self, now: float) -> None:
        for pool, model in MODELS.items():
            for _ in range(self._poisson(rate(pool, now))):
                self._request(model, now)
        if self.dice.random() < 0.01:
            self.replicas[0].pick(b"model=gpt-unknown")

    def _request(self, model: str, now: float) -> None:
        self.sent += 1
        replica = self.replicas[self.sent % len(self.replicas)]
        prompt, output = self.dice.randint(50, 4000), self.dice.randint(20, 250)
        shown = replica.pick(b"model=%b&prompt_tokens=%d" % (model.encode(), prompt))
        if "target" not in shown:
            return
        served = self.engines[shown["target"]].submit(now, prompt, output)
        item: dict[str, object] = {"pick_id": shown["pick_id"], "status": served.status}
        if served.status == 200:
            item |= {"ttft_seconds": served.first - now, "duration_seconds": served.done - now,
                     "stream": True, "output_tokens": output}  # fmt: skip
        elif served.status == 503:
            item |= {"headers": {"retry-after": "4"}, "error_body": "The engine is busy"}
        heapq.heappush(self.due, (served.done, self.sent, partial(replica.told, item)))

    def _poisson(self, mean: float) -> int:
        count, product = 0, self.dice.random()
        while product > math.exp(-mean):
            count, product = count + 1, product * self.dice.random()
        return count
