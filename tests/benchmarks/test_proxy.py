"""The proxy benchmark: its arithmetic, what it leaves out, and that its page is generated."""

import json
from pathlib import Path

import pytest

from benchmarks.proxy.backend import ANSWER, Engine
from benchmarks.proxy.fixed import Picker
from benchmarks.proxy.outage_report import Asked, Outage, summary
from benchmarks.proxy.outage_report import markdown as outage_page
from benchmarks.proxy.report import added, markdown, picked
from benchmarks.proxy.ways import (
    DIRECT,
    EXAMPLES,
    FIXED,
    UNIX,
    WAYS,
    Site,
    adapted,
    needs,
    patient,
)  # fmt: skip

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def row(*p50s):
    """Return a row with these latencies."""
    return {"one": [{"p50": value} for value in p50s]}


def test_added_is_of_the_same_round():
    """A round in which the whole machine was slow adds nothing."""
    assert added(row(110, 520, 115), row(100, 500, 100), "one", "p50") == 15


def test_a_row_without_its_picks_is_not_compared():
    """Requests without a pick are cheaper, which says nothing of what one costs."""
    asks = {"asks": True, "one": [{"picks": 1.002}, {"picks": 0.4}, {"picks": 1.0}]}
    assert picked(asks, "one")
    asks["one"][0]["picks"] = 0.7
    assert not picked(asks, "one")
    assert picked({**asks, "asks": False}, "one")


def test_each_pick_may_take_its_time():
    """Every way that asks has another deadline than the one it ships with, and only that."""
    for way in ("nginx/auth_request.conf", "haproxy/lua.cfg", "envoy/ext-authz.yaml"):
        text = (EXAMPLES / way).read_text()
        changed = [
            line
            for line, other in zip(text.splitlines(), patient(text).splitlines(), strict=True)
            if line != other
        ]
        assert changed
        assert all("timeout" in line.lower() for line in changed)
    source = (EXAMPLES.parent / "integrations" / "envoy" / "pick.lua").read_text()
    assert "TIMEOUT_MS, TELL_MS = 500, 1000" in patient(source)


def test_bases_are_ways_that_come_before():
    """Each way is compared with one that is in the table."""
    seen = {DIRECT}
    for way in WAYS:
        assert way.base in seen
        seen.add(way.name)


NETLOC, UDP, FIXED_AT = "127.0.0.1:19808", "127.0.0.1:19809", "127.0.0.1:19800"
WHOM = {UNIX: {NETLOC: "unix:/here/s"}, FIXED: {NETLOC: FIXED_AT, UDP: FIXED_AT}}
PORTS = dict.fromkeys((8080, 9145, *range(9800, 9820)), 7) | {9808: 19808, 9809: 19809}


def told(name, folder):
    """Return a way of nginx and its configuration."""
    [way] = [way for way in WAYS if way.name == name]
    place = folder / name
    place.mkdir()
    targets = ("127.0.0.1:11", "127.0.0.1:12")
    way.command(Site(place, 1, NETLOC, targets, PORTS, "/here/s", FIXED_AT))
    return way, (place / "nginx.conf").read_text().replace(str(place), "")


@pytest.mark.parametrize("name", ["nginx, auth_request", "nginx, Lua with feedback"])
@pytest.mark.parametrize(("ending", "asks"), [(UNIX, True), (FIXED, False)])
def test_variants_differ_in_whom_they_ask_alone(tmp_path, name, ending, asks):
    """They ask as the way of the same name does, and know no other address of the daemon."""
    (way, text), (plain, text_of_plain) = told(name + ending, tmp_path), told(name, tmp_path)
    assert (way.base, way.asks, plain.asks) == (plain.base, asks, True)
    assert NETLOC not in text
    for address, other in WHOM[ending].items():
        text_of_plain = text_of_plain.replace(address, other)
    assert text == text_of_plain


def test_examples_of_envoy_are_there():
    """The ways of this tree are not left out by a wrong path."""
    assert [way.name for way in WAYS if way.name.startswith("Envoy") and way.missing()] == []


def test_missing_file_and_program_are_named():
    """So that the page says why a way is not in it."""
    absent = EXAMPLES / "nowhere.conf"
    assert needs(absent, command="cat")() == "examples/nowhere.conf"
    assert needs(command="no-such-program")() == "no-such-program"
    assert needs(command="cat")() == ""


def test_addresses_are_those_of_the_site(tmp_path):
    """Engines, the daemon and the ports of its listeners; other numbers stay."""
    site = Site(tmp_path, 1, "127.0.0.1:7", ("127.0.0.1:11", "127.0.0.1:12"), {9808: 7, 9809: 8})
    text = "server 10.0.0.2:8000; scorer 127.0.0.1:9808 udp 127.0.0.1:9809 size 9808"
    assert adapted(text, site) == (
        "server 127.0.0.1:12; scorer 127.0.0.1:7 udp 127.0.0.1:8 size 9808"
    )


class Sent(list):
    """What a connection wrote."""

    write = list.append


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_engine_reads_requests_in_any_pieces(step):
    """Two completions with bodies and one look at the page, however they are cut."""
    post = b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
    data = post + b"GET /metrics HTTP/1.1\r\n\r\n" + post
    engine, sent = Engine(), Sent()
    engine.connection_made(sent)
    for at in range(0, len(data), step):
        engine.data_received(data[at : at + step])
    first, page, last = sent
    assert first == last == ANSWER
    assert b"vllm:num_requests_running" in page


@pytest.mark.parametrize(
    ("path", "status"),
    [("/pick?format=headers", b"204"), ("/pick?format=json", b"200"), ("/api/v1/snapshot", b"503")],
)
def test_picker_that_decides_nothing_names_its_target(path, status):
    """In headers and in JSON; it knows nothing else."""
    picker, sent = Picker("10.0.0.1:8000"), Sent()
    picker.connection_made(sent)
    picker.data_received(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = sent[0].partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert (b"x-scorer-target: 10.0.0.1:8000\r\n" in head) == (status != b"503")
    if body:
        assert json.loads(body)["target"] == "10.0.0.1:8000"
        assert f"content-length: {len(body)}".encode() in head


def test_page_is_generated():
    """The committed page is what the committed figures give."""
    told = json.loads((RESULTS / "proxy.json").read_text())
    assert (RESULTS / "proxy.md").read_text() == markdown(told)


def asked(at, head, engine, failed=""):
    """Return a request that had its first token 0.1 s after the head."""
    return Asked(at, head, head + 0.1, engine, failed)


def test_outage_is_told_by_phases():
    """Before the kill, until a new daemon is ready, and after: counts, times, shares."""
    requests = [
        *(asked(at, 0.002, "a") for at in range(10)),
        *(asked(at, 0.004, "ab"[at % 2]) for at in range(10, 25)),
        asked(30, 0.0, "", "503"),
        *(asked(at, 0.003, "b") for at in range(31, 40)),
    ]
    told = summary(Outage("x", 10.0, 20.0, 25.0, requests), ["a", "b"])
    before, without, after = told["phases"].values()
    assert [phase["requests"] for phase in told["phases"].values()] == [10, 15, 10]
    assert [phase["failed"] for phase in told["phases"].values()] == [0, 0, 1]
    assert (before["head"][0], without["head"][0], after["head"][0]) == (2.0, 4.0, 3.0)
    assert (before["shares"], after["shares"]) == ([100.0, 0.0], [0.0, 100.0])
    assert without["shares"] == [53.3, 46.7]


def test_outage_page_is_generated():
    """The committed page is what the committed figures give."""
    told = json.loads((RESULTS / "outage.json").read_text())
    assert (RESULTS / "outage.md").read_text() == outage_page(told)
