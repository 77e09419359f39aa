"""The scrape benchmark: what the stand-in notices, and that its page is generated."""

import json
from pathlib import Path

import pytest

from benchmarks.pick.pages import Watch
from benchmarks.scrape.live import measure
from benchmarks.scrape.parts import reading
from benchmarks.scrape.report import markdown
from benchmarks.scrape.run import ENGINES, IDLE, PAGES, daemon
from tests.system.conftest import free_port

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def told(watch: Watch, now: float) -> dict[str, float]:
    found: dict[str, float] = json.loads(watch.told(now))
    return found


def test_gaps_are_those_of_each_port():
    """Two engines in turn are two rhythms, not one that is twice as fast."""
    watch = Watch(late=1.5)
    for port, now in [(1, 0.0), (2, 0.5), (1, 1.0), (2, 2.5), (1, 2.0)]:
        watch.asked(port, now)
    assert told(watch, 3.0) == {"longest": 2.0, "late": 1, "gaps": 3}


def test_engine_that_is_asked_no_more_is_late():
    """A gap that has not ended counts as long as it is by then; a usual one does not yet."""
    watch = Watch(late=1.5)
    watch.asked(1, 0.0)
    watch.asked(2, 9.0)
    assert told(watch, 10.0) == {"longest": 10.0, "late": 1, "gaps": 1}


def test_each_report_begins_anew():
    """What was told once is not told again, but the next gap begins at the last request."""
    watch = Watch(late=1.5)
    watch.asked(1, 0.0)
    watch.asked(1, 5.0)
    told(watch, 5.0)
    watch.asked(1, 6.0)
    assert told(watch, 6.0) == {"longest": 1.0, "late": 0, "gaps": 1}


def test_every_page_to_measure_is_an_engines(monkeypatch):
    """Each is read by a mapping of its own; a mean over pages that fail would be cheap."""
    monkeypatch.setattr("benchmarks.scrape.parts.cpu_of", lambda run: bool(run()))
    mappings = [reading(PAGES / name)[1] for name in ENGINES]
    assert len(set(mappings)) == len(mappings) - 1  # two pages of vLLM V1: one engine, and two


@pytest.mark.system
def test_daemon_is_watched_by_those_that_it_scrapes():
    """Scrapes, their rhythm and picks are seen while the daemon runs."""
    with daemon(2, free_port(), IDLE, "1s") as (target, pages):
        load = measure(target, pages, 2, 1.0, 3.0)
    assert 1.0 < load.scrapes < 3.5
    assert 0.5 < load.longest < 3.0
    assert 0.0 < load.pick_p50 <= load.pick_p99


def test_committed_page_shows_the_committed_numbers():
    """The page is generated from the numbers beside it, not edited."""
    numbers = json.loads((RESULTS / "scrape.json").read_text())
    assert (RESULTS / "scrape.md").read_text() == markdown(numbers)
