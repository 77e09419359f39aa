"""Feedback on a real connection: the short way, and when a report leaves it."""

import contextlib
import json
import socket
import threading

import pytest
import uvicorn

from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.feedback import SLICE, FeedbackEndpoint
from scorer.http.feedback_protocol import SHORT, connections_with
from scorer.http.pick import PickEndpoint
from tests.feedback.world import A, World
from tests.http.builders import chat, ports

pytestmark = pytest.mark.system

OK = {"target": A, "status": 200}
PICK = b"GET /pick HTTP/1.1\r\nhost: a\r\n\r\n"


class Served:
    """The interface on a port, and whether a report took the short way."""

    def __init__(self, world, port, counts):
        self.world = world
        self.counts = counts
        self.port = port
        self.short = 0

    def exchange(self, *parts, answers=1):
        """Send ``parts`` one after the other; return the status lines and the last body."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            reader = sock.makefile("rb")
            for part in parts:
                sock.sendall(part)
            read = [read_answer(reader) for _ in range(answers)]
            return [status for status, _ in read], read[-1][1]


def read_answer(reader):
    """Return status and body of the next answer."""
    status = int(reader.readline().split()[1])
    length = 0
    while (line := reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    return status, reader.read(length)


@pytest.fixture
def served():
    """Serve the interface, feedback included, on a free port of loopback."""
    world = World()
    given = ports(chat(3), feedback=world.feedback)
    picks, reports = PickEndpoint(given), FeedbackEndpoint(world.feedback, lambda: world.now)
    short = reports.at_once
    found = Served(world, 0, given.served)

    def counted(*given):
        answer = short(*given)
        found.short += answer is not None
        return answer

    reports.at_once = counted
    config = uvicorn.Config(
        build_asgi(given, create_flask(given), picks), http=connections_with(picks, reports),
        ws="none", lifespan="off", log_config=None, access_log=False,
    )  # fmt: skip
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        found.port = sock.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([sock],))
        thread.start()
        with contextlib.ExitStack() as stack:
            stack.callback(thread.join)
            stack.callback(setattr, server, "should_exit", True)
            yield found


def report(body, query="", lines=""):
    """Return the bytes of a report."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = (
        f"POST /feedback{query} HTTP/1.1\r\nhost: a\r\n{lines}content-length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def test_short_report_takes_the_short_way(served):
    """And is answered as any other."""
    statuses, body = served.exchange(report(OK))
    assert (statuses, json.loads(body)) == ([202], {"accepted": 1, "rejected": []})
    assert (served.short, len(served.world.outcomes())) == (1, 1)
    assert served.counts.read().requests["/feedback", "POST", 202] == 1
    assert served.counts.read().durations["/feedback"].count == 1


def test_report_may_come_in_pieces(served):
    """Cut in the head, and in the body."""
    data = report(OK, "?explain=1")
    statuses, body = served.exchange(data[:30], data[30:-9], data[-9:])
    assert (statuses, json.loads(body)["outcomes"][0]["class"]) == ([202], "success")


def test_picks_and_reports_share_a_connection(served):
    """Pipelined, each is answered in its turn."""
    sent = PICK + report(OK) + PICK + report({"target": "x:1"}) + report(OK)
    assert served.exchange(sent, answers=5)[0] == [200, 202, 200, 404, 202]
    assert len(served.world.outcomes()) == 2


def test_long_array_leaves_the_short_way_and_is_applied_once(served):
    """It is worked off with pauses."""
    statuses, _ = served.exchange(report([OK] * (SLICE + 1)) + PICK, answers=2)
    assert statuses == [202, 200]
    assert (served.short, len(served.world.outcomes())) == (0, SLICE + 1)


def test_large_report_is_not_collected(served):
    """It goes through the server, which bounds what it holds."""
    large = report({**OK, "error_body": "x" * SHORT})
    assert served.exchange(large)[0] == [202]
    assert served.short == 0


def test_report_without_length_is_not_collected(served):
    """A chunked body has no announced end."""
    data = json.dumps(OK).encode()
    head = b"POST /feedback HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    statuses, _ = served.exchange(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))
    assert (statuses, served.short) == ([202], 0)


def test_client_that_asks_before_it_sends_is_told_to_go_on(served):
    """``Expect: 100-continue``."""
    head, _, data = report(OK, lines="expect: 100-continue\r\n").partition(b"\r\n\r\n")
    statuses, _ = served.exchange(head + b"\r\n\r\n" + data, answers=2)
    assert (statuses, served.short) == ([100, 202], 0)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /feedback HTTP/1.1", 405),
        (b"POST /feedbacks HTTP/1.1", 404),
        (b"POST /feedback/x HTTP/1.1", 404),
        (b"POST /feedback HTTP/1.0", 400),
    ],
)
def test_other_requests_are_answered_as_ever(served, request_line, status):
    """Other methods, other paths, no body."""
    sent = request_line + b"\r\nhost: a\r\ncontent-length: 0\r\n\r\n"
    assert served.exchange(sent)[0] == [status]


def test_report_is_refused_on_the_short_way_too(served):
    """With a token file, which does not exist."""
    trusting = served.world.feedback.trust
    served.world.feedback.trust = type(trusting)("/nonexistent/token", lambda: 0.0)
    statuses, body = served.exchange(report(OK))
    assert (statuses, json.loads(body)["errorType"], served.short) == ([401], "unauthorized", 1)
