"""The wall clock of the daemon alone is set; nothing that it decides may notice (case B46)."""

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.conftest import DaemonProcess, FakeEngine, pool_of
from tests.waited import Waited

pytestmark = [pytest.mark.system, pytest.mark.slow]

SOURCE = Path(__file__).with_name("wall_clock.c")
HOUR, DAY, YEAR = 3600, 86400, 365 * 86400
STEPS = (-HOUR, DAY, 174 * YEAR, -YEAR, 0)


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that sets the wall clock of daemons started from here on."""
    library, file = tmp_path / "wall_clock.so", tmp_path / "offset"
    compiler = shutil.which("cc") or "gcc"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True
    )
    file.write_text("0")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("WALL_CLOCK_OFFSET_FILE", str(file))
    return lambda seconds: file.write_text(str(seconds)) and None


def test_daemon_goes_on_whatever_the_wall_clock_says(
    clock: Callable[[int], None],
    engine: Callable[[], FakeEngine],
    daemon: Callable[..., DaemonProcess],
) -> None:
    """An hour back, a day on, to the year 2200, a year back: scrapes and scores go on."""
    good, restarted = engine(), engine()
    running = daemon(pool_of(good, restarted)).ready()
    began = time.monotonic()
    good.scraped_at.clear()
    for step in STEPS:
        clock(step)
        waited, before = Waited(running.process.pid), len(good.scraped_at)
        running.until(lambda before=before: len(good.scraped_at) > before)
        assert waited.seconds < 3.0
        running.until(lambda before=before: len(good.scraped_at) > before + 2)
        asked, shown, told = time.monotonic(), running.target(good.target), time.monotonic()
        assert shown["score"] == 100.0
        age, scraped = shown["last_scrape"]["age"], list(good.scraped_at)
        assert any(asked - at - 1.0 < age < told - at + 1.0 for at in scraped)
        assert running.get("/pick").status_code == 200
    assert len(good.scraped_at) < 2.0 * (time.monotonic() - began)


def test_warm_up_is_counted_on_the_monotonic_clock(
    clock: Callable[[int], None],
    engine: Callable[[], FakeEngine],
    daemon: Callable[..., DaemonProcess],
) -> None:
    """A day that passes on the wall clock alone does not warm anything up."""
    one = engine()
    running = daemon(pool_of(one)).ready()
    one.serves(start_time=5000, count=0, sum=0, tokens=0)
    running.until(lambda: running.target(one.target)["state"] == "warmup", seconds=5)
    first, at = running.target(one.target)["score"], time.monotonic()

    def judged() -> float | None:
        """Return the score of a judgement that was made after the second ``at``."""
        nonlocal at
        asked, score = time.monotonic(), running.target(one.target)["score"]
        at = asked if score == first else at
        return score if score > first else None

    before = running.until(judged)
    clock(DAY)
    running.until(lambda: running.target(one.target)["score"] > before)
    climbed = running.target(one.target)["score"] - before
    assert climbed <= 15.0 * (time.monotonic() - at)
