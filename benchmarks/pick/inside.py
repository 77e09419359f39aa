"""Picks without a network: the shipped connection code on a transport that writes nowhere.

What is measured is what the daemon does between the bytes of a request and the bytes of
its answer; the kernel and the load generator, which make a measurement over sockets as
noisy as the machine, are left out.
"""

import asyncio
import gc
import random
import time
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from uvicorn.server import ServerState

from scorer.addresses import parse_address
from scorer.clocks import Clocks
from scorer.config import parse_config
from scorer.core.samples import Scrape
from scorer.cycle import Cycle
from scorer.discovered import DiscoveredTarget, Found
from scorer.feedback import Feedback
from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.feedback import FeedbackEndpoint
from scorer.http.feedback_protocol import FeedbackConnection, connections_with
from scorer.http.pick import PickEndpoint
from scorer.http.ports import Ports
from scorer.inflight import InFlight
from scorer.mappings.shipped import engine_mappings
from scorer.pick_stats import PickStats
from scorer.registry import Registry
from scorer.sources.mapping import PageReader

PAGE = Path(__file__).parents[2] / "tests/data/expositions/vllm/v1-latest.prom"
HOST = b"Host: 127.0.0.1:9808\r\n"
GET = b"GET %b HTTP/1.1\r\n" + HOST + b"\r\n"
SEED = 1


class Nowhere:
    """A transport: what is written to it is kept until the next write, and that is all."""

    last = b""

    def write(self, data: bytes) -> None:
        """Take an answer."""
        self.last = data

    def get_extra_info(self, _name: str, default: object = None) -> object:
        """Know nothing."""
        return default

    def get_write_buffer_size(self) -> int:
        """Return that everything was sent."""
        return 0

    def is_closing(self) -> bool:
        """Return that the connection is open."""
        return False

    def close(self) -> None:
        """Close nothing."""

    def pause_reading(self) -> None:
        """Pause nothing."""

    def resume_reading(self) -> None:
        """Resume nothing."""


class Inside:
    """A daemon without threads: one pool of ``size`` targets, scraped once, one connection."""

    def __init__(self, size: int) -> None:
        """Scrape every target once, from one recorded page, and publish the view."""
        self.clocks = Clocks()
        names = [f"10.{index // 62_500}.{index // 250 % 250}.{index % 250 + 1}:8000"
                 for index in range(size)]  # fmt: skip
        listed = ", ".join(names)
        config = parse_config(f"pools: [{{name: chat, static_configs: [{{targets: [{listed}]}}]}}]")
        self.registry, self.inflight = Registry(), InFlight()
        now = self.clocks.monotonic()
        found = Found(tuple(DiscoveredTarget(parse_address(name)) for name in names))
        self.registry.apply(config.pools, {"chat": found}, now)
        self._pool = self.registry.pools["chat"]
        self._cycle = Cycle(self._pool, self.inflight, self.registry.publish)
        page = PageReader(engine_mappings()).read(
            PAGE.read_bytes(), "text/plain; version=0.0.4", complete=True
        )
        for target in self._pool.targets.values():
            self._pool.inbox.append((target, Scrape(page, now - 0.01, now)))
        self._cycle.tick(now)
        self.wire = Nowhere()
        self.connection = asyncio.run(self._connect())
        self.receive = self.connection.data_received

    async def _connect(self) -> FeedbackConnection:
        feedback = Feedback(self.registry, self.inflight, self.clocks)
        ports = Ports(
            snapshot=lambda: self.registry.snapshot, inflight=self.inflight, stats=PickStats(),
            ready=lambda: None, exposition=lambda *_: ((), b""), dice=random.Random(SEED),
            version="", clocks=self.clocks, feedback=feedback,
        )  # fmt: skip
        picks = PickEndpoint(ports)
        reports = FeedbackEndpoint(feedback, self.clocks.monotonic)
        config = uvicorn.Config(
            build_asgi(ports, create_flask(ports), picks), http=connections_with(picks, reports),
            lifespan="off", log_config=None, access_log=False, ws="none",
        )  # fmt: skip
        config.load()
        state = ServerState()
        state.default_headers = [(b"date", b"Sun, 17 Mar 2030 17:46:40 GMT")]
        connection: FeedbackConnection = config.http_protocol_class(
            config=config, server_state=state, app_state={}
        )  # type: ignore[assignment]
        connection.connection_made(self.wire)  # type: ignore[arg-type]
        return connection

    def judge(self) -> None:
        """Judge and publish anew, as the daemon does each half second."""
        self._cycle.tick(self.clocks.monotonic())

    def request(self, data: bytes) -> bytes:
        """Return the answer to one request."""
        self.receive(data)
        return self.wire.last


def get(path: str) -> bytes:
    """Return a request for ``path`` as wrk sends it."""
    return GET % path.encode()


def pick_id_of(answer: bytes) -> str:
    """Return the id that the answer to a pick carries in its headers."""
    return answer.partition(b"\r\nx-scorer-pick-id: ")[2].partition(b"\r\n")[0].decode()


def done(pick_id: str) -> bytes:
    """Return a report that the request of a pick ended well."""
    body = b'{"pick_id":"%b","status":200,"ttft_seconds":0.3}' % pick_id.encode()
    head = b"POST /feedback HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def cost(inside: Inside, requests: Sequence[bytes]) -> float:
    """Return the CPU microseconds that one of ``requests`` takes, all of them in a row."""
    receive = inside.receive
    gc.collect()
    began = time.thread_time_ns()
    for request in requests:
        receive(request)
    return (time.thread_time_ns() - began) / len(requests) / 1000.0
