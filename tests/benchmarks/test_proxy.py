"""The proxy benchmark: its arithmetic, what it leaves out, and that its page is generated."""

import json
from pathlib import Path

import pytest

from benchmarks.proxy.backend import ANSWER, Engine
from benchmarks.proxy.report import added, markdown
from benchmarks.proxy.ways import DIRECT, EXAMPLES, WAYS, Site, adapted, needs

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def row(*p50s):
    """Return a row with these latencies."""
    return {"one": [{"p50": value} for value in p50s]}


def test_added_is_of_the_same_round():
    """A round in which the whole machine was slow adds nothing."""
    assert added(row(110, 520, 115), row(100, 500, 100), "one", "p50") == 15


def test_bases_are_ways_that_come_before():
    """Each way is compared with one that is in the table."""
    seen = {DIRECT}
    for way in WAYS:
        assert way.base in seen
        seen.add(way.name)


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


def test_page_is_generated():
    """The committed page is what the committed figures give."""
    told = json.loads((RESULTS / "proxy.json").read_text())
    assert (RESULTS / "proxy.md").read_text() == markdown(told)
