import asyncio
import json
from contextlib import aclosing, asynccontextmanager

import pytest
from prometheus_client.parser import text_string_to_metric_families

from scorer.demo.cost import A100_8B
from scorer.demo.engine import Limits
from scorer.demo.server import EngineServer
from scorer.demo.wire import connected

GENERATION = "/v1/chat/completions"


@asynccontextmanager
async def served(**limits):
    """Run one emulated engine for the length of a ``with`` block."""
    server = EngineServer("demo-8b", A100_8B, Limits(**limits))
    await server.start()
    try:
        yield server
    finally:
        await server.close()


def chat(prompt_tokens: int, max_tokens: int, *, stream: bool = True) -> bytes:
    """Return the body of a chat request of that length."""
    messages = [{"role": "user", "content": "word" * prompt_tokens}]
    return json.dumps({"messages": messages, "max_tokens": max_tokens, "stream": stream}).encode()


async def exchange(address: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """Return status and whole body of one request on a connection of its own."""
    async with connected(address) as connection:
        status = await connection.request(method, path, body)
        return status, b"".join([part async for part in connection.body()])


async def metric(address: str, name: str) -> float:
    """Return the sum of a metric's samples on the engine's page."""
    _, page = await exchange(address, "GET", "/metrics")
    families = text_string_to_metric_families(page.decode())
    return sum(s.value for family in families for s in family.samples if s.name == name)


async def one(method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """Return what a fresh engine answers to one request."""
    async with served() as server:
        return await exchange(server.address, method, path, body)


def events(body: bytes) -> list[str]:
    """Return the data of each server-sent event."""
    return [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]


def test_health():
    """A running engine is healthy, however loaded."""
    assert asyncio.run(one("GET", "/health")) == (200, b"")


def test_models_names_the_served_model():
    """The list holds the one model."""
    _, body = asyncio.run(one("GET", "/v1/models"))
    assert [model["id"] for model in json.loads(body)["data"]] == ["demo-8b"]


def test_an_unknown_path_is_not_found():
    """As vLLM answers."""
    assert asyncio.run(one("GET", "/nothing"))[0] == 404


def test_a_stream_carries_every_token_and_ends_with_done():
    """Twenty tokens arrive over the events, whatever their grouping."""
    _, body = asyncio.run(one("POST", GENERATION, chat(10, 20)))
    *chunks, last = events(body)
    text = "".join(json.loads(c)["choices"][0]["delta"]["content"] for c in chunks)
    assert (text.count("tok"), last) == (20, "[DONE]")


def test_the_first_event_is_the_first_token_alone():
    """It is sent as soon as prefill is done, so a client can measure TTFT."""
    _, body = asyncio.run(one("POST", GENERATION, chat(10, 20)))
    first = json.loads(events(body)[0])
    assert first["choices"][0]["delta"]["content"] == " tok"


def test_a_request_without_stream_gets_one_document():
    """Usage tells prompt and completion tokens."""
    _, body = asyncio.run(one("POST", GENERATION, chat(10, 3, stream=False)))
    assert json.loads(body)["usage"] == {"prompt_tokens": 10, "completion_tokens": 3}


def test_completions_answer_with_text():
    """The older endpoint has its own shape."""
    body = json.dumps({"prompt": "word word", "max_tokens": 2}).encode()
    _, answer = asyncio.run(one("POST", "/v1/completions", body))
    assert json.loads(answer)["choices"][0]["text"] == " tok tok"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"nonsense", "Invalid JSON"),
        (b'{"max_tokens": 5}', "one of prompt and messages must be given"),
        (b'{"prompt": "a", "max_tokens": 0}', "greater than 0"),
        (b'{"prompt": "a", "max_tokens": 999999}', "exceed the maximum context length"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(body, complaint):
    """Status 400 with the complaint in an error object."""
    status, answer = asyncio.run(one("POST", GENERATION, body))
    assert (status, complaint in json.loads(answer)["error"]["message"]) == (400, True)


def test_a_served_request_shows_on_the_metrics_page():
    """Its tokens are counted under vLLM's name."""

    async def scenario():
        async with served() as server:
            await exchange(server.address, "POST", GENERATION, chat(10, 7))
            return await metric(server.address, "vllm:generation_tokens_total")

    assert asyncio.run(scenario()) == 7


def test_a_client_that_leaves_aborts_its_request():
    """The engine stops working for a closed connection."""

    async def scenario():
        async with served() as server:
            async with connected(server.address) as connection:
                await connection.request("POST", GENERATION, chat(10, 4000))
                async with aclosing(connection.body()) as parts:
                    await anext(parts)
            async with asyncio.timeout(5):
                while not await metric(server.address, "vllm:request_success_total"):
                    pass
            return server.engine.running, server.engine.tally.aborted

    assert asyncio.run(scenario()) == (0, 1)


def test_a_restart_breaks_streams():
    """A reader in the middle of an answer sees its connection fail, not a short answer."""

    async def scenario():
        async with served() as server, connected(server.address) as connection:
            await connection.request("POST", GENERATION, chat(10, 4000))
            async with aclosing(connection.body()) as parts:
                await anext(parts)
                await server.down()
                async for _ in parts:
                    pass

    with pytest.raises(ConnectionResetError):
        asyncio.run(scenario())


def test_a_request_without_first_token_is_broken_by_a_restart_too():
    """Headers are out before prefill is done; the connection fails all the same."""

    async def scenario():
        async with served() as server, connected(server.address) as connection:
            await connection.request("POST", GENERATION, chat(20_000, 10))
            await server.down()
            async for _ in connection.body():
                pass

    with pytest.raises(ConnectionResetError):
        asyncio.run(scenario())


def test_an_engine_that_is_down_refuses_connections():
    """Nothing listens on its port, and nothing else can have taken it."""

    async def scenario():
        async with served() as server:
            await server.down()
            await exchange(server.address, "GET", "/health")

    with pytest.raises(ConnectionRefusedError):
        asyncio.run(scenario())


def test_an_engine_comes_back_on_its_address_empty_and_with_a_later_start():
    """Counters are back at 0 and the start time has moved."""

    async def scenario():
        async with served() as server:
            await exchange(server.address, "POST", GENERATION, chat(10, 7))
            before = await metric(server.address, "process_start_time_seconds")
            await server.restart(down_for=0.05)
            after = await metric(server.address, "process_start_time_seconds")
            tokens = await metric(server.address, "vllm:generation_tokens_total")
            return after > before, tokens

    assert asyncio.run(scenario()) == (True, 0)


def test_many_streams_at_once_are_all_served():
    """Fifty clients get all of their tokens."""

    async def scenario():
        async with served() as server:
            answers = await asyncio.gather(
                *(exchange(server.address, "POST", GENERATION, chat(20, 5)) for _ in range(50))
            )
            return {body.count(b" tok") for _, body in answers}

    assert asyncio.run(scenario()) == {5}
