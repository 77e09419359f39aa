"""Answers that arrive and are no page: status, redirects, size, framing, content."""

import gzip
import zlib

import pytest

from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.sources.content import decoded
from scorer.sources.fetch import Fetched, Fetcher

PAGE = b"# TYPE up gauge\nup 1\n"
LIMIT = 4096


@pytest.fixture
def fetch(serve):
    """Return a function that fetches from a server with the given answers."""

    def fetch(*answers, max_bytes: int = LIMIT):
        fetcher = Fetcher(serve(*answers).url, 5.0, max_bytes=max_bytes)
        got = fetcher.fetch()
        fetcher.close()
        return got

    return fetch


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("401 Unauthorized", ScrapeFailure.AUTH),
        ("403 Forbidden", ScrapeFailure.AUTH),
        ("404 Not Found", ScrapeFailure.HTTP_STATUS),
        ("503 Service Unavailable", ScrapeFailure.HTTP_STATUS),
        ("204 No Content", ScrapeFailure.HTTP_STATUS),
    ],
)
def test_other_status_than_200_fails(fetch, answer, status, reason):
    """Only 200 is a page; keys and logins have a reason of their own."""
    assert fetch(answer(PAGE, status)) == ScrapeFailed(reason, f"status {status}")


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_redirect_within_the_host_is_followed(fetch, answer, status):
    """A mount answers /metrics with a redirect to /metrics/."""
    got = fetch(answer(b"moved", status, location="/metrics/"), answer(PAGE))
    assert got == Fetched(PAGE, "text/plain", complete=True)


def test_redirect_keeps_the_connection(serve, answer):
    """The page behind a redirect costs no connection of its own."""
    server = serve(answer(b"moved", "307 Temporary", location="/metrics/"), answer(PAGE))
    fetcher = Fetcher(server.url, 5.0)
    assert isinstance(fetcher.fetch(), Fetched)
    fetcher.close()
    assert server.connections == 1
    assert server.requests[1].startswith(b"GET /metrics/ HTTP/1.1")


def test_redirect_loop_ends(fetch, answer):
    """The fourth redirect is one too many, and the message says what it looks like."""
    got = fetch(answer(status="302 Found", location="/again"))
    assert got.reason is ScrapeFailure.HTTP_STATUS
    assert got.detail.startswith("more than 3 redirects, last to http://127.0.0.1:")
    assert got.detail.endswith("/again: a loop?")


@pytest.mark.parametrize(
    "elsewhere",
    ["http://user:secret@other:9/metrics", "//127.0.0.1:1/", "https://127.0.0.1/"],
)
def test_redirect_to_another_host_is_refused(fetch, answer, elsewhere):
    """Another host, port or scheme is not this target; its password is not repeated."""
    got = fetch(answer(status="302 Found", location=elsewhere))
    assert got.reason is ScrapeFailure.HTTP_STATUS
    assert got.detail.startswith("redirected to another host: ")
    assert "secret" not in got.detail


@pytest.mark.parametrize("location", ["http://[::1/", "http://engine:port/"])
def test_redirect_to_no_url_fails(fetch, answer, location):
    """A Location that cannot be parsed is a failure, not an exception."""
    got = fetch(answer(status="302 Found", location=location))
    assert got == ScrapeFailed(ScrapeFailure.HTTP_STATUS, "redirected to what is no URL")


def test_redirect_with_an_endless_body_is_not_read_to_its_end(fetch, answer):
    """A redirect's body is dropped after 64 KiB; the page behind it is still found."""
    endless = answer(b"x" * 200_000, "307 Temporary", location="/metrics/")
    assert isinstance(fetch(endless, answer(PAGE)), Fetched)


def test_body_over_the_limit_is_refused(fetch, answer):
    """A body is read only up to the limit."""
    got = fetch(answer(b"a 1\n" * LIMIT))
    assert got == ScrapeFailed(ScrapeFailure.TOO_LARGE, "more than 4096 bytes")


def test_gzip_bomb_is_refused(fetch, answer):
    """The limit holds for what comes out of the packing as well."""
    got = fetch(answer(gzip.compress(b"\n" * 1_000_000), content_encoding="gzip"))
    assert got == ScrapeFailed(ScrapeFailure.TOO_LARGE, "more than 4096 bytes once unpacked")


def test_short_body_is_truncated(fetch, answer):
    """Fewer bytes than Content-Length says are never a page."""
    got = fetch(lambda client: client.sock.sendall(answer(PAGE, content_length="99")))
    assert got.reason is ScrapeFailure.TRUNCATED


@pytest.mark.parametrize("chunks", [b"5\r\nup 1\n\r\n", b"5\r\nup 1\n\r\nzz\r\n", b"99\r\nup"])
def test_broken_chunks_are_truncated(fetch, answer, chunks):
    """A missing last chunk, a chunk without a size and a short chunk all fail."""
    head = answer(content_length="", transfer_encoding="chunked")
    got = fetch(lambda client: client.sock.sendall(head + chunks))
    assert got.reason is ScrapeFailure.TRUNCATED


@pytest.mark.parametrize(
    ("headers", "body", "reason", "said"),
    [
        ({}, b"<!DOCTYPE html><html></html>", ScrapeFailure.WRONG_CONTENT, "an HTML page"),
        ({"content_type": "text/html"}, PAGE, ScrapeFailure.WRONG_CONTENT, "an HTML page"),
        ({}, b"", ScrapeFailure.EMPTY, "empty body (0 bytes)"),
        ({}, b" \r\n\n", ScrapeFailure.EMPTY, "empty body (4 bytes)"),
        ({}, gzip.compress(PAGE, mtime=0), ScrapeFailure.WRONG_CONTENT, "no Content-Encoding"),
        ({"content_encoding": "gzip"}, PAGE, ScrapeFailure.WRONG_CONTENT, "is not gzip"),
        (
            {"content_encoding": "gzip"},
            gzip.compress(gzip.compress(PAGE, mtime=0), mtime=0),
            ScrapeFailure.WRONG_CONTENT,
            "packed twice",
        ),
        ({"content_encoding": "br"}, PAGE, ScrapeFailure.WRONG_CONTENT, "encoding 'br'"),
    ],
)
def test_body_that_is_no_page_is_named(fetch, answer, headers, body, reason, said):
    """What was got instead of metrics is said in words."""
    got = fetch(answer(body, **headers))
    assert got.reason is reason
    assert said in got.detail


def test_answer_that_is_not_http(fetch):
    """A port that speaks something else is named as that."""
    got = fetch(lambda client: client.sock.sendall(b"SSH-2.0-OpenSSH_9.6\r\n"))
    assert got.reason is ScrapeFailure.WRONG_CONTENT
    assert "no valid HTTP answer" in got.detail


def test_details_are_short_lines(fetch, answer):
    """A detail is one line of at most 200 characters whatever the target sends."""
    got = fetch(answer(status="302 Found", location="http://other/" + "a" * 500))
    assert len(got.detail) == 200
    assert "\n" not in got.detail


def test_cut_gzip_is_truncated():
    """Packed data that ends early is a cut page, not a wrong one."""
    got = decoded(gzip.compress(PAGE * 50)[:-9], "gzip", LIMIT)
    assert got == ScrapeFailed(ScrapeFailure.TRUNCATED, "the gzip data ends early")


def test_damaged_gzip_is_named():
    """A checksum that does not fit is told from a body that is not gzip at all."""
    damaged = gzip.compress(PAGE)[:-8] + bytes(8)
    got = decoded(damaged, "gzip", LIMIT)
    assert got.reason is ScrapeFailure.WRONG_CONTENT
    assert got.detail.startswith("broken gzip data: ")


def test_gzip_members_are_joined():
    """Several gzip members in a row are one body, as RFC 1952 has it."""
    assert decoded(gzip.compress(b"a 1\n") + gzip.compress(b"b 2\n"), "GZIP", 99) == b"a 1\nb 2\n"


def test_raw_deflate_is_not_gzip():
    """Data of zlib is not what Content-Encoding gzip promises."""
    assert decoded(zlib.compress(PAGE), "gzip", LIMIT).reason is ScrapeFailure.WRONG_CONTENT


def test_soup_of_gzip_members_is_refused():
    """Each member copies what follows it, so a body of empty ones would take for ever."""
    got = decoded(gzip.compress(b"") * 100_000, "gzip", LIMIT)
    assert got == ScrapeFailed(ScrapeFailure.WRONG_CONTENT, "more than 16 gzip members")


@pytest.mark.parametrize("blank", [b" ", b"\n", b"\xef\xbb\xbf"])
def test_page_of_blanks_is_empty(fetch, answer, blank):
    """However many there are."""
    got = fetch(answer(blank * 200_000), max_bytes=1_000_000)
    assert got.reason is ScrapeFailure.EMPTY
