import asyncio
import random
import re

import pytest

from scorer.demo.cost import A100_8B
from scorer.demo.engine import Limits
from scorer.demo.scenario import Scenario, Timing
from scorer.demo.server import EngineServer

QUICK = Timing(calm=0, noise=0.3, recovery=0, down=0.05, warmup=0, document_every=0.1)


@pytest.fixture(scope="module")
def played():
    """Play one quick round on two engines; return the events and both engines as they end."""
    events: list[str] = []

    async def scenario():
        servers = [EngineServer("demo-8b", A100_8B, Limits()) for _ in range(2)]
        for server in servers:
            await server.start()
        await Scenario(servers, events.append, random.Random(0), QUICK).play(0, 1)
        loads = [server.engine.running + server.engine.waiting for server in servers]
        starts = [server.engine.started_at for server in servers]
        for server in servers:
            await server.close()
        return loads, starts

    return (events, *asyncio.run(scenario()))


def test_the_noisy_neighbour_loads_one_engine_only(played):
    """Its three documents are with the first engine."""
    _, loads, _ = played
    assert loads == [3, 0]


def test_the_other_engine_restarts(played):
    """Its start time is later than that of the first."""
    _, _, (first, second) = played
    assert second > first


def test_every_event_is_told_in_order(played):
    """Documents, their end, the restart, the return."""
    events, _, _ = played
    assert [re.sub(r" \(127\.0\.0\.1:\d+\)|:.*", "", event) for event in events] == [
        "engine 1 gets a pile of long documents behind the scorer's back",
        "no more documents for engine 1",
        "engine 2 restarts",
        "engine 2 is back, empty",
    ]


def test_events_name_the_target_too(played):
    """The status page shows addresses, and the reader looks at both."""
    events, _, _ = played
    assert all(re.search(r"engine \d \(127\.0\.0\.1:\d+\)", event) for event in events)
