import asyncio
import random
from contextlib import suppress

import pytest

from scorer.demo.client import LoadClient, Shape, Window, draw_shape, stream
from scorer.demo.cost import A100_8B
from scorer.demo.engine import Limits
from scorer.demo.server import EngineServer
from scorer.demo.wire import KeepAlive

SHORT = Shape(prompt=20, output=3)


def seen_by_client(stubbed, respond_for, shape: Shape = SHORT) -> Window:
    """Send one request through a stub daemon; ``respond_for`` gets a live engine's address."""

    async def scenario():
        engine = EngineServer("demo-8b", A100_8B, Limits())
        await engine.start()
        respond = respond_for(engine.address)
        async with stubbed(respond) as stub, KeepAlive(stub.address) as daemon:
            client = LoadClient(daemon, rate=1.0, rng=random.Random(0))
            await client.send(shape)
            window = client.take()
        await engine.close()
        return window

    return asyncio.run(scenario())


def test_a_picked_request_is_served_and_timed(stubbed, picking):
    """One pick, one TTFT, no trouble."""
    window = seen_by_client(stubbed, picking)
    assert (window.picks.total(), len(window.ttfts), window.failed) == (1, 1, 0)


def test_the_prompt_length_is_told_to_the_picker(stubbed, picking):
    """In tokens, as a gateway would estimate it."""

    async def scenario():
        async with stubbed(lambda _: (503, b"")) as stub, KeepAlive(stub.address) as daemon:
            await LoadClient(daemon, 1.0, random.Random(0)).send(SHORT)
            return stub.paths

    assert asyncio.run(scenario()) == ["/pick?prompt_tokens=20"]


def test_a_refused_connection_goes_to_the_alternate(stubbed, picking, dead_address):
    """The request is served all the same and counted as retried."""
    window = seen_by_client(stubbed, lambda live: picking(dead_address, live))
    assert (window.retried, len(window.ttfts), window.failed) == (1, 1, 0)


def test_the_alternate_is_tried_once(stubbed, picking, dead_address):
    """When it refuses too the request has failed."""
    window = seen_by_client(stubbed, lambda live: picking(dead_address, dead_address, live))
    assert (window.retried, window.failed) == (1, 1)


def test_without_alternate_a_refused_request_fails(stubbed, picking, dead_address):
    """There is nowhere else to go."""
    window = seen_by_client(stubbed, lambda _live: picking(dead_address))
    assert (window.retried, window.failed) == (0, 1)


def test_a_refused_request_is_not_sent_elsewhere(stubbed, picking):
    """A prompt too long for the engine is answered with 400: no alternate would help."""
    window = seen_by_client(stubbed, lambda live: picking(live, live), Shape(70_000, 3))
    assert (window.retried, window.failed) == (0, 1)


@pytest.mark.parametrize("reply", [(503, b""), None])
def test_without_a_pick_nothing_is_sent(stubbed, reply):
    """A refusing or silent daemon is counted apart from failing engines."""
    window = seen_by_client(stubbed, lambda _live: lambda _path: reply)
    assert (window.unpicked, window.failed) == (1, 0)


def test_a_stream_that_breaks_off_is_an_oserror():
    """A restart in the middle of an answer is not an answer."""

    async def scenario():
        engine = EngineServer("demo-8b", A100_8B, Limits())
        await engine.start()
        first = asyncio.Event()
        reading = asyncio.create_task(stream(engine.address, Shape(20, 4000), first.set))
        await first.wait()
        await engine.close()
        await reading

    with pytest.raises(ConnectionResetError):
        asyncio.run(scenario())


def test_a_request_that_an_engine_breaks_off_is_counted(stubbed, picking):
    """Apart from those that failed: a restart does this, not a bad pick."""

    async def scenario():
        hanging_up = lambda _path: None  # noqa: E731 - a name for what the stub does
        async with (
            stubbed(hanging_up) as engine,
            stubbed(picking(engine.address)) as stub,
            KeepAlive(stub.address) as daemon,
        ):
            client = LoadClient(daemon, rate=1.0, rng=random.Random(0))
            await client.send(SHORT)
            return client.take()

    window = asyncio.run(scenario())
    assert (window.broken, window.failed) == (1, 0)


def test_arrivals_do_not_wait_for_answers(stubbed):
    """At 200 requests a second 20 are sent within a second although none is answered."""

    async def scenario():
        many = asyncio.Event()

        def respond(_path):
            if len(stub.paths) >= 20:
                many.set()
            return b""

        async with stubbed(respond) as stub, KeepAlive(stub.address) as daemon:
            client = asyncio.create_task(LoadClient(daemon, 200.0, random.Random(0)).run())
            async with asyncio.timeout(5):
                await many.wait()
            client.cancel()
            with suppress(asyncio.CancelledError):
                await client
            return stub.connections

    assert asyncio.run(scenario()) >= 20


def test_most_prompts_are_short_and_a_few_are_documents():
    """Of 2000 draws (seed 0) 3 % +- 1 are over 4K tokens and none is over 16K."""
    rng = random.Random(0)
    prompts = [draw_shape(rng).prompt for _ in range(2000)]
    long = sum(prompt >= 4_000 for prompt in prompts) / len(prompts)
    assert (0.02 < long < 0.04, max(prompts) <= 16_000, min(prompts) >= 1) == (True, True, True)


def test_a_window_is_handed_over_once(stubbed, picking):
    """The next one starts empty."""
    client = LoadClient(KeepAlive("127.0.0.1:1"), 1.0, random.Random(0))
    client.take().picks["a"] += 1
    assert client.take().picks.total() == 0


def test_quantiles_are_of_the_sorted_ttfts():
    """The median of three is the middle one; the highest quantile is the largest."""
    window = Window(ttfts=[3.0, 1.0, 2.0])
    assert (window.ttft(0.5), window.ttft(0.99)) == (2.0, 3.0)


def test_an_empty_window_has_neither_quantile_nor_share():
    """Nothing seen is not zero."""
    assert (Window().ttft(0.5), Window().share("a")) == (None, None)
