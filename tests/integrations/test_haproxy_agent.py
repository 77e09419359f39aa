"""HAProxy without Lua: its weights and states follow the scores (case B51)."""

import csv
import io
import socket
import time
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.integrations import engine as ways
from tests.integrations.chance import order
from tests.integrations.client import ask, ask_many
from tests.integrations.engine import Engine
from tests.integrations.haproxy import Haproxy, end, passes_tokens_on, until
from tests.system.conftest import DaemonProcess, free_port, pool_of

pytestmark = pytest.mark.system


@dataclass
class World:
    """Three engines, the daemon, HAProxy."""

    engines: list[Engine]
    daemon: DaemonProcess
    haproxy: Haproxy
    agent: int

    def server(self, name: str) -> dict[str, str]:
        """Return what HAProxy says of a server."""
        text = self.haproxy.command("show stat").lstrip("# ")
        return next(row for row in csv.DictReader(io.StringIO(text)) if row["svname"] == name)

    def is_like(self, name: str, status: str, low: int = 0, high: int = 256) -> bool:
        """Whether a server has that status and a weight between two others."""
        row = self.server(name)
        return row["status"].startswith(status) and low <= int(row["weight"]) <= high

    def says(self, name: str) -> str:
        """Return what the agent says of a target."""
        with socket.create_connection(("127.0.0.1", self.agent), 2) as sock:
            sock.sendall(f"{name}\n".encode())
            return b"".join(iter(lambda: sock.recv(4096), b"")).decode()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Start everything once; HAProxy is alive at the end."""
    folder = tmp_path_factory.mktemp("agent")
    # One of them dies and comes back to its port, which must be nobody else's meanwhile.
    engines = [Engine(port=free_port()) for _ in range(3)]
    udp, agent = free_port(), free_port()
    config = {
        **pool_of(*(each.target for each in engines)),
        "feedback": {"udp": {"listen": f"127.0.0.1:{udp}"}},
        "exporters": {"haproxy_agent": {"listen": f"127.0.0.1:{agent}"}},
    }
    daemon, haproxy = DaemonProcess(folder, config), None
    servers = "".join(
        f'    server e{number} {each.target} agent-send "{each.target}\\n"\n'
        for number, each in enumerate(engines)
    )
    try:
        daemon.ready()
        haproxy = Haproxy(folder, "agent.cfg", {9809: udp, 9810: agent}, servers)
        made = World(engines, daemon, haproxy, agent)
        until(lambda: all(made.is_like(f"e{number}", "UP", 95, 100) for number in range(3)))
        yield made
        haproxy.stop()
    finally:
        end(haproxy, daemon, engines)


def test_weights_follow_scores(world: World):
    """A queue costs weight within two checks, and so requests; it comes back."""
    busy = world.engines[0]
    busy.page = {"waiting": 60, "running": 8, "kv_cache": 0.99}
    until(lambda: world.daemon.target(busy.target)["score"] < 80)
    until(lambda: world.is_like("e0", "UP", 70, 80), 3)
    assert world.says(busy.target) == "up ready 75%\n"
    replies = ask_many(world.haproxy.port, 60, 4)
    assert [reply for reply in replies if not reply.complete] == []
    assert len({reply.engine for reply in replies}) == 3
    busy.page = {}
    until(lambda: world.is_like("e0", "UP", 95, 100))


def test_tokens_are_not_held_back(world: World):
    """Each one arrives before the next is sent, not with it in a fuller packet."""
    assert passes_tokens_on(world.haproxy.port, world.engines)
    for each in world.engines:
        each.way = ways.serves


def test_drained_target_finishes_and_comes_back(world: World):
    """`drain` takes it out, and only `ready` takes that back."""
    target = world.engines[1].target
    order(world.daemon, "drain", target)
    until(lambda: world.is_like("e1", "DRAIN"))
    assert world.says(target) == "drain\n"
    spread = Counter(reply.engine for reply in ask_many(world.haproxy.port, 20, 4))
    assert target not in spread
    order(world.daemon, "undrain", target)
    until(lambda: world.is_like("e1", "UP", 95, 100))


def test_failed_attempt_is_tried_on_another_server(world: World):
    """503 is told as a failure; a 429 passes, its body decides, and the target cools down."""
    bad = world.engines[2]
    bad.way = ways.refuses(503, b"no")
    replies = ask_many(world.haproxy.port, 40, 4)
    assert [reply for reply in replies if not reply.complete] == []
    bad.way = ways.refuses(429, ways.SATURATED, retry_after="4")
    until(lambda: ask(world.haproxy.port).status == 429)
    until(lambda: world.daemon.target(bad.target)["state"] == "cooldown")
    until(lambda: world.is_like("e2", "UP", 1, 40), 3)
    bad.way = ways.serves
    rejected = world.daemon.get("/metrics?name[]=scorer_feedback_rejected_total").text
    assert all(line.startswith("#") or line.endswith(" 0.0") for line in rejected.splitlines())


def test_dead_engine_goes_down_and_comes_back(world: World):
    """`down` with the reason; only `up` takes that back, and then it warms up."""
    dead = world.engines[0]
    port = dead.port
    dead.close()
    until(lambda: world.says(dead.target) == "down #connection_refused\n")
    until(lambda: world.is_like("e0", "DOWN"))
    assert [r for r in ask_many(world.haproxy.port, 10, 2) if not r.complete] == []
    world.engines[0] = Engine(port=port)
    until(lambda: world.is_like("e0", "UP", 1, 100))
    until(lambda: world.is_like("e0", "UP", 90, 100))


def test_without_the_daemon_the_last_word_stays(world: World):
    """Nobody is taken out; large prompts and IPv4 targets as ever. Must be the last test."""
    world.daemon.process.kill()
    world.daemon.process.wait(5)
    before = [world.server(f"e{number}")["status"] for number in range(3)]
    time.sleep(2)
    assert [world.server(f"e{number}")["status"] for number in range(3)] == before
    assert all(status.startswith("UP") for status in before)
    assert ask(world.haproxy.port, 2_000_000).complete
    assert [r for r in ask_many(world.haproxy.port, 20, 4) if not r.complete] == []
