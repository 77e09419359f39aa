"""Fetching over real sockets: what arrives, and what is refused for which reason."""

import contextlib
import gzip
import os
import resource
import socket

import pytest
import responses

from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.sources import deadline
from scorer.sources.fetch import Fetched, Fetcher
from scorer.sources.names import Names
from tests.waited import Waited

PAGE = b"# TYPE up gauge\nup 1\n"
BRIEF = 0.3


@pytest.fixture
def fetch():
    """Return a function that fetches a URL with a Fetcher that is closed in the end."""
    fetchers = []

    def fetch(url: str, timeout: float = 5.0, **options):
        fetchers.append(Fetcher(url, timeout, **options))
        return fetchers[-1].fetch()

    yield fetch
    for fetcher in fetchers:
        fetcher.close()


def test_page_arrives_whole(serve, fetch, answer):
    """Body and content type are handed on; Content-Length proves the body whole."""
    server = serve(answer(PAGE, content_type="text/plain; version=0.0.4"))
    assert fetch(server.url) == Fetched(PAGE, "text/plain; version=0.0.4", complete=True)


def test_request_asks_for_text_and_gzip(serve, fetch, answer):
    """The engine is asked for the text format, packed or not."""
    server = serve(answer(PAGE))
    fetch(server.url)
    assert b"Accept: text/plain;version=0.0.4, */*;q=0.1\r\n" in server.requests[0]
    assert b"Accept-Encoding: gzip\r\n" in server.requests[0]


def test_chunked_page_is_proven_whole(serve, fetch, answer):
    """The last chunk proves the body whole too."""
    chunks = b"5\r\n# TYP\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(PAGE) - 5, PAGE[5:])
    server = serve(answer(content_length="", transfer_encoding="chunked") + chunks)
    assert fetch(server.url) == Fetched(PAGE, "text/plain", complete=True)


def test_page_that_ends_with_the_connection_is_not_proven_whole(serve, fetch, answer):
    """Without Content-Length and chunks nothing tells a cut page from a whole one."""
    server = serve(answer(content_length="", version="1.0") + PAGE)
    assert fetch(server.url) == Fetched(PAGE, "text/plain", complete=False)


def test_packed_page_is_unpacked(serve, fetch, answer):
    """Content-Encoding gzip is undone."""
    server = serve(answer(gzip.compress(PAGE), content_encoding="gzip"))
    assert fetch(server.url) == Fetched(PAGE, "text/plain", complete=True)


def test_connection_is_kept(serve, answer):
    """Two scrapes of one target use one connection."""
    server = serve(answer(PAGE))
    fetcher = Fetcher(server.url, 5.0)
    assert fetcher.fetch() == fetcher.fetch()
    fetcher.close()
    assert (server.connections, len(server.requests)) == (1, 2)


def test_environment_names_no_proxy(serve, fetch, answer, monkeypatch, closed_port):
    """A proxy in the environment does not catch the addresses of engines."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port}")
    monkeypatch.setenv("no_proxy", "")
    assert os.environ["http_proxy"]
    assert isinstance(fetch(serve(answer(PAGE)).url), Fetched)


def test_cookies_are_not_kept(serve, answer):
    """A target cannot make the session carry anything along."""
    server = serve(answer(PAGE, set_cookie="a=b"))
    fetcher = Fetcher(server.url, 5.0)
    fetcher.fetch(), fetcher.fetch()
    fetcher.close()
    assert b"cookie" not in server.requests[1].lower()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n", id="status line"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nX-B: 2\r\n", id="headers"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n" + PAGE * 9, id="body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", id="chunks"),
    ],
)
def test_dripping_answer_ends_at_the_deadline(serve, fetch, data):
    """One byte every 50 ms never makes the fetch last longer than its timeout."""
    server = serve(
        lambda client: (client.sock.sendall(data[:-9]), client.drip(data[-9:] * 9, 0.05))
    )
    waited = Waited()
    got = fetch(server.url, BRIEF)
    assert waited.seconds < BRIEF + 0.25
    assert got.reason is ScrapeFailure.TIMEOUT
    assert got.detail.startswith("no complete answer within 0.3s (")
    assert got.detail.endswith(" bytes received)")


@pytest.mark.parametrize("every", [0.2, 0.05])
def test_deadline_holds_from_the_first_byte_on(serve, fetch, every):
    """A status line that drips from its first byte on is cut off too."""
    server = serve(lambda client: client.drip(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n", every))
    assert fetch(server.url, BRIEF).reason is ScrapeFailure.TIMEOUT


def test_silence_ends_at_the_deadline(serve, fetch):
    """An engine that accepts and never answers is a timeout, not a refusal."""
    server = serve(lambda client: client.hang())
    got = fetch(server.url, BRIEF)
    detail = f"no answer from 127.0.0.1:{server.port} within 0.3s"
    assert got == ScrapeFailed(ScrapeFailure.TIMEOUT, detail)


def test_silent_tls_handshake_ends_at_the_deadline(serve, fetch):
    """A port that never answers the TLS greeting is a timeout too."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        got = fetch(f"https://127.0.0.1:{silent.getsockname()[1]}/metrics", BRIEF)
    assert got.reason is ScrapeFailure.TIMEOUT


def test_clock_decides_when_the_time_is_up(serve, fetch, answer):
    """The deadline is read from the clock that was given, not from the sockets' patience."""
    ticks = iter([0.0, 0.1])
    got = fetch(serve(answer(PAGE)).url, 5.0, clock=lambda: next(ticks, 6.0))
    assert got.reason is ScrapeFailure.TIMEOUT


def test_redirects_share_one_deadline(serve, fetch, answer):
    """Redirects that each take half the timeout do not add up to more than it."""
    there = answer(status="307 Temporary Redirect", location="/metrics")
    server = serve(lambda client: (client.closing.wait(0.2), client.sock.sendall(there)))
    waited = Waited()
    assert fetch(server.url, BRIEF).reason is ScrapeFailure.TIMEOUT
    assert waited.seconds < BRIEF + 0.25


def test_connection_that_ends_after_a_redirect_is_stale(serve, fetch, answer):
    """It ends as the next request comes, without notice: the fetch starts over on another one."""
    there = answer(status="307 Temporary Redirect", location="/metrics")
    server = serve(
        lambda client: (client.sock.sendall(there), client.listen()), there, answer(PAGE)
    )
    assert isinstance(fetch(server.url), Fetched)
    assert (server.connections, len(server.requests)) == (2, 3)


def test_next_address_is_tried(serve, fetch, answer, monkeypatch):
    """A host whose first address refuses is reached at its second."""
    server = serve(answer(PAGE))
    monkeypatch.setattr(deadline, "names", Names(lambda _: ["127.0.0.2", "127.0.0.1"]))
    assert isinstance(fetch(f"http://engine:{server.port}/"), Fetched)


def test_first_address_leaves_time_for_the_second(monkeypatch, closed_port, fetch):
    """Each address gets its share of the deadline, and one that hangs is no refusal."""
    shares = []

    def connect(address, timeout, **_):
        shares.append(timeout)
        raise TimeoutError if address[0] == "127.0.0.2" else ConnectionRefusedError

    monkeypatch.setattr(deadline, "names", Names(lambda _: ["127.0.0.2", "127.0.0.1"]))
    monkeypatch.setattr(deadline, "create_connection", connect)
    got = fetch(f"http://engine:{closed_port}/metrics", 1.0)
    assert shares[0] == pytest.approx(0.5, abs=0.1)
    assert got.reason is ScrapeFailure.TIMEOUT


def test_refused_connection_is_told_apart(fetch, closed_port):
    """A refused connection is observed dead; the address is named, the password is not."""
    got = fetch(f"http://user:secret@127.0.0.1:{closed_port}/metrics")
    detail = f"connection refused by 127.0.0.1:{closed_port}: nothing listens there"
    assert got == ScrapeFailed(ScrapeFailure.CONNECT, detail, refused=True)


def test_unknown_host_is_a_connect_failure(fetch, monkeypatch):
    """A name that does not resolve is not a refusal."""

    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(deadline, "names", Names(unknown))
    got = fetch("http://engine:8000/metrics")
    detail = "cannot resolve the host of engine:8000: Name or service not known"
    assert got == ScrapeFailed(ScrapeFailure.CONNECT, detail)


def test_host_name_that_is_none(fetch):
    """A label longer than DNS allows is a connect failure, not an exception."""
    got = fetch(f"http://{'a' * 70}:8000/metrics")
    assert got.reason is ScrapeFailure.CONNECT


def test_unusable_url_is_a_connect_failure(fetch):
    """A URL that cannot be fetched fails without its password."""
    got = fetch("ftp://user:secret@engine:8000/metrics")
    assert got == ScrapeFailed(
        ScrapeFailure.CONNECT, "not a URL that can be fetched, at 'engine:8000'"
    )


def test_close_without_an_answer_is_a_connect_failure(serve, fetch):
    """A fresh connection that is closed at once is not retried."""
    server = serve(lambda client: None)
    got = fetch(server.url)
    assert got.reason is ScrapeFailure.CONNECT
    assert "closed" in got.detail
    assert server.connections == 1


def test_stale_connection_is_renewed(serve, answer):
    """A kept connection that the server closes on the next request costs no scrape."""
    server = serve(answer(PAGE), lambda client: None, answer(PAGE))
    fetcher = Fetcher(server.url, 5.0)
    assert [type(fetcher.fetch()), type(fetcher.fetch())] == [Fetched, Fetched]
    fetcher.close()
    assert server.connections == 2


def test_stale_connection_is_renewed_once(serve, answer):
    """When the fresh connection is closed as well, the scrape has failed."""
    server = serve(answer(PAGE), lambda client: None)
    fetcher = Fetcher(server.url, 5.0)
    assert isinstance(fetcher.fetch(), Fetched)
    assert fetcher.fetch().reason is ScrapeFailure.CONNECT
    fetcher.close()
    assert server.connections == 2


def test_self_signed_certificate_is_a_tls_failure(serve, fetch, answer):
    """A certificate that nobody vouches for is refused, and the reason is named."""
    got = fetch(serve(answer(PAGE), tls=True).url)
    assert got.reason is ScrapeFailure.TLS
    assert "self-signed certificate" in got.detail.replace("self signed", "self-signed")


def test_plain_port_is_no_tls_port(serve, fetch, answer):
    """An http port asked for https says that the port does not speak TLS."""
    server = serve(b"")
    server._converse = lambda client: client.sock.sendall(answer(b"bad", "400 Bad Request"))
    got = fetch(server.url.replace("http://", "https://"))
    assert got.reason is ScrapeFailure.TLS
    assert "does not speak TLS" in got.detail


def test_responses_can_stand_in_for_a_server(fetch):
    """The transport is an ordinary requests adapter."""
    transport = "scorer.sources.deadline.DeadlineAdapter.send"
    with responses.RequestsMock(target=transport) as mock:
        mock.get("http://engine:8000/metrics", body=PAGE, content_type="text/plain")
        assert fetch("http://engine:8000/metrics").body == PAGE


def test_no_file_left_is_no_fault_of_the_target(serve, fetch, answer):
    """A daemon at its limit of open files says so, and not that the target is gone."""
    url = serve(answer(b"a 1\n")).url
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        got = fetch(url)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for each in held:
            os.close(each)
    assert got == ScrapeFailed(
        ScrapeFailure.LOCAL, "scorer itself cannot connect: Too many open files"
    )
