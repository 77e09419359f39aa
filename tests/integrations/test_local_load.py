"""What local picks take for the load of a target, as the snapshot that they go by grows old."""

import importlib
from pathlib import Path

import pytest

INTEGRATIONS = Path(__file__).parent.parent.parent / "integrations"


class Shared:
    """A ``lua_shared_dict``, as far as it is used."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def methods(self, runtime):
        """Return it as a Lua table."""

        def incr(_, key, by, *first):
            self.values[key] = self.values.get(key, 0) + by

        def get(_, key):
            return self.values.get(key)

        return runtime.table_from({"incr": incr, "get": get})


@pytest.fixture(params=["lua53", "lua54"])
def leases(request):
    """Return HAProxy's ``load.lua``."""
    runtime = importlib.import_module(f"lupa.{request.param}").LuaRuntime(
        unpack_returned_tuples=True
    )
    p2c = (INTEGRATIONS / "lua" / "p2c.lua").read_text()
    runtime.globals().package.loaded["p2c"] = runtime.execute(p2c)
    module = runtime.execute((INTEGRATIONS / "haproxy" / "scorer" / "load.lua").read_text())
    module.table = runtime.table_from
    return module


@pytest.fixture
def load():
    """Return nginx's ``load.lua`` and what a row of the snapshot is made with."""
    runtime = importlib.import_module("lupa.luajit21").LuaRuntime(unpack_returned_tuples=True)
    p2c = (INTEGRATIONS / "lua" / "p2c.lua").read_text()
    loaded = runtime.globals().package.loaded
    loaded["p2c"] = runtime.execute(p2c)
    loaded["cjson.safe"] = runtime.table_from({})
    module = runtime.execute((INTEGRATIONS / "nginx" / "scorer" / "load.lua").read_text())
    module.setup(Shared().methods(runtime))
    module.table = runtime.table_from
    module.kilobytes = lambda: runtime.execute('collectgarbage() return collectgarbage("count")')
    return module


def row(load, **numbers):
    """Return a row of a snapshot."""
    fields = {"in_flight": 0, "resident": 0, "outstanding": 0.0, "rate": 1000.0}
    return load.table({"target": "a:1", **fields, **numbers})


def test_own_requests_count_in_full_however_old_the_snapshot(load):
    """Until they end, which this proxy knows."""
    lease = load.start("a:1", 100)
    for age in (0.0, 5.0, 500.0):
        assert load.since(load.table({}), age)(row(load)) == (1, 100, 100)
    load.first_token(lease)
    assert load.since(load.table({}), 5.0)(row(load)) == (1, 100, 0)
    load.finish(lease)
    assert load.since(load.table({}), 5.0)(row(load)) == (0, 0, 0)


def test_the_load_of_others_fades(load):
    """Nobody tells here that it ended: half of it is gone in 5 s, waiting work at its rate."""
    busy = row(load, in_flight=8, resident=4000, outstanding=6000.0)
    assert load.since(load.table({}), 0.0)(busy) == (8, 4000, 6000.0)
    assert load.since(load.table({}), 5.0)(busy) == (4, 2000, 1000.0)
    assert load.since(load.table({}), 60.0)(busy)[2] == 0.0
    assert load.since(load.table({}), 60.0)(busy)[0] < 0.01


def test_own_requests_are_not_counted_twice(load):
    """The snapshot holds those that were under way when it was made: the mark says which."""
    lease = load.start("a:1", 1000)
    mark = load.table({"a:1": load.table([1, 1000, 1020])})
    seen = row(load, in_flight=3, resident=1500, outstanding=2020.0)
    assert load.since(mark, 0.0)(seen) == (3, 1500, 2020.0)
    load.finish(lease)
    assert load.since(mark, 0.0)(seen) == (2, 500, 1000.0)


def test_targets_that_come_and_go_are_forgotten(load):
    """Requests that are under way meanwhile are counted to their end."""
    lease = load.start("a:1", 100)
    load.flush()
    before = load.kilobytes()
    for number in range(30_000):
        load.finish(load.start(f"10.0.0.1:{number}", 1))
        load.flush()
    assert load.kilobytes() < before + 3_000
    assert load.in_flight("a:1") == 1
    load.finish(lease)
    load.flush()
    assert load.in_flight("a:1") == 0


def test_work_of_a_request_that_left_is_ahead_of_nobody(leases):
    """A prompt of any length may be announced; what waits behind it waits no longer than it."""
    long = leases.start("a:1", 1_000_000, 1000.0, 0.0)
    leases.start("a:1", 1000, 1000.0, 0.0)
    n, tokens, ahead = leases.since(0.0, 0.0)(row(leases))
    assert (n, tokens, ahead > 1_000_000) == (2, 1_001_000, True)
    leases.finish(long, 0.5)
    assert leases.since(0.0, 0.5)(row(leases)) == (1, 1000, pytest.approx(1020.0 - 500.0 + 500.0))


def test_work_that_was_done_is_not_taken_off_again(leases):
    """A request that took as long as was estimated leaves the later ones their wait."""
    first = leases.start("a:1", 1000, 1000.0, 0.0)
    leases.start("a:1", 1000, 1000.0, 0.0)
    leases.finish(first, 1.02)
    assert leases.since(0.0, 1.02)(row(leases)) == (1, 1000, pytest.approx(1020.0))
