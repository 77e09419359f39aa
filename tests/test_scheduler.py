"""The scheduler: phases, hanging jobs, clocks that jump."""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from scorer import scheduler as module
from scorer.scheduler import Scheduler, SteadyTrigger

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PATIENCE = 20.0
"""Seconds within which jobs of every 100 ms have run some times, on any machine."""
LONG = 3 * PATIENCE
"""Seconds that a job which hangs goes on hanging: what waits for it does not get there in time."""


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    """Return a running scheduler that is stopped at the end."""
    scheduler = Scheduler()
    scheduler.start()
    yield scheduler
    scheduler.stop()


class Counter:
    """A job that counts its runs and lets a test wait for one."""

    def __init__(self) -> None:
        self.runs = 0
        self._changed = threading.Condition()

    def __call__(self) -> None:
        with self._changed:
            self.runs += 1
            self._changed.notify_all()

    def wait_for(self, runs: int, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.runs >= runs, seconds)


def test_trigger_that_is_on_time_adds_the_interval() -> None:
    """The next run is one interval after the last one."""
    trigger = SteadyTrigger(seconds=1, start_date=NOON, timezone=UTC)
    assert trigger.get_next_fire_time(NOON, NOON) == NOON + timedelta(seconds=1)


def test_trigger_that_is_ten_years_behind_skips_to_the_future_in_phase() -> None:
    """A step forward is one late run, not three hundred million."""
    trigger = SteadyTrigger(seconds=1, start_date=NOON, timezone=UTC)
    later = NOON + timedelta(days=3650, milliseconds=300)
    assert trigger.get_next_fire_time(NOON, later) == later + timedelta(milliseconds=700)


def test_first_run_at_once_is_not_put_off() -> None:
    """A job that runs seldom begins at once, also when it was added before the start."""
    scheduler, early, late = Scheduler(), Counter(), Counter()
    scheduler.every("early", 300.0, early, at_once=True)
    time.sleep(0.01)
    scheduler.start()
    scheduler.every("late", 300.0, late, at_once=True)
    assert early.wait_for(1, PATIENCE)
    assert late.wait_for(1, PATIENCE)
    scheduler.stop()


def test_phases_of_many_jobs_are_spread() -> None:
    """Of 100 jobs, every tenth of the interval gets 8 to 12."""
    scheduler = Scheduler()
    for index in range(100):
        scheduler.every(f"job {index}", 1.0, lambda: None)
    tenths = [int(job.phase * 10) for job in scheduler._jobs.values()]
    assert all(8 <= tenths.count(tenth) <= 12 for tenth in range(10))


def test_hanging_job_delays_no_other(scheduler: Scheduler) -> None:
    """While twenty jobs hang, a good one is run again and again."""
    release, hung, good = threading.Event(), Counter(), Counter()

    def hang() -> None:
        hung()
        release.wait(LONG)

    for index in range(20):
        scheduler.every(f"hung {index}", 0.1, hang)
    scheduler.every("good", 0.1, good)
    try:
        assert hung.wait_for(20, PATIENCE)
        assert good.wait_for(good.runs + 10, PATIENCE)
        assert hung.runs == 20
    finally:
        release.set()


def test_run_that_overlaps_is_skipped_and_counted(scheduler: Scheduler) -> None:
    """A job that is still running is not started again; the runs it missed are told."""
    missed, runs, good = Counter(), Counter(), Counter()

    def slow() -> None:
        runs()
        good.wait_for(good.runs + 6, PATIENCE)

    scheduler.every("good", 0.1, good)
    scheduler.every("slow", 0.1, slow, missed=missed)
    assert runs.wait_for(2, PATIENCE)
    assert missed.runs >= 3


def test_late_schedule_is_told_once_and_so_is_its_recovery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line when runs begin to be missed, one when none was for a while, none in between."""
    now = 0.0
    monkeypatch.setattr(module, "CALM", 10.0)
    scheduler = Scheduler(lambda: now)
    scheduler.every("job", 1.0, lambda: None)
    job = scheduler._jobs["job"]
    told = []
    for at in (1.0, 2.0, 5.0, 6.0, 9.0, 10.0, 18.0, 19.0, 20.0, 29.0, *range(30, 45), 50.0):
        now = float(at)
        with capture_logs() as lines:
            scheduler._run(job)
        told += [(at, line["event"], line["job"]) for line in lines]
    assert told == [
        (5.0, "Schedule is late", "job"),
        (39, "Schedule is on time again", "job"),
        (50.0, "Schedule is late", "job"),
    ]


def test_run_that_does_not_end_is_told(scheduler: Scheduler) -> None:
    """A job that hangs is late while it hangs, not only afterwards."""
    release, good = threading.Event(), Counter()
    with capture_logs() as lines:
        scheduler.every("hung", 0.1, lambda: release.wait(LONG) and None)
        deadline = time.monotonic() + PATIENCE
        while not lines and time.monotonic() < deadline:
            time.sleep(0.01)
        scheduler.every("good", 0.1, good)
        assert good.wait_for(20, PATIENCE)
        release.set()
    late = [line for line in lines if line["event"] == "Schedule is late"]
    # On a busy machine the other one may be late, too.
    assert [line["log_level"] for line in late if line["job"] == "hung"] == ["warning"]


def test_job_that_fails_goes_on(scheduler: Scheduler) -> None:
    """An exception ends one run, not the job."""
    counter = Counter()

    def fail() -> None:
        counter()
        raise RuntimeError("boom")

    scheduler.every("failing", 0.1, fail)
    assert counter.wait_for(3, PATIENCE)


def test_removed_job_runs_no_more(scheduler: Scheduler) -> None:
    """After its removal a job is gone."""
    counter, other = Counter(), Counter()
    scheduler.every("gone", 0.1, counter)
    assert counter.wait_for(1, PATIENCE)
    scheduler.remove("gone")
    runs = counter.runs
    scheduler.every("other", 0.1, other)
    assert other.wait_for(5, PATIENCE)
    assert counter.runs <= runs + 1
    assert scheduler.names == {"other"}


@pytest.mark.parametrize("step", [timedelta(days=-365), timedelta(days=365), timedelta(hours=1)])
def test_wall_clock_step_stops_nothing(monkeypatch: pytest.MonkeyPatch, step: timedelta) -> None:
    """After the wall clock is set, jobs run on: five runs of 200 ms in twenty naps of that."""
    real_now, real_time, moved = datetime.now, time.time, timedelta()

    class SteppedDatetime(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return real_now(tz) + moved  # type: ignore[arg-type]

    for name in ("apscheduler.schedulers.base", "apscheduler.executors.base"):
        monkeypatch.setattr(f"{name}.datetime", SteppedDatetime)
    monkeypatch.setattr(module, "datetime", SteppedDatetime)
    monkeypatch.setattr(module.time, "time", lambda: real_time() + moved.total_seconds())
    scheduler, counter = Scheduler(), Counter()
    scheduler.every("job", 0.2, counter)
    scheduler.start()
    try:
        assert counter.wait_for(3, PATIENCE)
        moved = step
        wanted = counter.runs + 5
        assert any(counter.wait_for(wanted, 0.2) for _ in range(20))
    finally:
        scheduler.stop()
