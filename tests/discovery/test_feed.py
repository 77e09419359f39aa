"""A feed keeps the last good answer, and an empty answer is an answer."""

from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from scorer.config.pool import PoolConfig
from scorer.discovered import Mechanism
from scorer.sources.discovery.answers import Answer, Failure, LabelSets
from scorer.sources.discovery.feed import Feed
from scorer.sources.discovery.resolve import Resolver
from scorer.sources.discovery.stats import SdStats

KEY = ("chat", Mechanism.HTTP)
BROKEN = Failure("it is broken")


def resolver(*rules: Mapping[str, Any]) -> Resolver:
    text = {"name": "chat", "static_configs": [{"targets": []}], "relabel_configs": list(rules)}
    return Resolver(PoolConfig.model_validate(text))


def of(*addresses: str) -> LabelSets:
    """Return an answer that lists these addresses."""
    return tuple({"__address__": address} for address in addresses)


class Asked:
    """A provider whose answer a test decides on."""

    name, interval, retry = "http://sd", 60.0, 5.0

    def __init__(self) -> None:
        self.answer: Answer | Exception = {"": ()}
        self.times = 0
        self.closed = False

    def ask(self) -> Answer:
        self.times += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None:
        self.closed = True


class World:
    """A feed with its provider, its clock, and how often it told of a change."""

    def __init__(self) -> None:
        self.now = 100.0
        self.told = 0
        self.provider = Asked()
        self.stats = SdStats()
        self.stats.keep([(KEY, 7)])
        self.feed = Feed(
            KEY, 7, self.provider, resolver(), self.stats, lambda: self.now, self._tell
        )

    def _tell(self) -> None:
        self.told += 1

    @property
    def names(self) -> list[str]:
        return [target.address.name for target in self.feed.targets]


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_known_before_the_first_answer(world: World) -> None:
    """A feed that was never answered says so."""
    assert (world.names, world.feed.answered) == ([], False)


def test_answer_becomes_targets(world: World) -> None:
    """The targets are those of the answer, and the change is told once."""
    world.feed.take({"": of("a:1", "b:1")})
    world.feed.take({"": of("a:1", "b:1")})
    assert (world.names, world.feed.answered, world.told) == (["a:1", "b:1"], True, 1)


def test_failure_keeps_the_last_good_answer(world: World) -> None:
    """What fails changes nothing."""
    world.feed.take({"": of("a:1")})
    world.feed.take({"": BROKEN})
    assert (world.names, world.told) == (["a:1"], 1)


def test_empty_answer_is_obeyed(world: World) -> None:
    """No target is an answer like any other."""
    world.feed.take({"": of("a:1")})
    world.feed.take({"": ()})
    assert (world.names, world.told) == ([], 2)


def test_first_answer_is_told_even_when_it_is_empty(world: World) -> None:
    """Whoever waits for an answer hears of it."""
    world.feed.take({"": BROKEN})
    assert (world.feed.answered, world.told) == (False, 0)
    world.feed.take({"": ()})
    assert (world.feed.answered, world.told) == (True, 1)


def test_parts_fail_by_themselves(world: World) -> None:
    """One file that is broken does not keep the others from changing."""
    world.feed.take({"x": of("a:1"), "y": of("b:1")})
    world.feed.take({"x": BROKEN, "y": of("c:1")})
    assert world.names == ["a:1", "c:1"]


def test_part_that_is_gone_takes_its_targets_with_it(world: World) -> None:
    """A deleted file is no failure."""
    world.feed.take({"x": of("a:1"), "y": of("b:1")})
    world.feed.take({"y": of("b:1")})
    assert (world.names, world.told) == (["b:1"], 2)


def test_unusable_target_is_left_out(world: World) -> None:
    """A target without a port does not cost the others."""
    with capture_logs() as logs:
        for _ in range(3):
            world.feed.take({"": of("a:1", "b")})
    assert world.names == ["a:1"]
    [line] = [line for line in logs if line["event"] == "Target left out"]
    assert line["reason"] == "__address__: must name the port, as host:port, got 'b'"


def test_answer_of_unusable_targets_only_is_a_failure(world: World) -> None:
    """Rather the old targets than none."""
    world.feed.take({"": of("a:1")})
    assert world.feed.take({"": of("a", "b")})
    assert world.names == ["a:1"]


def test_answer_whose_targets_are_all_dropped_by_rules_is_obeyed(world: World) -> None:
    """Rules that drop everything are meant."""
    world.feed.take({"": of("a:1")})
    world.feed.use(resolver({"action": "drop", "source_labels": ["__address__"]}))
    assert not world.feed.take({"": of("b:1")})
    assert world.names == []


def test_other_rules_apply_to_what_is_known(world: World) -> None:
    """A reload that changes rules needs no new answer."""
    world.feed.take({"": of("a:1", "b:1")})
    world.feed.use(resolver({"action": "drop", "source_labels": ["__address__"], "regex": "b.*"}))
    assert world.names == ["a:1"]


def test_answer_after_the_end_is_ignored(world: World) -> None:
    """An answer that was under way when the source left the configuration has no effect."""
    world.feed.close()
    world.feed.take({"": of("a:1")})
    assert (world.names, world.told, world.provider.closed) == ([], 0, True)


def test_it_is_asked_at_its_interval(world: World) -> None:
    """Looks in between ask nothing."""
    for _ in range(121):
        world.feed.look(world.provider)
        world.now += 1.0
    assert world.provider.times == 3


def test_failure_is_retried_sooner(world: World) -> None:
    """A source that fails is asked again after seconds, not after its interval."""
    world.provider.answer = {"": BROKEN}
    for _ in range(21):
        world.feed.look(world.provider)
        world.now += 1.0
    assert world.provider.times >= 5


def test_exception_nobody_expects_is_a_failure(world: World) -> None:
    """A fault of the provider costs nothing but the refresh."""
    world.feed.take({"": of("a:1")})
    world.provider.answer = RuntimeError("a fault")
    world.feed.look(world.provider)
    assert world.names == ["a:1"]
    assert world.stats.read()[KEY].failures == 1


def test_each_change_between_working_and_failing_is_one_line(world: World) -> None:
    """A source that fails for an hour is two lines, one when it begins and one when it ends."""
    with capture_logs() as logs:
        for answer in [of("a:1"), BROKEN, BROKEN, Failure("other"), of("a:1"), of("b:1"), BROKEN]:
            world.feed.take({"part": answer})
    assert [(line["event"], line.get("reason")) for line in logs] == [
        ("Discovery fails", "it is broken"),
        ("Discovery works again", None),
        ("Discovery fails", "it is broken"),
    ]
    assert (logs[0]["pool"], logs[0]["mechanism"], logs[0]["from"]) == ("chat", "http", "http://sd")


def test_refreshes_are_counted(world: World) -> None:
    """Refreshes, failed ones, targets and the time of the last good one."""
    for answer in [of("a:1", "b:1"), BROKEN, BROKEN]:
        world.now += 1.0
        world.feed.take({"": answer})
    reading = world.stats.read()[KEY]
    assert (reading.targets, reading.refreshes, reading.failures) == (2, 3, 2)
    assert reading.last_success == 101.0


def test_last_success_is_that_of_the_source_furthest_behind() -> None:
    """Two sources of one mechanism are one number; the worse one counts."""
    stats = SdStats()
    stats.keep([(KEY, 1), (KEY, 2)])
    stats.refreshed(KEY, 1, targets=1, at=5.0)
    assert stats.read()[KEY].last_success is None
    stats.refreshed(KEY, 2, targets=2, at=9.0)
    reading = stats.read()[KEY]
    assert (reading.last_success, reading.targets) == (5.0, 3)


def test_source_that_left_is_counted_no_more() -> None:
    """Counters go on without it; what it says late is ignored."""
    stats = SdStats()
    stats.keep([(KEY, 1), (KEY, 2)])
    stats.refreshed(KEY, 1, targets=1, at=5.0)
    stats.keep([(KEY, 2)])
    stats.refreshed(KEY, 1, targets=1, at=6.0)
    reading = stats.read()[KEY]
    assert (reading.refreshes, reading.targets) == (1, 0)
