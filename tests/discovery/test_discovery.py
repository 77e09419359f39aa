"""All sources of all pools: what a reload keeps, what is one target, what is waited for."""

from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scorer.addresses import parse_address
from scorer.config import parse_config
from scorer.discovered import DiscoveredTarget, Mechanism
from scorer.discovery import Discovery, merged

STATIC = "static_configs: [{targets: ['a:1', 'b:1']}]"


class Jobs:
    """A scheduler whose jobs run when a test says so."""

    def __init__(self) -> None:
        self.jobs: dict[str, Callable[[], None]] = {}

    def every(self, name: str, interval: float, run: Callable[[], None], *, at_once: bool) -> None:
        assert at_once
        assert interval == 1.0
        self.jobs[name] = run

    def remove(self, name: str) -> None:
        del self.jobs[name]

    @property
    def names(self) -> set[str]:
        return set(self.jobs)


class World:
    """Discovery of a configuration in a folder, on a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        self.told: list[str] = []
        self.jobs = Jobs()
        self.discovery = Discovery(self.jobs, self.told.append, lambda: self.now)  # type: ignore[arg-type]

    def apply(self, *pools: str) -> None:
        """Apply a configuration with pools ``chat``, ``code``, of these keys each."""
        names = ("chat", "code")[: len(pools)]
        text = "pools:\n" + "\n".join(
            f"- {{name: {name}, {keys}}}" for name, keys in zip(names, pools, strict=True)
        )
        self.discovery.apply(parse_config(text, self.folder))

    def file(self, name: str, *targets: str) -> None:
        (self.folder / name).write_text(f"- {{targets: {list(targets)}}}")

    def look(self) -> None:
        """Let a second pass, with one run of every job."""
        for job in list(self.jobs.jobs.values()):
            job()
        self.now += 1.0

    def names(self, pool: str = "chat") -> list[str]:
        return [target.address.name for target in self.discovery.found(pool).targets]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_static_targets_are_known_at_once(world: World) -> None:
    """Nothing is asked and nothing told: whoever applies the configuration looks by itself."""
    world.apply(STATIC)
    assert (world.names(), world.jobs.names, world.told) == (["a:1", "b:1"], set(), [])
    assert world.discovery.found("chat").complete
    assert world.discovery.waiting_for("chat") is None


def test_asked_source_is_waited_for(world: World) -> None:
    """Until its first answer a pool is not complete, and the one that is missing is named."""
    world.file("x.yml", "c:1")
    world.apply("file_sd_configs: [{files: [x.yml]}]")
    waiting = f"file discovery ({world.folder}/x.yml)"
    assert (world.names(), world.discovery.waiting_for("chat")) == ([], waiting)
    assert not world.discovery.found("chat").complete
    world.look()
    assert (world.names(), world.discovery.waiting_for("chat")) == (["c:1"], None)
    assert (world.discovery.found("chat").complete, world.told) == (True, ["chat"])


def test_source_that_fails_from_the_start_is_waited_for(world: World) -> None:
    """A failure is no answer."""
    world.apply("file_sd_configs: [{files: [x.yml]}]")
    world.look()
    assert world.discovery.waiting_for("chat") is not None
    assert world.told == []


def test_mechanisms_add_up_and_a_target_is_listed_once(world: World) -> None:
    """Two mechanisms that know the same target make one of it, in the first one's place."""
    world.file("x.yml", "http://B:1/", "c:1")
    world.apply(f"{STATIC}, file_sd_configs: [{{files: [x.yml]}}]")
    world.look()
    assert world.names() == ["a:1", "b:1", "c:1"]


def test_pools_are_told_apart(world: World) -> None:
    """A change in one pool is told for that pool."""
    world.file("x.yml", "c:1")
    world.apply(STATIC, "file_sd_configs: [{files: [x.yml]}]")
    world.look()
    assert (world.told, world.names("chat"), world.names("code")) == (
        ["code"], ["a:1", "b:1"], ["c:1"],
    )  # fmt: skip


def test_source_that_a_reload_leaves_alone_goes_on(world: World) -> None:
    """What it knows is not lost, and it is not asked anew."""
    files = "file_sd_configs: [{files: [x.yml]}]"
    world.file("x.yml", "c:1")
    world.apply(files)
    world.look()
    jobs = dict(world.jobs.jobs)
    world.apply(f"{STATIC}, {files}")
    assert (world.names(), world.jobs.jobs) == (["a:1", "b:1", "c:1"], jobs)
    assert world.discovery.found("chat").complete


def test_targets_stay_until_a_new_source_has_answered(world: World) -> None:
    """A reload to a source that is slow or wrong does not empty the pool."""
    world.apply(STATIC)
    world.apply("file_sd_configs: [{files: [x.yml]}]")
    world.look()
    assert (world.names(), world.discovery.found("chat").complete) == (["a:1", "b:1"], False)
    world.file("x.yml", "b:1", "c:1")
    world.look()
    assert (world.names(), world.discovery.found("chat").complete) == (["b:1", "c:1"], True)


def test_source_that_left_is_asked_no_more(world: World) -> None:
    """Its job goes, and its targets with it."""
    world.file("x.yml", "c:1")
    world.apply("file_sd_configs: [{files: [x.yml]}]")
    world.look()
    late = next(iter(world.jobs.jobs.values()))
    world.apply(STATIC)
    world.file("x.yml", "d:1")
    late()
    assert (world.names(), world.jobs.names, world.discovery.jobs >= world.jobs.names) == (
        ["a:1", "b:1"], set(), True,
    )  # fmt: skip


def test_pool_that_left_is_gone(world: World) -> None:
    """Nothing is known of a pool that the configuration does not name."""
    world.apply(STATIC, STATIC)
    world.apply(STATIC)
    assert world.names("code") == []
    assert ("code", Mechanism.STATIC) not in world.discovery.stats.read()


def test_rules_changed_by_a_reload_apply_to_what_is_known(world: World) -> None:
    """Other rules need no new answer."""
    files = "file_sd_configs: [{files: [x.yml]}]"
    world.file("x.yml", "c:1", "d:1")
    world.apply(files)
    world.look()
    drop = "{action: drop, source_labels: [__address__], regex: 'c:1'}"
    world.apply(f"{files}, relabel_configs: [{drop}]")
    assert world.names() == ["d:1"]


def test_each_change_of_membership_is_one_line(world: World) -> None:
    """The line counts who came and who went; a look that finds no change is silent."""
    world.file("x.yml", "a:1", "b:1")
    world.apply("file_sd_configs: [{files: [x.yml]}]")
    with capture_logs() as logs:
        world.look()
        world.look()
        world.file("x.yml", "b:1", "c:1", "d:1")
        world.look()
        world.look()
    assert [(line["event"], line["added"], line["removed"], line["targets"]) for line in logs] == [
        ("Targets changed", 2, 0, 2),
        ("Targets changed", 2, 1, 3),
    ]


def test_change_of_draining_is_told(world: World) -> None:
    """A target that begins to drain is the same target, and a change."""
    world.file("x.yml", "c:1")
    world.apply("file_sd_configs: [{files: [x.yml]}]")
    world.look()
    (world.folder / "x.yml").write_text("- {targets: ['c:1'], labels: {__draining__: 'true'}}")
    world.look()
    [target] = world.discovery.found("chat").targets
    assert (target.draining, world.told) == (True, ["chat", "chat"])


def test_counts_are_by_pool_and_mechanism(world: World) -> None:
    """Targets as found, before they are put together."""
    world.file("x.yml", "a:1", "c:1")
    world.apply(f"{STATIC}, file_sd_configs: [{{files: [x.yml]}}]")
    world.look()
    world.look()
    read = world.discovery.stats.read()
    static, files = read["chat", Mechanism.STATIC], read["chat", Mechanism.FILE]
    assert (static.targets, static.refreshes, static.failures) == (2, 1, 0)
    assert (files.targets, files.refreshes, files.last_success) == (2, 2, 1.0)


def test_target_drains_when_every_listing_says_so() -> None:
    """One that lists it as serving is believed."""
    leaving = DiscoveredTarget(parse_address("a:1"), draining=True)
    staying = DiscoveredTarget(parse_address("a:1"))
    assert merged([leaving, leaving]) == (leaving,)
    assert merged([leaving, staying]) == merged([staying, leaving]) == (staying,)
