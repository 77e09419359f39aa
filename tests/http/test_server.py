"""The whole interface behind a real uvicorn, over real sockets."""

import contextlib
import socket
import threading
from http.client import HTTPConnection

import pytest
import requests

from scorer.http.asgi import WORKERS
from tests.http.builders import chat, ports
from tests.http.serving import serving

pytestmark = pytest.mark.system

PAGE = b"x" * 8_000_000
"""More than the kernel buffers for a connection that is not read."""


def served(**changes):
    """Serve the interface on a free port of loopback and yield the port."""
    return serving(ports(chat(3), **changes))


@pytest.fixture(scope="module")
def port():
    with served(exposition=lambda *_: ([("Content-Type", "text/plain")], PAGE)) as number:
        yield number


def exchange(port, request, answers=1):
    """Return what comes back for the bytes of ``request``, up to ``answers`` status lines."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(request)
        received = b""
        while received.count(b"HTTP/1.1") < answers or not received.endswith((b"}", b"\r\n\r\n")):
            chunk = sock.recv(65536)
            if not chunk:
                break
            received += chunk
        return received


def test_connection_is_kept_for_every_form(port):
    """JSON, text, bodiless and refused picks all leave the connection open."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.connect()
        first = connection.sock
        for query in ("", "?format=text", "?format=headers", "?format=xml", "?pool=x"):
            connection.request("GET", f"/pick{query}")
            connection.getresponse().read()
            assert connection.sock is first


def test_pipelined_picks_are_answered_in_order(port):
    """Three requests sent at once get three answers in their order."""
    one = b"GET /pick?format=%b HTTP/1.1\r\nHost: x\r\n\r\n"
    request = one % b"xml" + one % b"headers" + one % b"json"
    answers = exchange(port, request, answers=3).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"400", b"204", b"200"]


def test_head_sends_no_body(port):
    """HEAD ends after the headers, and the next answer of the connection starts there."""
    head = b"HEAD /pick HTTP/1.1\r\nHost: x\r\n\r\n"
    get = b"GET /pick?format=headers HTTP/1.1\r\nHost: x\r\n\r\n"
    received = exchange(port, head + get, answers=2)
    first, second = received.split(b"HTTP/1.1 ")[1:]
    assert first.endswith(b"\r\n\r\n")
    assert second.startswith(b"204")


def test_body_of_a_pick_is_not_waited_for(port):
    """ext_authz may announce a body; the answer comes without it."""
    request = b"POST /pick/v1/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    assert exchange(port, request).startswith(b"HTTP/1.1 200")


def test_ipv6_target_in_a_raw_query(port):
    """Brackets reach the application as they were sent."""
    request = b"GET /pick?exclude=[::1]:8000 HTTP/1.1\r\nHost: x\r\n\r\n"
    assert exchange(port, request).startswith(b"HTTP/1.1 200")


def test_http_1_0(port):
    """An HTTP/1.0 client gets its answer and the end of the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(b"GET /pick HTTP/1.0\r\n\r\n")
        received = b"".join(iter(lambda: sock.recv(65536), b""))
    assert received.endswith(b'"panic":false}')


def test_long_query_is_answered(port):
    """Ten kilobytes of query are a request like any other."""
    answer = requests.get(f"http://127.0.0.1:{port}/pick?model={'m' * 10_000}", timeout=10)
    assert answer.status_code == 200


def test_stalled_readers_hold_no_worker(port):
    """Clients that ask for a large page and read nothing keep no thread from others."""
    with contextlib.ExitStack() as stack:
        for _ in range(2 * WORKERS):
            sock = socket.socket()
            stack.enter_context(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", port))
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert sock.recv(1)
        answer = requests.get(f"http://127.0.0.1:{port}/api/v1/pools", timeout=10)
    assert answer.status_code == 200


def test_busy_workers_do_not_delay_the_loop():
    """While every worker renders, picks and health checks are answered."""
    rendering, release = threading.Semaphore(0), threading.Event()

    def slow(*_):
        rendering.release()
        release.wait(20)
        return [("Content-Type", "text/plain")], b""

    with served(exposition=slow) as number, contextlib.ExitStack() as stack:
        stack.callback(release.set)
        for _ in range(WORKERS):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", number)))
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert rendering.acquire(timeout=10)
        paths = ("/-/healthy", "/-/ready", "/pick")
        answers = [requests.get(f"http://127.0.0.1:{number}{path}", timeout=10) for path in paths]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
