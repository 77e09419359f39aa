"""Pages made to freeze or bloat whoever reads them: bounded steps, bounded memory, a reason."""

import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from scorer.core.judge import judge_pool
from scorer.core.outstanding import NOTHING
from scorer.core.samples import Page, ScrapeFailed
from scorer.core.vocabulary import Reason, ScrapeFailure, State
from scorer.mappings.shipped import engine_mappings
from scorer.sources import exposition
from scorer.sources.exposition import CHUNK, MAX_ROWS, Exposition, parse_exposition
from scorer.sources.fetch import MAX_BYTES
from scorer.sources.mapping import PageReader
from scorer.sources.places import Place, ScrapeTarget
from tests.core.builders import scrape, target

NAMES = frozenset().union(*(each.names for each in engine_mappings() if each.format == "text"))
REAL = Path(__file__).parent.parent / "data" / "expositions" / "vllm" / "v1-dp2.prom"
WANTED = "vllm:num_requests_running"
PLAIN, OPENMETRICS = "text/plain", "application/openmetrics-text"
END = b"\n# EOF\n"
MOST_STEPS = 2 * MAX_BYTES // CHUNK + 2
RATIO = 50.0
"""Processor time of a hostile page at most, as multiple of a harmless one of its size.

A third of that goes into the labels of a million characters of rows; it is spent in small
steps of Python, between which others get their turn.
"""


def filled(piece: str, head: str = "", tail: str = "\n") -> bytes:
    """Return a page as large as a page may be, of one piece over and over."""
    room = MAX_BYTES - len(head.encode()) - len(tail.encode()) - len(END)
    return (head + piece * (room // len(piece.encode())) + tail).encode()


def soup(line: str) -> bytes:
    """Return a page of as many different lines; ``%d`` is the number of each."""
    size = len((line % 1_000_000).encode())
    return "".join(
        line % number for number in range(1_000_000, 1_000_000 + MAX_BYTES // size)
    ).encode()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "blanks": lambda: filled(" "),
    "blanks before a row": lambda: filled(" ", "\n", f"{WANTED} 1\n"),
    "lines of blanks": lambda: filled("\n" + " \t" * 30_000),
    "line feeds": lambda: filled("\n"),
    "braces": lambda: filled("{", WANTED),
    "lines of braces": lambda: filled("\n" + WANTED + "{" * 60_000),
    "quotes": lambda: filled("\n" + WANTED + '{x="' + '"' * 60_000),
    "label soup": lambda: soup("\n" + WANTED + '{x="%d",' + 'y="",z="\\"\\\\"' * 1 + "} 1"),
    "long label soup": lambda: soup(
        "\n" + WANTED + '{x="%d"' + "".join(f',l{n}="a"' for n in range(7_000)) + "} 1"
    ),
    "labels of a line": lambda: soup(
        "\n" + WANTED + '{x="%d"' + "".join(f',l{n}="a"' for n in range(5_000)) + "} 1"
    ),
    "escapes": lambda: soup("\n" + WANTED + '{x="%d' + '\\"' * 30_000 + '"} 1'),
    "escaped escapes": lambda: soup("\n" + WANTED + '{x="%d' + "\\\\" * 30_000 + '"} 1'),
    "escapes of both kinds": lambda: soup("\n" + WANTED + '{x="%d' + '\\\\\\"' * 15_000 + '"} 1'),
    "line feeds in a label": lambda: soup("\n" + WANTED + '{x="%d' + "\\n" * 30_000 + '"} 1'),
    "escapes in a name": lambda: soup("\n" + WANTED + '{x="%d","' + '\\"' * 30_000 + '"="a"} 1'),
    "commas": lambda: soup("\n" + WANTED + '{x="%d"' + "," * 60_000 + "} 1"),
    "one line of a row": lambda: filled("x", WANTED + '{x="', '"} 1\n'),
    "one line of nothing wanted": lambda: filled("x"),
    "exemplar soup": lambda: filled("\n" + WANTED + ' 1 # {a="b"} 1' + ' # {a="b"}' * 5_000),
    "open exemplars": lambda: filled("\n" + WANTED + '{a="' + '"{"' * 20_000 + " 1"),
    "rows of one series": lambda: filled(f"\n{WANTED} 1"),
    "rows of many series": lambda: soup("\n" + WANTED + '{x="%d"} 1'),
    "almost rows": lambda: filled("\n" + WANTED[:-1]),
    "comments": lambda: filled("\n# a"),
    "types": lambda: filled(f"\n# TYPE {WANTED} gauge"),
    "backslashes": lambda: filled("\\", WANTED + '{x="'),
    "nul": lambda: filled("\0"),
    "nul in rows": lambda: filled(f"\n{WANTED}\0 1"),
    "carriage returns": lambda: filled(f"{WANTED} 1\r"),
    "not utf-8": lambda: filled("\n# a") + b"\xff\n",
    "wide letters": lambda: filled("\n# \U0001f525"),
    "byte-order marks": lambda: filled("\ufeff"),
}  # fmt: skip


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Spy:
    """A pattern that notes the longest text it was given."""

    longest = 0

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def __getattr__(self, name: str) -> Callable[..., object]:
        """Return a method of the pattern that notes the length of its text."""

        def call(text: str, *more: int) -> object:
            Spy.longest = max(Spy.longest, len(text))
            return getattr(self._pattern, name)(text, *more)

        return call


@pytest.fixture
def spied(monkeypatch):
    """Let every regular expression that reads pages note what it is given."""
    rows, types = exposition._rows, exposition._types
    monkeypatch.setattr(Spy, "longest", 0)
    monkeypatch.setattr(exposition, "_rows", lambda names: Spy(rows(names)))
    monkeypatch.setattr(exposition, "_types", lambda names: Spy(types(names)))
    for name in ("_LABELS", "_NAME"):
        monkeypatch.setattr(exposition, name, Spy(getattr(exposition, name)))


def timed(body: bytes, kind: str) -> float:
    """Return the processor seconds that reading a page takes, without what coverage adds."""
    tracer = sys.gettrace()
    sys.settrace(None)
    began = time.thread_time()
    got = parse_exposition(body, kind, NAMES, complete=True)
    declared = got.declared if isinstance(got, Exposition) else frozenset()
    took = time.thread_time() - began
    sys.settrace(tracer)
    assert declared <= NAMES
    return took


@pytest.fixture(scope="module")
def harmless() -> float:
    """Return the processor seconds for a page of the largest size, of rows nobody wants."""
    lines = [line for line in REAL.read_text().splitlines() if "_bucket{" in line]
    body = filled("\n".join(lines) + "\n")
    return min(timed(body, PLAIN) for _ in range(3))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_page_takes_bounded_steps(spied, name):
    """No expression ever sees more than a chunk, and there are as many chunks as bytes allow."""
    page = HOSTILE[name]()
    for body, kind in ((page, PLAIN), (page + END, OPENMETRICS)):
        steps: list[int] = []
        check = partial(steps.append, 1)
        got = parse_exposition(body, kind, NAMES, complete=True, check=check)
        if isinstance(got, ScrapeFailed):
            assert got.detail
        else:
            assert sum(map(len, got.rows.values())) <= MAX_ROWS
            assert got.declared <= NAMES
        assert 1 <= len(steps) <= MOST_STEPS
        assert Spy.longest <= CHUNK + 1


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_page_costs_little_more_than_a_harmless_one(harmless, name):
    """What a page costs depends on its size, hardly on what it says."""
    body = HOSTILE[name]() + END
    assert min(timed(body, OPENMETRICS) for _ in range(2)) <= RATIO * harmless


def test_page_that_takes_too_long_fails():
    """The deadline of the scrape holds for reading as well, and the page is dropped whole."""
    left = iter([None, None])

    def check() -> None:
        if next(left, TimeoutError) is TimeoutError:
            raise TimeoutError

    got = parse_exposition(filled("\n# a"), PLAIN, NAMES, complete=True, check=check)
    assert got.reason is ScrapeFailure.TIMEOUT
    assert re.fullmatch(
        r"reading the page took too long \(13\d{4} of 16\d{6} bytes read\)", got.detail
    )


def test_rows_are_found_across_chunks():
    """A page of many chunks is read as one of one chunk is, to the last byte of each."""
    for size in range(CHUNK - 4, CHUNK + 5):
        comment = "#" * (size - 2)
        page = f"{comment}\n{WANTED} 1\n{comment}\n# TYPE {WANTED} gauge\n{WANTED} 1"
        got = parse_exposition(page.encode(), PLAIN, NAMES, complete=True)
        if isinstance(got, Exposition):
            assert [row.value for row in got.rows[WANTED]] == [1, 1]
            assert got.declared == {WANTED}
        else:
            assert got.detail.startswith(f"line 1: line too long ({size - 2} bytes)")
            assert size - 2 > CHUNK


def test_malformed_row_of_a_late_chunk_is_named_by_its_line():
    """Line numbers and bytes count from the start of the page, not of the chunk."""
    comments = "# \U0001f525\n" * 60_000
    got = parse_exposition(f"{comments}{WANTED} x\n".encode(), PLAIN, NAMES, complete=True)
    assert got == ScrapeFailed(
        ScrapeFailure.PARSE, f"line 60001: cannot read the value: '{WANTED} x'"
    )
    got = parse_exposition(f"{comments}{WANTED} ".encode() + b"\xff", PLAIN, NAMES, complete=True)
    at = len(comments.encode()) + len(WANTED) + 1
    assert got.detail == f"not a text page: byte {at} is not UTF-8"


def test_hostile_series_are_not_remembered():
    """Long series, and more text than all targets print, do not stay in memory."""
    long = soup("\n" + WANTED + '{x="%d' + "y" * 60_000 + '"} 1')[: 12 * CHUNK].rpartition(b"\n")[0]
    for body in (long, soup("\n" + WANTED + '{x="%d' + "y" * 400 + '"} 1')[:1_000_000]):
        parse_exposition(body, PLAIN, NAMES, complete=True)
        assert max(map(len, exposition._series), default=0) <= 2048
        assert sum(map(len, exposition._series)) <= 8 * 1024 * 1024 + 2048


def test_deadline_of_the_fetch_holds_for_the_page(serve, answer, monkeypatch):
    """A page that arrives in time and is read too slowly is a timeout of the target."""
    page = REAL.read_bytes()
    site = ScrapeTarget(serve(answer(page)).site, timeout=5.0, path="/metrics")
    clock = Clock()
    place = Place(site, "/metrics", clock)
    assert isinstance(place.scrape(5.0), Page)
    parse = exposition._text

    def slow(*given):
        clock.now += 6.0
        return parse(*given)

    monkeypatch.setattr(exposition, "_text", slow)
    got = place.scrape(5.0)
    place.close()
    assert got.reason is ScrapeFailure.TIMEOUT


@pytest.mark.parametrize("broken", [None, "NaN"])
@pytest.mark.parametrize("name", ["v1-latest-saturated", "v0-0.8"])
def test_real_page_that_loses_its_load_does_not_look_idle(broken, name):
    """From the page to the score: queue and KV cache gone or NaN is 70 at most, with a reason."""
    page = (REAL.parent / f"{name}.prom").read_text()
    families = "num_requests_waiting|kv_cache_usage_perc|gpu_cache_usage_perc"
    rows = re.compile(rf"^(vllm:(?:{families})(?:\{{.*\}})?) .*\n", re.MULTILINE)
    lost, changed = rows.subn(rf"\1 {broken}\n" if broken else "", page)
    assert changed
    reader, health = PageReader(engine_mappings()), target()
    for second, text in enumerate([page] * 3 + [lost] * 30):
        got = reader.read(text.encode(), PLAIN, complete=True)
        assert isinstance(got, Page)
        assert got.samples is not None
        moving = dict.fromkeys(got.samples.progress, float(second))
        health.apply(scrape(Page(replace(got.samples, progress=moving)), float(second)))
        [judgement] = judge_pool([health], float(second), lambda _: NOTHING)
    assert judgement.score is not None
    assert judgement.score <= 70.0
    assert (health.state, health.reason) == (State.DEGRADED, Reason.SIGNAL_LOST)
