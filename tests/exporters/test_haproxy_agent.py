"""What HAProxy's agent-checks are told, and that slow or hostile ones stop nothing."""

import asyncio
import contextlib
import socket
from contextlib import asynccontextmanager

import pytest
import uvloop
from structlog.testing import capture_logs

from exporters import haproxy_agent
from exporters.haproxy_agent import Agent, AgentConnection
from scorer.core.vocabulary import Reason, State
from scorer.output_stats import Output, OutputStats
from tests.http.builders import pool, snapshot, target, unreachable, unscored
from tests.waited import Waited

NAME = "10.0.0.7:8000"


def agent(*pools, known=(), outputs=None):
    """Return an agent that answers from these pools."""
    published = snapshot(*pools)
    outputs = outputs or OutputStats()
    return Agent(lambda: published, lambda name: name in known, outputs, lambda: 0.0)


def said(view, **changes):
    """Return what is said of one target of a pool of two."""
    return agent(pool(view, target("other:1"), **changes)).line(view.target).decode()


@pytest.mark.parametrize(
    ("weight", "line"),
    [
        (1.0, "up ready 100%\n"),
        (0.376, "up ready 38%\n"),
        (0.63, "up ready 63%\n"),
        (0.004, "up ready 1%\n"),
        (0.0, "up ready 1%\n"),
    ],
)
def test_weight_is_a_whole_percentage(weight, line):
    """Case B51: whole numbers, and never 0 for a target that may be picked."""
    assert said(target(NAME, weight=weight)) == line


def test_states_are_full_sentences():
    """Case B51: what brings it up and back is in every line that does not take it out."""
    draining = target(NAME, state=State.DRAINING, eligible=False, weight=0.0)
    asleep = target(NAME, state_reason=Reason.ASLEEP, eligible=False, weight=0.0, score=0.0)
    assert said(draining) == "drain\n"
    assert said(asleep) == "up ready 0%\n"
    assert said(unreachable(NAME)) == "down #connection_refused\n"


def test_probed_target_gets_a_trickle():
    """Nothing but requests shows that a failing or frozen target works again."""
    frozen = target(NAME, eligible=False, probe_only=True, weight=0.0, score=20.0)
    assert said(frozen) == "up ready 1%\n"


def test_unjudged_target_keeps_its_last_word():
    """Not knowing is said by silence."""
    assert said(unscored(NAME)) == ""


def test_panic_leaves_somebody():
    """When all are out of reach those that picks would use stay up."""
    both = unreachable("a:1"), unreachable("b:1")
    found = agent(pool(*both, panic=True))
    assert [found.line(name) for name in ("a:1", "b:1")] == [b"up ready 1%\n"] * 2


def test_pool_may_be_named():
    """In several pools a target is judged apart; without a name the first pool counts."""
    found = agent(
        pool(target(NAME, weight=0.9)), pool(target(NAME, "code", weight=0.2), name="code")
    )
    assert found.line(NAME) == found.line(f"chat/{NAME}") == b"up ready 90%\n"
    assert found.line(f"code/{NAME}") == b"up ready 20%\n"


def test_answers_follow_the_snapshot():
    """A score that changes is told with the next check."""
    published = snapshot(pool(target(NAME, weight=0.9)))
    found = Agent(lambda: published, lambda _: True, OutputStats())
    assert found.line(NAME) == b"up ready 90%\n"
    published = snapshot(pool(target(NAME, weight=0.1)))
    assert found.line(NAME) == b"up ready 10%\n"


def test_departed_target_is_drained():
    """Who was known and left gets no more requests, and those under way end."""
    published = snapshot(pool(target(NAME)))
    found = Agent(lambda: published, lambda _: False, OutputStats())
    assert found.line(NAME) == b"up ready 88%\n"
    published = snapshot(pool(target("other:1")))
    assert found.line(NAME) == b"drain\n"


def test_target_not_judged_yet_is_not_drained():
    """After a reload it is known before it is in a snapshot."""
    assert agent(pool(), known=(NAME,)).line(NAME) == b""


def test_unknown_name_is_left_alone_and_logged_once():
    """A slip of the pen takes nothing out, and a flood of names does not fill the log."""
    found = agent(pool(target(NAME)))
    with capture_logs() as logs:
        assert [found.line(f"typo-{number}") for number in range(100)] == [b""] * 100
    assert [line["target"] for line in logs] == ["typo-0"]


def test_names_remembered_are_bounded(monkeypatch):
    """Of more the oldest are forgotten."""
    monkeypatch.setattr(haproxy_agent, "REMEMBERED", 2)
    found = agent(pool(*(target(f"{name}:1") for name in "abc")))
    for name in "abc":
        found.line(f"{name}:1")
    assert list(found._seen) == ["b:1", "c:1"]


def on_daemons_loop(run):
    """Return what a coroutine returns on the kind of event loop that the daemon has."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


@asynccontextmanager
async def listening(found):
    """Yield the port of a listener that ``found`` answers."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: AgentConnection(found), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def ask(port, *parts, end=False):
    """Send ``parts`` one by one and return everything that comes until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        if end:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("parts", "end", "answer"),
    [
        ([b"10.0.0.7:8000\n"], False, b"up ready 88%\n"),
        ([b" 10.0.0.7:8000 \r\nmore\n"], False, b"up ready 88%\n"),
        ([b"10.0.", b"0.7:8000", b"\n"], False, b"up ready 88%\n"),
        ([b"10.0.0.7:8000"], True, b"up ready 88%\n"),
        ([b"\n"], False, b""),
        ([b"\xff\xfe\0\n"], False, b""),
        ([b"x" * 600], False, b""),
        ([], True, b""),
    ],
    ids=["line", "blanks", "pieces", "end", "empty", "bytes", "long", "nothing"],
)
def test_question_is_one_line(parts, end, answer):
    """However it comes; what is no question gets no answer, and only answers are counted."""
    outputs = OutputStats()

    async def run():
        async with listening(agent(pool(target(NAME)), outputs=outputs)) as port:
            return await ask(port, *parts, end=end)

    assert on_daemons_loop(run) == answer
    assert outputs.read()[Output.HAPROXY_AGENT] == bool(answer)


async def ends(port, count):
    """Connect so many times without a word; yield what ends each connection, as it ends."""
    loop = asyncio.get_running_loop()
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                 for _ in range(count)]  # fmt: skip
        for each in socks:
            each.setblocking(False)
        tasks = [asyncio.ensure_future(loop.sock_recv(each, 1)) for each in socks]
        for each in asyncio.as_completed(tasks):
            yield await each


def test_clients_beyond_the_limit_are_cut_off_at_once(monkeypatch):
    """Those within it are heard, for as long as a question may take."""
    monkeypatch.setattr(haproxy_agent, "PATIENCE", 60.0)
    monkeypatch.setattr(haproxy_agent, "MOST_CONNECTIONS", 20)

    async def run():
        found = agent(pool(target(NAME)))
        async with listening(found) as port, contextlib.aclosing(ends(port, 30)) as ended:
            cut = [await anext(ended) for _ in range(10)]
            for _ in range(1000):
                if found.connections == 20:
                    break
                await asyncio.sleep(0.01)
            return cut, found.connections

    assert on_daemons_loop(run) == ([b""] * 10, 20)


def test_slow_clients_are_cut_off_in_time(monkeypatch):
    """Whoever says nothing; then others are served."""
    monkeypatch.setattr(haproxy_agent, "PATIENCE", 0.3)
    monkeypatch.setattr(haproxy_agent, "MOST_CONNECTIONS", 20)

    async def run():
        async with listening(agent(pool(target(NAME)))) as port:
            waited = Waited()
            cut = [each async for each in ends(port, 20)]
            return cut, waited.seconds, await ask(port, b"10.0.0.7:8000\n")

    cut, seconds, answer = on_daemons_loop(run)
    assert cut == [b""] * 20
    assert seconds < 1.0
    assert answer == b"up ready 88%\n"
