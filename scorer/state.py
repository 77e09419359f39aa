"""The daemon's memory over a restart: writes it every few seconds, gives it back once.

The state file is read once, at the start. Each target that becomes known takes its part of
it, so one that discovery finds late takes it late; until then its part is written again.
Nothing waits for the file: one thread of its own writes it, and a write that fails or hangs
costs nothing but the file.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import structlog

from scorer import statefile
from scorer.clocks import Clocks
from scorer.config import Config
from scorer.core.absent import KEPT_FOR, Orders, back, forget
from scorer.core.health import TargetHealth, TargetId
from scorer.core.learned import (
    LEARNED_FOR,
    recall_load,
    recall_pool,
    remember_load,
    remember_pool,
)
from scorer.core.memory import recall, remember
from scorer.registry import Pool
from scorer.shared import Shared
from scorer.statefile import Mark, StateFileError, Writer

logger = structlog.stdlib.get_logger(__name__)

VERSION = 1
JOB = "state"
EVERY = 10.0
"""Seconds between two writes: what a daemon that is killed forgets."""
READ_WITHIN, STOP_WITHIN = 3.0, 2.0
"""Seconds that the start waits for the file to be read, and the end for it to be written."""
SLACK = 2.0
"""Seconds by which a file may be from the future: clocks are slewed."""

Owner = tuple[str, str | None]
"""A pool and one of its targets, or the pool itself."""


@dataclass(slots=True)
class Recalled:
    """What a file held and nobody has claimed yet.

    ``parts`` are (data, seconds from its writing to that of the file) by owner; ``elapsed``
    is how old the file was when it was read at ``read_at`` (monotonic seconds), negative
    when it is from the future.
    """

    parts: dict[Owner, tuple[Any, float]] = field(default_factory=dict)
    elapsed: float = 0.0
    read_at: float = 0.0
    refused: int = 0

    def age(self, ago: float, now: float) -> float:
        """Return the seconds since a part was written, negative when nobody knows."""
        if self.elapsed < 0.0:
            return self.elapsed
        return max(0.0, self.elapsed + ago + now - self.read_at)


class StateKeeper:
    """Keeps the memory of targets and pools in the configured file; ``jobs`` are its jobs."""

    def __init__(self, shared: Shared) -> None:
        """Keep nothing before :meth:`apply`."""
        self._scheduler, self._registry, self._inflight, self._stats, self._clocks = shared
        self._path: str | None = None
        self._writer: Writer | None = None
        self._recalled = Recalled()
        self._mark: Mark | None = None
        self._problem = self._tidied = ""
        self._shared = False
        self._registry.recall = self.recall

    @property
    def jobs(self) -> set[str]:
        """The names of the jobs that keep the file written."""
        return {JOB} if self._path else set()

    def apply(self, config: Config) -> None:
        """Keep the file that a configuration names.

        It is read at the start only: a daemon that runs knows more than any file.
        """
        path, before = str(config.global_.state_file), self._path
        if path == before:
            return
        self._path, self._mark, self._problem = path, None, ""
        if not path:
            return
        self._stats.state_kept()
        if before is None:
            self._read(path)
        self._writer = self._writer or Writer(self._write)
        self._scheduler.every(JOB, EVERY, self.save)

    def recall(self, health: TargetHealth) -> None:
        """Give a target that is just known what the file has of it and of its pool."""
        if not self._recalled.parts:
            return
        pool, target = health.id.pool, health.id.target
        picks, load = self._inflight.pool(pool), self._inflight.load(pool, target)
        now = health.known_at

        def take_pool(data: Any, age: float) -> bool:  # noqa: ANN401 - any JSON
            return recall_pool(data, picks.prompts, picks.mode, now, age)

        def take_target(data: Any, age: float) -> bool:  # noqa: ANN401 - any JSON
            known = isinstance(data, dict) and recall(data.get("health"), health, age)
            if now - self._recalled.read_at >= KEPT_FOR:
                forget(health)
            return known and recall_load(data.get("load"), load, age)

        self._claim((pool, None), now, take_pool)
        self._claim((pool, target), now, take_target)

    def save(self) -> None:
        """Have the file written; never waits."""
        if self._writer and self._path and not self._writer.ask():
            self._failed(self._path, f"the write before takes longer than {EVERY:g} seconds")

    def stop(self) -> None:
        """Write the file a last time, as far as that does not take long."""
        if self._writer and self._path and not self._writer.finish(STOP_WITHIN):
            logger.warning("State file not written in time", file=self._path)

    def _claim(self, owner: Owner, now: float, take: Callable[[Any, float], bool]) -> None:
        """Have an owner take its part; the first that cannot be understood is logged."""
        recalled = self._recalled
        data, ago = recalled.parts.pop(owner, (None, 0.0))
        if data is None or take(data, recalled.age(ago, now)):
            return
        recalled.refused += 1
        if recalled.refused == 1:
            pool, target = owner
            logger.warning(
                "State file has a part that is not understood: starting it afresh",
                file=self._path, pool=pool, target=target,
            )  # fmt: skip

    def _read(self, path: str) -> None:
        try:
            lines, self._mark = statefile.within(READ_WITHIN, lambda: statefile.read(path))
            self._recalled = _parsed(lines, self._clocks)
        except FileNotFoundError:
            logger.info("No state file yet: starting afresh", file=path)
            return
        except StateFileError as error:
            logger.warning("State file not used: starting afresh", file=path, reason=str(error))
            return
        age = self._recalled.elapsed
        if age < 0.0:
            logger.warning(
                "State file is from the future: scores start afresh",
                file=path,
                seconds=round(-age, 1),
            )
        logger.info(
            "State file read", file=path, age=round(age, 1), parts=len(self._recalled.parts)
        )

    def _write(self) -> None:
        """Write the file; called by the thread of the writer only."""
        path = self._path
        if not path:
            return
        try:
            self._look(path)
            self._mark = statefile.write(path, self._lines())
        except StateFileError as error:
            self._failed(path, str(error))
            return
        self._stats.state_written(ok=True, wall_time=self._clocks.wall())
        if self._problem:
            logger.info("State file is written again", file=path)
        self._problem = ""

    def _failed(self, path: str, reason: str) -> None:
        self._stats.state_written(ok=False, wall_time=self._clocks.wall())
        if reason != self._problem:
            logger.warning("State file not written", file=path, reason=reason)
        self._problem = reason

    def _look(self, path: str) -> None:
        """Say when somebody else has written the file since we did: the last one wins."""
        if path != self._tidied:
            statefile.tidy(path)
            self._tidied = path
        found = statefile.mark(path)
        shared = None not in (found, self._mark) and found != self._mark
        if shared and not self._shared:
            logger.warning("State file is written by another daemon, too", file=path)
        self._shared = shared

    def _lines(self) -> Iterator[bytes]:
        start = self._clocks.monotonic()
        yield statefile.encoded({"scorer_state": VERSION, "written_at": self._clocks.wall()})
        pools = self._registry.pools
        for name, pool in pools.items():
            picks, now = self._inflight.pool(name), self._clocks.monotonic()
            yield _line(name, None, start - now, remember_pool(picks.prompts, picks.mode, now))
            for health in list(pool.targets.values()):
                yield self._line_of(pool, health, start)
            for absent, orders in pool.absent.items():
                yield self._line_of_absent(pool, absent, orders, start)
        for (name, target), (data, ago) in list(self._recalled.parts.items()):
            age = self._recalled.age(ago, start)
            if name in pools and 0.0 <= age <= LEARNED_FOR:
                with contextlib.suppress(StateFileError):  # nobody has looked at it yet
                    yield _line(name, target, age, data)

    def _line_of(self, pool: Pool, health: TargetHealth, start: float) -> bytes:
        """Return the line of a target, which is looked at under its pool's lock."""
        name, target = health.id.pool, health.id.target
        with pool.lock:
            now = self._clocks.monotonic()
            under_way = self._inflight.outstanding(name, target, health.picks_seen, now)
            kept = remember(health, now, allowance=under_way.largest_prefill)
        load = remember_load(self._inflight.pool(name).loads.get(target))
        return _line(name, target, start - now, {"health": kept, "load": load})

    def _line_of_absent(self, pool: Pool, target: str, orders: Orders, start: float) -> bytes:
        """Return the line of a target that left: nothing but orders."""
        now = self._clocks.monotonic()
        health = TargetHealth(TargetId(pool.facts.name, target, ""), pool.params, now)
        back(orders, health, now)
        kept = {"health": remember(health, now), "load": remember_load(None)}
        return _line(pool.facts.name, target, start - now, kept)


def _line(pool: str, target: str | None, ago: float, data: object) -> bytes:
    return statefile.encoded({"pool": pool, "target": target, "ago": ago, "data": data})


def _parsed(lines: list[bytes], clocks: Clocks) -> Recalled:
    """Return what a file holds; StateFileError when it is none of ours."""
    header = statefile.decoded(lines[0]) if lines else None
    if not isinstance(header, dict) or "scorer_state" not in header:
        raise StateFileError("is not a state file of scorer")
    if header["scorer_state"] != VERSION:
        raise StateFileError(f"is of another version than {VERSION}")
    written_at = _seconds(header.get("written_at"))
    elapsed = clocks.wall() - written_at
    if -SLACK <= elapsed < 0.0:
        elapsed = 0.0
    recalled = Recalled(elapsed=elapsed, read_at=clocks.monotonic())
    for line in lines[1:]:
        part = statefile.decoded(line)
        if not isinstance(part, dict):
            raise StateFileError("has a line that is not an object")
        pool, target = part.get("pool"), part.get("target")
        if not isinstance(pool, str) or not isinstance(target, str | None):
            raise StateFileError("has a line that is nobody's")
        recalled.parts[pool, target] = part.get("data"), _seconds(part.get("ago"))
    return recalled


def _seconds(value: object) -> float:
    if type(value) not in (int, float) or not -1e12 < value < 1e12:  # type: ignore[operator]
        raise StateFileError("has a time that is none")
    return float(value)  # type: ignore[arg-type]
