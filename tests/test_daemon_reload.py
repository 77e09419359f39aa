"""A reload is taken whole or not at all, wherever it fails."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scorer.config import load_config
from scorer.daemon import Daemon
from scorer.discovered import Found

BEFORE = "pools: [{name: chat, static_configs: [{targets: ['a:1', 'b:1']}]}]"
AFTER = """
pools:
  - {name: chat, models: [m], pick: {kv_guard: 0.5}, static_configs: [{targets: ['b:1', 'c:1']}]}
  - {name: code, static_configs: [{targets: ['d:1']}]}
"""
OTHER = "pools: [{name: code, static_configs: [{targets: ['d:1']}]}]"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Return a daemon with two targets that scrapes nothing: its scheduler is not started."""
    path = tmp_path / "scorer.yml"
    path.write_text(BEFORE)
    made = Daemon(load_config(path), path)
    made.scheduler.start = lambda: None  # type: ignore[method-assign]
    made.start()
    yield made
    made.stopping = True
    for source in made.jobs._sources.values():
        source.close()


def state(daemon: Daemon) -> object:
    """Return all that a reload may change; targets by identity, so that memory counts."""
    pools = daemon.registry.pools
    return {
        "config": daemon.config,
        "pools": {name: (id(pool), pool.facts, pool.params) for name, pool in pools.items()},
        "targets": {
            name: {target: id(health) for target, health in pool.targets.items()}
            for name, pool in pools.items()
        },
        "views": {
            name: (view.models, [each.target for each in view.targets])
            for name, view in daemon.registry.snapshot.pools.items()
        },
        "jobs": sorted(daemon.scheduler.names),
        "found": daemon.discovery.found("chat"),
        "scraped": sorted(daemon.jobs._sources),
    }


def failing_once(call: Callable[..., object], *, after: bool) -> Callable[..., object]:
    """Return ``call``, which raises the first time, before or after it has done its work."""
    times = iter([True])

    def wrapped(*args: object) -> object:
        fails = next(times, False)
        if fails and not after:
            raise OSError(24, "Too many open files")
        result = call(*args)
        if fails:
            raise RuntimeError("can't start new thread")
        return result

    return wrapped


@pytest.mark.parametrize("text", [AFTER, OTHER])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("part", "method"),
    [
        ("discovery", "apply"),
        ("registry", "apply"),
        ("feeds", "apply"),
        ("feedback", "use"),
        ("jobs", "schedule"),
    ],
)
def test_failure_half_way_leaves_all_as_it_was(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, part: str, method: str, text: str, after: bool
) -> None:
    """Pools, targets with their memory, views and jobs are those from before; then it works."""
    load = daemon.inflight.load("chat", "a:1")
    daemon.inflight.lease(load, "pick", 1.0, 100, daemon.clocks.monotonic())
    before = state(daemon)
    path = Path(str(daemon._path))
    path.write_text(text)
    owner = getattr(daemon, part) if part else daemon
    monkeypatch.setattr(owner, method, failing_once(getattr(owner, method), after=after))
    assert not daemon.reload()
    assert state(daemon) == before
    assert daemon.inflight.count("chat", "a:1") == 1
    assert daemon.stats.read().reload_ok is False
    assert daemon.reload()
    assert list(daemon.registry.pools) == [pool.name for pool in load_config(path).pools]
    assert daemon.inflight.count("chat", "a:1") == 0


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, RecursionError, KeyError, OSError])
def test_reload_never_raises(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Whatever goes wrong, the daemon goes on and tells that its file was not taken."""

    def load(_: object) -> None:
        raise error

    before = state(daemon)
    monkeypatch.setattr("scorer.daemon.load_config", load)
    assert not daemon.reload()
    assert state(daemon) == before


@pytest.mark.parametrize("keys", ["path: /run/other.sock", 'path: /run/s, mode: "0600"'])
def test_unix_socket_stays_where_it_is(daemon: Daemon, keys: str) -> None:
    """As every listener; the rest of the file is taken, and the log says so once."""
    daemon._path.write_text(f"web: {{unix_socket: {{{keys}}}}}\n{AFTER}")
    with capture_logs() as logs:
        assert daemon.reload()
        assert list(daemon.registry.pools) == ["chat", "code"]
    told = [each["event"] for each in logs if each["log_level"] == "warning"]
    assert told == ["web.unix_socket changes with a restart only"]


def test_discovery_goes_on_while_a_file_is_slow(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file on a dead mount holds up the reload only, not targets that come and go."""
    release, loading = threading.Event(), threading.Event()

    def load(path: Path) -> object:
        loading.set()
        release.wait(30)
        return load_config(path)

    monkeypatch.setattr("scorer.daemon.load_config", load)
    reloading = threading.Thread(target=daemon.reload)
    reloading.start()
    assert loading.wait(5)
    monkeypatch.setattr(daemon.discovery, "found", lambda _: Found())
    updating = threading.Thread(target=daemon.update, args=("chat",))
    updating.start()
    updating.join(5)
    assert not updating.is_alive()
    assert not daemon.registry.pools["chat"].targets
    release.set()
    reloading.join(5)
