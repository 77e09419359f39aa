"""Large answers are compressed for those who accept it, and for nobody else; picks never."""

import asyncio
import gzip

import pytest

from scorer.codings import SMALLEST, accepts_gzip
from scorer.http.app import create_flask
from scorer.http.asgi import build_asgi
from scorer.http.pick import PickEndpoint
from tests.http.builders import chat, pool, ports, snapshot, target
from tests.http.harness import _exchange, call, http_scope, reply
from tests.http.wire import connected, feed

GZIP = (b"accept-encoding", b"gzip, deflate, br")
SNAPSHOT = "/api/v1/snapshot"


def page(size):
    """Return an exposition of so many bytes."""
    return lambda *_: ([("Content-Type", "text/plain; version=0.0.4"), ("Vary", "Accept")],
                       b"#" * size)  # fmt: skip


def application(size=SMALLEST, targets=30):
    given = ports(chat(targets), exposition=page(size))
    return build_asgi(given, create_flask(given), PickEndpoint(given))


def get(path, *headers, query=b"", method="GET", **changes):
    return call(application(**changes), path, query, method, headers)


@pytest.mark.parametrize(
    "path",
    ["/", "/targets/10.0.0.1:8000", "/metrics", "/api/v1/targets", "/static/status.css"],
)  # fmt: skip
def test_large_answer_is_compressed(path):
    """The same bytes, fewer of them; caches are told that there are two forms."""
    plain = get(path)
    small = get(path, GZIP)
    assert gzip.decompress(small.body) == plain.body
    assert len(small.body) < len(plain.body)
    assert small.headers["content-encoding"] == "gzip"
    assert small.headers["content-length"] == str(len(small.body))
    assert "content-encoding" not in plain.headers
    for answer in (plain, small):
        assert "Accept-Encoding" in answer.headers["vary"]


@pytest.mark.parametrize(("size", "coded"), [(SMALLEST - 1, None), (SMALLEST, "gzip")])
def test_small_answer_is_left_as_it_is(size, coded):
    """A packet is a packet."""
    answer = get("/metrics", GZIP, size=size)
    assert answer.headers.get("content-encoding") == coded
    assert answer.headers["vary"] == "Accept, Accept-Encoding"


def test_error_pages_too():
    """Whatever the status: here a name of two kilobytes that nobody has."""
    answer = get("/api/v1/targets/" + "x" * 2000, GZIP)
    assert answer.status == 404
    assert b"no such target" in gzip.decompress(answer.body)


def test_head_says_what_get_would_send():
    """Its length, its coding, no body."""
    head, whole = get("/", GZIP, method="HEAD"), get("/", GZIP)
    assert head.body == b""
    for name in ("content-length", "content-encoding", "vary"):
        assert head.headers[name] == whole.headers[name]


LONG = pool(target("x" * SMALLEST))


@pytest.mark.parametrize("path", ["/pick", "/pick/v1/chat/completions"])
def test_pick_is_never_compressed(path):
    """However long the names in it are: it may not wait for that."""
    given = ports(LONG)
    app = build_asgi(given, create_flask(given), PickEndpoint(given))
    answer = call(app, path, headers=[GZIP])
    assert answer.json["target"] == LONG.targets[0].target
    assert not {"content-encoding", "vary"} & set(answer.headers)


def test_pick_on_a_connection_is_never_compressed():
    """Nor where it takes the short way."""
    published = snapshot(LONG)
    with connected(snapshot=lambda: published) as (connection, wire, loop):
        feed(connection, loop, b"GET /pick HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
        assert LONG.targets[0].url.encode() in wire.sent


@pytest.mark.parametrize("coded", [(), (GZIP,)], ids=["plain", "gzip"])
def test_file_that_is_known_is_not_sent_again(coded):
    """Its tag is weak, as it stands for both forms, and holds for both."""
    tag = get("/static/status.css", *coded).headers["etag"]
    assert tag.startswith('W/"')
    for other in ((), (GZIP,)):
        again = get("/static/status.css", (b"if-none-match", tag.encode()), *other)
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == tag
        assert "Accept-Encoding" in again.headers["vary"]


def test_part_of_a_file_stays_a_part():
    """Bytes of the file, not of its compressed form."""
    whole = get("/static/status.css").body
    part = get("/static/status.css", GZIP, (b"range", b"bytes=0-1999"))
    assert (part.status, part.body) == (206, whole[:2000])
    assert "content-encoding" not in part.headers


def test_snapshot_has_a_tag_for_each_form():
    """Either is known again, whoever asks; a proxy's weak one too."""
    app = application()
    plain, small = call(app, SNAPSHOT), call(app, SNAPSHOT, headers=[GZIP])
    assert gzip.decompress(small.body) == plain.body
    assert small.headers["etag"] == plain.headers["etag"][:-1] + '-gzip"'
    for tag in (plain.headers["etag"], small.headers["etag"], "W/" + small.headers["etag"]):
        for coded in ([], [GZIP]):
            again = call(app, SNAPSHOT, headers=[(b"if-none-match", tag.encode()), *coded])
            assert (again.status, again.body) == (304, b"")
            assert again.headers["etag"] == tag.removeprefix("W/")


def test_small_snapshot_is_left_as_it_is():
    """One without targets."""
    given = ports()
    answer = call(build_asgi(given, create_flask(given), PickEndpoint(given)), SNAPSHOT,
                  headers=[GZIP])  # fmt: skip
    assert "content-encoding" not in answer.headers
    assert not answer.headers["etag"].endswith('-gzip"')


def test_snapshot_is_compressed_once(monkeypatch):
    """However many ask for a version at a time."""
    done = []
    pack = gzip.compress
    monkeypatch.setattr(gzip, "compress", lambda *a, **k: done.append(a) or pack(*a, **k))
    app = application()

    async def many():
        scopes = [http_scope(SNAPSHOT, headers=[GZIP]) for _ in range(20)]
        return await asyncio.gather(*(_exchange(app, scope) for scope in scopes))

    bodies = {reply(sent).body for sent in asyncio.run(many())}
    assert (len(bodies), len(done)) == (1, 1)


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("GZip;q=0.5", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("identity", False),
        ("xgzip", False),
    ],
)
def test_accept_encoding(header, accepted):
    """Gzip is used for those who name it and do not rule it out."""
    assert accepts_gzip(header) is accepted
    answer = get("/metrics", (b"accept-encoding", header.encode()))
    assert ("content-encoding" in answer.headers) is accepted
