import asyncio

import pytest

from scorer.demo.wire import KeepAlive


def get(stubbed, respond, times: int = 1):
    """GET ``/x`` that often from a stub; return the answers and the stub."""

    async def scenario():
        async with stubbed(respond) as stub, KeepAlive(stub.address) as client:
            return [await client.get("/x") for _ in range(times)], stub

    return asyncio.run(scenario())


def test_status_and_body_are_returned(stubbed):
    """Whatever the status is."""
    answers, _ = get(stubbed, lambda _: (503, b"no target"))
    assert answers == [(503, b"no target")]


def test_a_chunked_body_is_joined(stubbed):
    """Chunk sizes do not show."""
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    answers, _ = get(stubbed, lambda _: raw)
    assert answers == [(200, b"abc")]


def test_one_connection_serves_many_requests(stubbed):
    """It is kept open between them."""
    _, stub = get(stubbed, lambda _: (200, b"ok"), times=5)
    assert (stub.connections, len(stub.paths)) == (1, 5)


def test_a_connection_the_server_closes_is_replaced(stubbed):
    """An answer that ends the connection does not spoil the next request."""
    raw = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    answers, stub = get(stubbed, lambda _: raw, times=2)
    assert (answers, stub.connections) == ([(200, b"ok")] * 2, 2)


def test_a_kept_connection_that_died_is_replaced(stubbed):
    """The server hangs up instead of answering a second request: it is sent again."""
    replies = iter([(200, b"one"), None, (200, b"two")])
    answers, stub = get(stubbed, lambda _: next(replies), times=2)
    assert (answers, stub.connections) == ([(200, b"one"), (200, b"two")], 2)


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (None, "closed the connection mid-answer"),
        (b"SSH-2.0-server\r\n", "sent no HTTP"),
    ],
)
def test_what_is_no_answer_is_an_oserror(stubbed, raw, complaint):
    """One kind of exception covers every way a request can fail."""
    with pytest.raises(OSError, match=complaint):
        get(stubbed, lambda _: raw)


def test_a_refused_connection_is_an_oserror(dead_address):
    """As the standard library raises it."""
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(KeepAlive(dead_address).get("/x"))
