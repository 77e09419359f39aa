"""The wall clock of the daemon alone is set; nothing that it decides may notice (case B46)."""

import shutil
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.system.conftest import DaemonProcess, FakeEngine, pool_of

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
    good.scraped_at.clear()
    for step in STEPS:
        clock(step)
        time.sleep(3.0)
        shown = running.target(good.target)
        assert shown["score"] == 100.0
        assert 0.0 <= shown["last_scrape"]["age"] < 3.0
        assert running.get("/pick").status_code == 200
    gaps = [after - before for before, after in pairwise(good.scraped_at)]
    assert max(gaps) < 3.0
    assert len(good.scraped_at) < 3.0 * len(STEPS) * 2.0


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
    before, at = running.target(one.target)["score"], time.monotonic()
    clock(DAY)
    running.until(lambda: running.target(one.target)["score"] > before)
    climbed = running.target(one.target)["score"] - before
    assert climbed <= 15.0 * (time.monotonic() - at + 0.5)
