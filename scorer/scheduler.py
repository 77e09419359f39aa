"""Recurring jobs on APScheduler, made safe against clocks that jump.

APScheduler computes run times on the wall clock. Two things keep the schedule going
when that clock is set: a trigger that skips what it missed instead of listing it (a
step forward of years would otherwise list every missed second), and a watchdog on the
monotonic clock that re-arms all jobs after a step, and any job that has not run for
two intervals.

Phases are spread once, by start date: jitter would stretch the period instead.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

logger = structlog.stdlib.get_logger(__name__)

SCRAPE_THREADS = 1024
"""Bound of the scrape threads, started only as scrapes really overlap: as many as there
are targets in a large fleet, because all of them may hang at once."""
SCORE_THREADS = 2
WATCH_EVERY = 0.5
"""Seconds between two looks of the watchdog."""
STEP = 0.5
"""Seconds by which the wall clock must leave the monotonic one to count as a step."""
CALM = 30.0
"""Seconds without a missed run after which a schedule counts as on time again."""
MOST_MISSED = 1000
"""Missed runs that are told at once, however long the process stood still."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
"""Multiples of it, modulo 1, spread any number of phases evenly."""


class SteadyTrigger(IntervalTrigger):  # type: ignore[misc]
    """An interval that, when it is behind, goes on in phase after ``now``."""

    def get_next_fire_time(
        self, previous_fire_time: datetime | None, now: datetime
    ) -> datetime | None:
        """Return the next run time; at most one run is due at any moment."""
        due: datetime = super().get_next_fire_time(previous_fire_time, now)
        if previous_fire_time is not None and due <= now:
            steps = math.floor((now - due).total_seconds() / self.interval_length) + 1
            due += timedelta(seconds=steps * self.interval_length)
        return due


@dataclass(slots=True)
class _Job:
    """One recurring job: ``interval`` and ``phase`` in seconds, ``ran_at`` monotonic.

    ``late_at`` is when it was last seen to be late, None while it is on time.
    """

    name: str
    run: Callable[[], None]
    interval: float
    phase: float
    executor: str
    ran_at: float
    missed: Callable[[], None] = field(default=lambda: None)
    late_at: float | None = None


class Scheduler:
    """Runs jobs every so often, each by itself: one that hangs delays no other."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; nothing runs before :meth:`start`."""
        self._clock = clock
        self._jobs: dict[str, _Job] = {}
        self._added = 0
        self._stopped = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={
                "scrape": ThreadPoolExecutor(SCRAPE_THREADS),
                "score": ThreadPoolExecutor(SCORE_THREADS),
            },
            job_defaults={"coalesce": True, "max_instances": 1},
        )

    def start(self) -> None:
        """Begin to run jobs."""
        self._scheduler.start()
        self._watchdog.start()

    def stop(self) -> None:
        """Stop; a run under way is not waited for."""
        self._stopped.set()
        self._scheduler.shutdown(wait=False)

    def every(
        self,
        name: str,
        interval: float,
        run: Callable[[], None],
        *,
        executor: str = "scrape",
        at_once: bool = False,
        missed: Callable[[], None] = lambda: None,
    ) -> None:
        """Run ``run`` every ``interval`` seconds under ``name``, replacing what ran under it.

        ``executor`` is ``scrape`` or ``score``; with ``at_once`` the first run is not put
        off to spread phases. ``missed`` is called for each run that
        was skipped because the one before was still going or the schedule was late.
        """
        self._added += 1
        phase = 0.0 if at_once else (self._added * GOLDEN) % 1.0 * interval
        self._jobs[name] = _Job(name, run, interval, phase, executor, self._clock(), missed)
        self._arm(name)

    def remove(self, name: str) -> None:
        """Run the job of that name no more."""
        del self._jobs[name]
        self._scheduler.remove_job(name)

    @property
    def names(self) -> set[str]:
        """The names of all jobs."""
        return set(self._jobs)

    def _arm(self, name: str) -> None:
        job = self._jobs[name]
        start = datetime.now(UTC) + timedelta(seconds=job.phase)
        self._scheduler.add_job(
            self._run,
            SteadyTrigger(seconds=job.interval, start_date=start, timezone=UTC),
            args=(job,),
            id=name,
            executor=job.executor,
            # A late run is made all the same: dropping it would starve targets under overload.
            misfire_grace_time=None,
            replace_existing=True,
            # The trigger would put off a first run that is due by the time it is looked at.
            **({} if job.phase else {"next_run_time": start}),
        )

    def _run(self, job: _Job) -> None:
        """Run a job; the intervals since its last run in which there was none were missed."""
        now = self._clock()
        gap, job.ran_at = now - job.ran_at, now
        missed = min(round(gap / job.interval) - 1, MOST_MISSED)
        for _ in range(missed):
            job.missed()
        if missed > 0:
            self._is_late(job, now)
        elif job.late_at is not None and now - job.late_at >= CALM:
            job.late_at = None
            logger.info("Schedule is on time again", job=job.name)
        job.run()

    def _is_late(self, job: _Job, now: float) -> None:
        """Note that a job is late; a line says so when it was on time before."""
        if job.late_at is None:
            logger.warning("Schedule is late", job=job.name, interval=job.interval)
        job.late_at = now

    def _watch(self) -> None:
        offset = time.time() - self._clock()
        while not self._stopped.wait(WATCH_EVERY):
            moved = time.time() - self._clock() - offset
            if abs(moved) > STEP:
                offset += moved
                logger.warning("Wall clock stepped: all jobs are re-armed", seconds=round(moved, 1))
                self._rearm(list(self._jobs))
            else:
                overdue = self._overdue()
                for job in [self._jobs[name] for name in overdue if name in self._jobs]:
                    self._is_late(job, self._clock())
                self._rearm(overdue)

    def _overdue(self) -> list[str]:
        """Return the jobs that have not begun for two intervals."""
        now = self._clock()
        return [
            name
            for name, job in list(self._jobs.items())
            if now - job.ran_at > 2.0 * job.interval + WATCH_EVERY
        ]

    def _rearm(self, names: list[str]) -> None:
        for name in names:
            if name in self._jobs:
                self._jobs[name].ran_at = self._clock()
                self._arm(name)
