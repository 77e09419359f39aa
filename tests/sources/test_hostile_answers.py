"""Answers that are no HTTP, or HTTP with a trap: always a reason, never an exception."""

import gzip
import random
import zlib

import pytest

from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.sources.fetch import Fetched, Fetcher

PAGE = b"# TYPE up gauge\nup 1\n"
LIMIT = 65_536
OK = b"HTTP/1.1 200 OK\r\n"
PLAIN = OK + b"Content-Type: text/plain\r\n"
CHUNKED = PLAIN + b"Transfer-Encoding: chunked\r\n\r\n"
SIZED = PLAIN + b"Content-Length: %d\r\n" % len(PAGE)
FOUND = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: "


def length(*values: bytes) -> bytes:
    """Return an answer with each of the ``values`` as a Content-Length."""
    lines = b"".join(b"Content-Length: " + value + b"\r\n" for value in values)
    return PLAIN + lines + b"\r\n" + PAGE


def packed(body: bytes, encoding: bytes = b"gzip") -> bytes:
    """Return an answer whose body is said to be packed."""
    return PLAIN + b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n" % (
        encoding, len(body),
    ) + body  # fmt: skip


CRAFTED = {
    "nothing": b"",
    "line feeds": b"\r\n" * 1000,
    "nul": b"\0" * 1000,
    "a shell": b"SSH-2.0-OpenSSH_9.6\r\n",
    "tls alert": b"\x15\x03\x03\x00\x02\x02\x46",
    "http/2 settings": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" * 9,
    "http/0.9": PAGE,
    "other version": b"HTTP/3.0 200 OK\r\n\r\n" + PAGE,
    "no version": b"HTTP/ 200 OK\r\n\r\n" + PAGE,
    "status only": b"HTTP/1.1\r\n\r\n",
    "status of letters": b"HTTP/1.1 two OK\r\n\r\n",
    "status below": b"HTTP/1.1 -200 OK\r\n\r\n" + PAGE,
    "status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n" + PAGE,
    "status in other digits": "HTTP/1.1 \u0662\u0660\u0660 OK\r\n\r\n".encode() + PAGE,
    "endless status line": b"HTTP/1.1 200 " + b"x" * 70_000,
    "continue for ever": b"HTTP/1.1 100 Continue\r\n\r\n" * 3000,
    "early hints": b"HTTP/1.1 103 Early Hints\r\n\r\n" + SIZED + b"\r\n" + PAGE,
    "switching protocols": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "many headers": OK + b"A: b\r\n" * 200 + b"\r\n" + PAGE,
    "endless header": OK + b"A: " + b"x" * 70_000 + b"\r\n\r\n" + PAGE,
    "header without colon": OK + b"spam\r\n\r\n" + PAGE,
    "header without name": OK + b": x\r\n\r\n" + PAGE,
    "header with nul": OK + b"A\0: \0\r\n\r\n" + PAGE,
    "header not ascii": OK + b"\xff\xfe: \xff\r\n\r\n" + PAGE,
    "folded header": OK + b"Content-Type: text/plain\r\n" + b" x\r\n" * 1000 + b"\r\n" + PAGE,
    "no header end": OK + b"Content-Type: text/plain\r\n",
    "length below": length(b"-5"),
    "length with sign": length(b"+21"),
    "length with underscore": length(b"2_1"),
    "length in other digits": length("\u0662\u0661".encode()),
    "length superscript": length(b"\xb2"),
    "length of letters": length(b"many"),
    "length empty": length(b""),
    "length fractional": length(b"21.0"),
    "length huge": length(b"9" * 30),
    "length very huge": length(b"9" * 5000),
    "two lengths": length(b"5", b"7"),
    "list of lengths": length(b"5, 7"),
    "chunk of -5": CHUNKED + b"-5\r\nup 1\n\r\n0\r\n\r\n",
    "chunk of -1": CHUNKED + b"-1\r\n" + PAGE * 9000,
    "chunk of 0x": CHUNKED + b"0x\r\n" + PAGE,
    "chunk of nothing": CHUNKED + b"\r\n" + PAGE,
    "chunk huge": CHUNKED + b"f" * 60 + b"\r\n" + PAGE,
    "chunk line endless": CHUNKED + b"1" * 70_000,
    "chunk extension endless": CHUNKED + b"5;" + b"x" * 70_000,
    "chunk not closed": CHUNKED + b"5\r\nup 1\nspam",
    "no chunks": CHUNKED,
    "chunks and a length": PLAIN + b"Content-Length: 5\r\n" + CHUNKED[len(PLAIN) :] + b"zz",
    "trailers for ever": CHUNKED + b"15\r\n" + PAGE + b"\r\n0\r\n" + b"A: b\r\n" * 99_999,
    "other transfer encoding": PLAIN + b"Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nup 1\n",
    "not packed": packed(PAGE),
    "packed twice": packed(gzip.compress(gzip.compress(PAGE))),
    "raw deflate": packed(zlib.compress(PAGE)),
    "unknown packing": packed(PAGE, b"br"),
    "packing not ascii": packed(PAGE, b"\xff"),
    "empty members": packed(gzip.compress(b"") * 3000),
    "bomb": packed(gzip.compress(b"\n" * 1_000_000)),
    "to nowhere": FOUND + b"\r\n\r\n",
    "to a bad port": FOUND + b"http://127.0.0.1:99999/\r\n\r\n",
    "to a bad host": FOUND + b"http://[::1/\r\n\r\n",
    "to another scheme": FOUND + b"file:///etc/passwd\r\n\r\n",
    "to a blank": FOUND + b"/a b\0c\x7f\r\n\r\n",
    "to letters": FOUND + b"/\xff\xfe%zz%\r\n\r\n",
    "to itself": FOUND + b"/metrics\r\n\r\n",
    "to a long place": FOUND + b"/" + b"x" * 60_000 + b"\r\n\r\n",
}  # fmt: skip


@pytest.fixture
def fetch(serve):
    """Return a function that fetches from a server that sends these bytes and closes."""

    def fetch(data: bytes):
        fetcher = Fetcher(serve(lambda client: client.sock.sendall(data)).url, 2.0, max_bytes=LIMIT)
        got = fetcher.fetch()
        fetcher.close()
        return got

    return fetch


def well_said(got: Fetched | ScrapeFailed) -> bool:
    """Return whether it is a page, or a reason of the closed set with a short sentence."""
    if isinstance(got, Fetched):
        return len(got.body) <= LIMIT
    told = isinstance(got.reason, ScrapeFailure) and 0 < len(got.detail) <= 200
    return told and "Traceback" not in got.detail and "object at 0x" not in got.detail


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_answer_has_a_reason(fetch, name):
    """No answer makes a fetch raise, and none of these is a page taken for whole."""
    got = fetch(CRAFTED[name])
    assert well_said(got)
    assert isinstance(got, ScrapeFailed) or not got.complete or got.body == PAGE


def test_random_answers_have_a_reason(fetch):
    """Neither do bytes that nobody thought of: noise, and answers with some bytes changed."""
    chance = random.Random(20)
    valid = [SIZED + b"\r\n" + PAGE, CHUNKED + b"15\r\n" + PAGE + b"\r\n0\r\n\r\n"]
    for number in range(60):
        data = bytearray(chance.choice(valid))
        if number % 3 == 0:
            data = bytearray(chance.randbytes(chance.randrange(200)))
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data) + 1)
            data[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        assert well_said(fetch(bytes(data))), bytes(data)


@pytest.mark.parametrize("size", [b"-5", b"-1", b"-0x5"])
def test_chunk_of_less_than_nothing_is_truncated(fetch, size):
    """The size of a chunk that cannot be is a broken answer, and never read without end."""
    got = fetch(CHUNKED + size + b"\r\n" + PAGE * 9000)
    assert got.reason is ScrapeFailure.TRUNCATED


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (length(b"5", b"7"), "two Content-Length headers, '5' and '7'"),
        (length(b"21", b"7" * 50), "two Content-Length headers, '21' and '77777777777777777777'"),
        (length(b"5, 7"), "its Content-Length is '5, 7'"),
        (length(b"-5"), "its Content-Length is '-5'"),
        (length(b""), "its Content-Length is ''"),
    ],
)
def test_length_that_cannot_be_right_is_refused(fetch, answer, said):
    """Where the page ends cannot be told, and the reason says what stands there."""
    got = fetch(answer)
    assert got.reason is ScrapeFailure.WRONG_CONTENT
    assert said in got.detail


def test_same_length_twice_is_one_length(fetch):
    """RFC 9110 lets a recipient take repeated equal lengths for one."""
    size = b"%d" % len(PAGE)
    assert fetch(length(size, size)) == Fetched(PAGE, "text/plain", complete=True)
