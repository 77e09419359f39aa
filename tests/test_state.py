"""The daemon's memory over a restart: two daemons, one after the other, on one file."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from scorer import state, statefile
from scorer.clocks import Clocks
from scorer.config import parse_config
from scorer.core.absent import KEPT_FOR
from scorer.core.learned import LEARNED_FOR
from scorer.core.orders import Order, obey
from scorer.core.overrides import Override
from scorer.core.vocabulary import State, Verb
from scorer.cycle import Cycle
from scorer.daemon_stats import DaemonStats
from scorer.discovered import Found
from scorer.inflight import InFlight
from scorer.registry import Registry
from scorer.shared import Shared
from scorer.state import EVERY, StateKeeper
from tests.core.builders import page, scrape
from tests.test_registry import found

WALL = 1_900_000_000.0


class Jobs:
    """A scheduler that only notes what it is told to run."""

    def __init__(self) -> None:
        self.jobs: dict[str, float] = {}

    def every(self, name: str, interval: float, _: object) -> None:
        self.jobs[name] = interval


class Life:
    """One life of a daemon, from ``wall`` on; its monotonic clock starts elsewhere each time."""

    def __init__(self, path: object, wall: float, monotonic: float, *targets: str) -> None:
        self.wall, self.now = wall, monotonic
        self.jobs, self.inflight, self.stats = Jobs(), InFlight(), DaemonStats()
        self.registry = Registry()
        clocks = Clocks(lambda: self.now, lambda: self.wall)
        self.keeper = StateKeeper(
            Shared(self.jobs, self.registry, self.inflight, self.stats, clocks)  # type: ignore[arg-type]
        )
        self.logs: list[Any] = []
        self.use(path, *targets)

    def use(self, path: object, *targets: str) -> None:
        """Apply a configuration with this file and these targets of pool ``chat``."""
        names = json.dumps(list(targets or ("a:1", "b:1")))
        text = (
            f"{{global: {{state_file: {json.dumps(str(path))}}}, "
            f"pools: [{{name: chat, static_configs: [{{targets: {names}}}]}}]}}"
        )
        config = parse_config(text)
        with capture_logs() as logs:
            self.keeper.apply(config)
            self.registry.apply(config.pools, found(config.pools), self.now)
        self.logs += logs
        self.pool = self.registry.pools["chat"]
        self.cycle = Cycle(self.pool, self.inflight, self.registry.publish)

    def second(self, **changes: Any) -> None:
        """Let a second pass with a scrape of every target; ``changes`` are of ``a:1``."""
        self.now, self.wall = self.now + 1.0, self.wall + 1.0
        for name, health in self.pool.targets.items():
            values = changes if name == "a:1" else {}
            self.pool.inbox.append(
                (health, scrape(page(tokens=self.wall - WALL, **values), self.now))
            )
        self.cycle.tick(self.now)

    def write(self) -> None:
        """Write the file as the job does, without its thread."""
        with capture_logs() as logs:
            self.keeper._write()
        self.logs += logs

    def target(self, name: str = "a:1") -> Any:
        self.cycle.tick(self.now)
        return next(e for e in self.registry.snapshot.pools["chat"].targets if e.target == name)

    @property
    def events(self) -> list[str]:
        return [line["event"] for line in self.logs]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the state file is."""
    return tmp_path / "state.json"


@pytest.fixture
def first(path: Path) -> Life:
    """Return a daemon that has scraped two targets, ``a:1`` with a queue."""
    life = Life(path, WALL, 5000.0)
    for _ in range(3):
        life.second(waiting=12.0)
    return life


def test_scores_survive(first: Life, path: Path) -> None:
    """The next daemon shows what was, before and after its first scrape."""
    first.write()
    before = first.target()
    second = Life(path, WALL + 8.0, 20.0)
    assert second.target().score == before.score == pytest.approx(90.0)
    assert second.target().eligible
    second.second(waiting=12.0)
    assert second.target().score == pytest.approx(90.0)
    assert second.target().state is State.HEALTHY
    assert "State file read" in second.events


def test_time_that_passed_counts(first: Life, path: Path) -> None:
    """A drain ends when it was to end, counted on the wall clock between two lives."""
    health = first.pool.targets["a:1"]
    health.drain = Override(first.now, first.now + 100.0, "new disk")
    first.write()
    second = Life(path, first.wall + 40.0, 20.0)
    drain = second.pool.targets["a:1"].drain
    assert drain is not None
    assert (drain.until, drain.note) == (pytest.approx(80.0), "new disk")
    assert second.target().state is State.DRAINING


def test_what_picks_have_learned_survives(first: Life, path: Path) -> None:
    """Rates of targets and the mean prompt of the pool; the start value does not replace them."""
    load = first.inflight.load("chat", "a:1")
    load.tell(load.open("one", 8000, 9000.0, first.now - 10.0), first.now)
    first.inflight.pool("chat").prompts.length(3000)
    first.write()
    second = Life(path, first.wall + 600.0, 20.0)
    second.inflight.start_rate("chat", "a:1", 1.0)
    assert second.inflight.speed("chat", "a:1") == load.rate
    assert second.inflight.pool("chat").prompts.mean == 3000


def test_target_that_discovery_finds_late_gets_its_part(first: Life, path: Path) -> None:
    """Even after the file was written again without it."""
    first.write()
    second = Life(path, first.wall + 5.0, 20.0, "b:1")
    second.write()
    third = Life(path, first.wall + 10.0, 700.0, "b:1")
    third.now, third.wall = third.now + 5.0, third.wall + 5.0
    third.use(path, "a:1", "b:1")
    assert third.target().score == pytest.approx(90.0)


def test_part_that_nobody_claims_is_dropped_in_the_end(first: Life, path: Path) -> None:
    """A target that is gone for a day, and a pool that left, are not written for ever."""
    first.write()
    second = Life(path, first.wall + LEARNED_FOR + 1.0, 20.0, "b:1")
    second.write()
    assert '"a:1"' not in path.read_text()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("data", ["NaN", "[1e999]", "[" * 900 + "]" * 900])
def test_unclaimed_nonsense_is_not_written_again(first: Life, path: Path, data: str) -> None:
    """What nobody has looked at yet may be anything; the rest is written all the same."""
    first.write()
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, f'{{"pool":"chat","target":"z:1","ago":0,"data":{data}}}']))
    second = Life(path, first.wall + 1.0, 20.0)
    second.write()
    assert second.stats.read().state_failures == 0
    third = Life(path, first.wall + 2.0, 20.0)
    assert third.target().score == pytest.approx(90.0)


def test_part_is_claimed_once(first: Life, path: Path) -> None:
    """A target that leaves and comes back while the daemon runs is new, as without a file."""
    first.write()
    second = Life(path, first.wall + 5.0, 20.0)
    second.use(path, "b:1")
    second.use(path, "a:1", "b:1")
    assert second.pool.targets["a:1"].score == 0.0


def test_no_file_is_how_every_daemon_begins(path: Path) -> None:
    """It is said, and nothing is wrong."""
    life = Life(path, WALL, 0.0)
    assert life.logs == [
        {"event": "No state file yet: starting afresh", "file": str(path), "log_level": "info"}
    ]


HEADER = b'{"scorer_state":1,"written_at":1900000000.0}\n'


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not a state file of scorer"),
        (b"[]\n", "is not a state file of scorer"),
        (b"\x00\xff garbage", "is not JSON"),
        (b'{"scorer_state":2,"written_at":0}\n', "is of another version than 1"),
        (b'{"scorer_state":1}\n', "has a time that is none"),
        (b'{"scorer_state":1,"written_at":NaN}\n', "has a time that is none"),
        (b'{"scorer_state":1,"written_at":true}\n', "has a time that is none"),
        (HEADER + b'{"pool":"chat"', "is not JSON"),
        (HEADER + b"[" * 100_000, "is not JSON"),
        (HEADER + b"7\n", "has a line that is not an object"),
        (HEADER + b'{"pool":7,"target":null,"ago":0}\n', "has a line that is nobody's"),
        (HEADER + b'{"pool":"chat","target":"a:1","ago":1e999}\n', "has a time that is none"),
    ],
)
def test_broken_file_starts_afresh(path: Path, content: bytes, reason: str) -> None:
    """With one warning that names the file and the reason."""
    path.write_bytes(content)
    life = Life(path, WALL, 0.0)
    assert life.logs == [
        {
            "event": "State file not used: starting afresh", "file": str(path), "reason": reason,
            "log_level": "warning",
        }
    ]  # fmt: skip
    assert life.target().score is None
    life.second()
    life.write()
    assert statefile.read(str(path))[0]


def test_part_that_is_not_understood_costs_only_itself(first: Life, path: Path) -> None:
    """The others come back; the first is named."""
    first.write()
    lines = path.read_text().splitlines()
    wrong = [line.replace('"score":90.0', '"score":900') for line in lines]
    assert wrong != lines
    path.write_text("\n".join(wrong))
    second = Life(path, first.wall + 1.0, 20.0)
    assert second.target("a:1").score is None
    assert second.target("b:1").score == 100.0
    warned = [line for line in second.logs if line["log_level"] == "warning"]
    assert [(line["pool"], line["target"]) for line in warned] == [("chat", "a:1")]


@pytest.mark.parametrize("seconds", [61.0, 1e9, -3600.0])
def test_old_or_future_scores_are_not_believed(first: Life, path: Path, seconds: float) -> None:
    """A file of another time says nothing of how targets are."""
    first.write()
    second = Life(path, first.wall + seconds, 20.0)
    assert second.target().score is None


def test_clock_that_is_a_second_behind_is_no_other_time(first: Life, path: Path) -> None:
    """Clocks are slewed."""
    first.write()
    assert Life(path, first.wall - 1.0, 20.0).target().score == pytest.approx(90.0)


def test_failure_is_logged_once_and_each_is_counted(first: Life, tmp_path: Path) -> None:
    """And so is the end of it."""
    first.use(tmp_path / "none" / "state.json")
    for _ in range(3):
        first.write()
    (tmp_path / "none").mkdir()
    first.write()
    changes = [event for event in first.events if event.startswith("State file")]
    assert changes == ["State file not written", "State file is written again"]
    reading = first.stats.read()
    assert (reading.state_failures, reading.state_success_time) == (3, first.wall)


def test_without_a_file_nothing_is_kept() -> None:
    """No job, no metric, no thread."""
    life = Life("", WALL, 0.0)
    life.keeper.save()
    life.keeper.stop()
    assert (life.keeper.jobs, life.stats.read().state_failures) == (set(), None)


def test_reload_moves_the_file_and_keeps_memory(first: Life, path: Path, tmp_path: Path) -> None:
    """The running daemon knows more than any file: another file is written, not read."""
    first.write()
    other = tmp_path / "other.json"
    other.write_text("garbage")
    first.use(other)
    assert first.target().score == pytest.approx(90.0)
    first.write()
    assert len(other.read_text().splitlines()) == len(path.read_text().splitlines())
    first.use("")
    assert first.keeper.jobs == set()


def test_another_daemon_on_the_file_is_noticed(first: Life, path: Path) -> None:
    """Once per change: the last one wins, and nobody's file is broken."""
    second = Life(path, WALL, 20.0)
    for _ in range(3):
        first.write()
        second.write()
    first.write()
    first.write()
    said = "State file is written by another daemon, too"
    assert (first.events.count(said), second.events.count(said)) == (1, 1)


def test_job_writes_every_ten_seconds(first: Life) -> None:
    """That is what a daemon that is killed forgets."""
    assert first.jobs.jobs == {"state": EVERY}
    assert first.keeper.jobs == {"state"}


def test_stop_writes_a_last_time(first: Life, path: Path) -> None:
    """What happened since the last write is not lost."""
    first.keeper.stop()
    assert path.exists()


def test_hanging_disk_does_not_hold_up_the_stop(
    first: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for a moment, and said; asking meanwhile counts as a failure."""
    release, started = threading.Event(), threading.Event()
    monkeypatch.setattr(statefile, "write", lambda *_: (started.set(), release.wait()))
    monkeypatch.setattr(state, "STOP_WITHIN", 0.05)
    with capture_logs() as logs:
        first.keeper.save()
        assert started.wait(5)
        first.keeper.save()
        first.keeper.stop()
        events = [line["event"] for line in logs]
        release.set()
        first.keeper._writer._thread.join(5)
    assert events == [
        "State file not written",
        "State file not written in time",
    ]
    assert first.stats.read().state_failures == 1


def test_targets_found_by_an_update_are_recalled(first: Life, path: Path) -> None:
    """Discovery brings them one by one, through the registry's other door."""
    first.write()
    second = Life(path, first.wall + 5.0, 20.0, "b:1")
    config = parse_config(
        "pools: [{name: chat, static_configs: [{targets: ['a:1', 'b:1']}]}]"
    ).pools
    second.registry.update("chat", Found(found(config)["chat"].targets), second.now)
    assert second.target().score == pytest.approx(90.0)


def test_orders_of_an_absent_target_survive(first: Life, path: Path) -> None:
    """It was drained, left, and the daemon was restarted before it came back."""
    obey(first.pool.targets["a:1"], Order(Verb.DRAIN, None, "upgrade"), first.now)
    first.use(path, "b:1")
    first.write()
    second = Life(path, first.wall + 5.0, 20.0, "b:1")
    second.use(path)
    shown = second.target()
    assert (shown.state, shown.drain.note, shown.score) == (State.DRAINING, "upgrade", 0.0)


@pytest.mark.parametrize(("late", "drained"), [(KEPT_FOR - 0.1, True), (KEPT_FOR, False)])
def test_orders_in_the_file_wait_as_long_as_others(
    first: Life, path: Path, late: float, drained: bool
) -> None:
    """A target that discovery finds long after the start is another one."""
    obey(first.pool.targets["a:1"], Order(Verb.DRAIN), first.now)
    first.write()
    second = Life(path, first.wall + 100_000.0, 20.0, "b:1")
    second.now += late
    second.use(path)
    assert (second.target().drain is not None) == drained
