"""Pools, reloads and the published snapshot; one tick of a pool on a virtual clock."""

import pytest
from structlog.testing import capture_logs

from scorer.addresses import parse_address
from scorer.config import parse_config
from scorer.config.pool import PoolConfig
from scorer.core.health import TargetId
from scorer.core.lost import HELD_PAGES
from scorer.core.samples import Page, ScrapeFailed
from scorer.core.vocabulary import State
from scorer.cycle import Cycle
from scorer.discovered import DiscoveredTarget, Found
from scorer.inflight import InFlight
from scorer.registry import Registry
from tests.core.builders import REFUSED, page, scrape


def pools(**targets: list[str]) -> tuple[PoolConfig, ...]:
    text = "pools:\n" + "\n".join(
        f"  - {{name: {name}, static_configs: [{{targets: {addresses}}}]}}"
        for name, addresses in targets.items()
    )
    return parse_config(text).pools


def found(configs: tuple[PoolConfig, ...]) -> dict[str, Found]:
    """Return the targets that the configurations name."""
    return {
        config.name: Found(
            tuple(DiscoveredTarget(parse_address(text)) for text in config.static_targets())
        )
        for config in configs
    }


class World:
    """A registry whose pools are scraped and judged by hand."""

    def __init__(self, **targets: list[str]) -> None:
        self.registry = Registry()
        self.inflight = InFlight()
        self.now = 0.0
        self.cycles: dict[str, Cycle] = {}
        self.apply(**targets)

    def apply(self, **targets: list[str]) -> list[TargetId]:
        configs = pools(**targets)
        departed = self.registry.apply(configs, found(configs), self.now)
        for name, pool in self.registry.pools.items():
            self.cycles.setdefault(name, Cycle(pool, self.inflight, self.registry.publish))
            self.cycles[name].tick(self.now)
        return departed

    def second(self, **results: Page | ScrapeFailed) -> None:
        """Let a second pass, with one scrape of every target of pool ``chat``."""
        self.now += 1.0
        pool = self.registry.pools["chat"]
        for name, health in pool.targets.items():
            picks = self.inflight.count("chat", name)
            result = results.get(name[0], page())
            pool.inbox.append((health, scrape(result, self.now, picks=picks)))
        self.cycles["chat"].tick(self.now)

    def scores(self, pool: str = "chat") -> dict[str, float | None]:
        view = self.registry.snapshot.pools[pool]
        return {target.target: target.score for target in view.targets}


@pytest.fixture
def world() -> World:
    """Return a pool of two targets that were judged once."""
    world = World(chat=["a:1", "b:1"])
    world.second()
    world.second()
    return world


def test_configured_pool_is_published_before_anything_is_scraped() -> None:
    """A pool exists from the start: its targets are known, none is scored."""
    world = World(chat=["a:1", "b:1"])
    view = world.registry.snapshot.pools["chat"]
    assert world.scores() == {"a:1": None, "b:1": None}
    assert (view.eligible, view.panic, len(view.candidates)) == (0, True, 2)


def test_target_that_stays_keeps_its_history(world: World) -> None:
    """A reload that adds one target leaves the others as they are."""
    world.second(a=page(waiting=60))
    before = world.scores()["a:1"]
    world.apply(chat=["a:1", "b:1", "c:1"])
    assert before == 75.0
    assert world.scores() == {"a:1": 75.0, "b:1": 100.0, "c:1": 0.0}


def test_departed_target_vanishes_at_once(world: World) -> None:
    """A target that left is in no view, and is named so that others can forget it."""
    departed = world.apply(chat=["b:1"])
    assert [identity.target for identity in departed] == ["a:1"]
    assert list(world.scores()) == ["b:1"]
    assert [each.target for each in world.registry.snapshot.pools["chat"].candidates] == ["b:1"]


def test_late_scrape_does_not_bring_a_target_back(world: World) -> None:
    """A scrape that ends after its target left is dropped."""
    late = world.registry.pools["chat"].targets["a:1"]
    world.apply(chat=["b:1"])
    world.registry.pools["chat"].inbox.append((late, scrape(page(), 5.0)))
    world.second()
    assert list(world.scores()) == ["b:1"]


def test_target_that_comes_back_starts_anew(world: World) -> None:
    """A target that left and returned has no memory: it warms up."""
    world.apply(chat=["b:1"])
    world.apply(chat=["b:1", "a:1"])
    assert world.scores()["a:1"] == 0.0


def test_departed_pool_vanishes_even_if_it_is_judged_late(world: World) -> None:
    """A tick of a pool that left does not publish it again."""
    cycle = world.cycles["chat"]
    others = pools(code=["c:1"])
    world.registry.apply(others, found(others), 3.0)
    cycle.tick(3.5)
    assert "chat" not in world.registry.snapshot.pools


def test_snapshot_once_taken_never_changes(world: World) -> None:
    """A reader keeps the view it took while others are published."""
    taken = world.registry.snapshot
    world.second(a=REFUSED)
    world.second(a=REFUSED)
    assert [each.score for each in taken.pools["chat"].targets] == [100.0, 100.0]
    assert world.registry.snapshot.version > taken.version


def test_weights_changed_by_a_reload_apply_to_known_targets(world: World) -> None:
    """New score parameters are used from the next judgement on."""
    text = (
        "pools: [{name: chat, static_configs: [{targets: ['a:1', 'b:1']}], "
        "signals: {queue: {ceiling: 60}}}]"
    )
    configs = parse_config(text).pools
    world.registry.apply(configs, found(configs), world.now)
    world.second(a=page(waiting=30))
    assert world.scores()["a:1"] == pytest.approx(87.5)


def test_picks_count_as_seen_once_a_scrape_began_after_them(world: World) -> None:
    """The penalty lasts until the engine's own numbers contain the picks."""
    for _ in range(7):
        world.inflight.opened("chat", "a:1")
    view = world.registry.snapshot.pools["chat"].targets[0]
    assert world.inflight.unseen(view) == 7
    world.second()
    assert world.inflight.unseen(world.registry.snapshot.pools["chat"].targets[0]) == 0


def test_failed_scrape_sees_no_picks(world: World) -> None:
    """Picks stay unseen while the target cannot be scraped."""
    world.inflight.opened("chat", "a:1")
    world.second(a=REFUSED)
    assert world.inflight.unseen(world.registry.snapshot.pools["chat"].targets[0]) == 1


def test_each_change_of_state_is_one_line(world: World) -> None:
    """A target that goes and comes is logged twice, not once per scrape."""
    with capture_logs() as logs:
        for _ in range(5):
            world.second(a=REFUSED)
        for _ in range(10):
            world.second()
    changes = [(line["state"], line["reason"]) for line in logs if "state" in line]
    assert changes == [
        (State.UNREACHABLE, "connection_refused"),
        (State.WARMUP, "recovered"),
        (State.HEALTHY, "none"),
    ]


def test_line_about_an_unreachable_target_says_why(world: World) -> None:
    """The log names the failure of the last scrape and its detail."""
    with capture_logs() as logs:
        world.second(a=REFUSED)
        world.second(a=REFUSED)
    [line] = [line for line in logs if line.get("state") == "unreachable"]
    assert (line["scrape_failure"], line["detail"]) == ("connect", "connection refused")


def test_signal_that_disappears_is_logged_once(world: World) -> None:
    """A gauge that an upgrade renamed is a line in the log, not a silent zero."""
    with capture_logs() as logs:
        for _ in range(HELD_PAGES + 5):
            world.second(a=page(kv_cache=None))
    lines = [line for line in logs if line["event"] == "Signal became unreadable"]
    assert [(line["target"], line["signal"], line["reason"]) for line in lines] == [
        ("a:1", "kv_cache", "family_absent")
    ]


@pytest.mark.parametrize("by", ["reload", "discovery"])
def test_pool_whose_targets_are_all_replaced_is_never_empty(by):
    """The new ones can be picked from the moment that the old ones are gone."""
    registry = Registry()
    config = parse_config("pools: [{name: chat, static_configs: [{targets: ['a:1']}]}]")
    first, second = (Found((DiscoveredTarget(parse_address(name)),)) for name in ("a:1", "b:1"))
    registry.apply(config.pools, {"chat": first}, 0.0)
    cycle = Cycle(registry.pools["chat"], InFlight(), registry.publish)
    cycle.tick(1.0)
    seen = []
    registry.subscribe(lambda: seen.append(registry.snapshot.pools["chat"].candidates))
    if by == "reload":
        registry.apply(config.pools, {"chat": second}, 2.0)
    else:
        registry.update("chat", second, 2.0, settled=True)
    assert [[each.target for each in views] for views in seen] == [["b:1"]]
