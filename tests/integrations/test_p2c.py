"""The local pick in Lua comes to the same choices as Python, in every Lua that proxies have."""

import importlib
import json
import random
import shutil
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from scorer.core.prompts import BYTES_PER_TOKEN, MOST_TOKENS
from tests.vectors.generate import FILES

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "integrations" / "lua" / "p2c.lua"
VECTORS = ROOT / "tests" / "vectors"
CASES = [
    case
    for name in FILES
    for case in json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
]
HASHES = json.loads((VECTORS / "hashes.json").read_text(encoding="utf-8"))
GLOBS = ["llama-*", "*", "m?", "[ab]-x", "[!ab]-x", "[]x]y", "a.b", "50%", "q[0-9]*", "[", "x[", ""]
MODELS = ["llama-8b", "", "mx", "m", "a-x", "c-x", "]y", "a.b", "acb", "50%", "q1-x", "[", "x["]


class Lua:
    """One Lua with ``p2c.lua`` loaded."""

    def __init__(self, version: str) -> None:
        runtime = importlib.import_module(f"lupa.{version}").LuaRuntime(unpack_returned_tuples=True)
        self._runtime = runtime
        self.p2c = runtime.execute(SOURCE.read_text(encoding="utf-8"))

        self.loaded = runtime.eval("function() return 3, 900, 5.0 end")
        self._drawing = runtime.eval(
            "function(numbers) local at = 0; "
            "return function() at = at + 1; return numbers[at] end end"
        )

    def drawing(self, numbers):
        """Return draws that are these numbers: in Lua, since two functions of Python mix up."""
        return self._drawing(self.value(numbers))

    def value(self, data):
        """Return ``data`` as Lua's tables; null is nil."""
        if isinstance(data, dict):
            return self._runtime.table_from({key: self.value(each) for key, each in data.items()})
        if isinstance(data, list):
            return self._runtime.table_from([self.value(each) for each in data])
        return data

    def view(self, pool, dice=None):
        """Return what picks look at of a pool."""
        return self.p2c.view(self.value(pool), dice)

    def choose(self, view, request, draws, load=None):
        """Return what ``choose`` comes to, as Python's replay of the vectors has it."""
        excluded = dict.fromkeys(request["exclude"], True)
        ask = self.value({**request, "exclude": excluded})
        choice = self.p2c.choose(view, ask, draws, load)
        if choice is None:
            return None
        found = {key: choice[key] for key in ("target", "reason", "relaxed", "panic")}
        return found | {"alternates": list(choice.alternates.values())}


@pytest.fixture(scope="module", params=["luajit21", "lua51", "lua53", "lua54"])
def lua(request: pytest.FixtureRequest) -> Lua:
    return Lua(request.param)


def test_every_vector_gives_the_same_choice(lua: Lua):
    """Same choice, and not a draw more or less."""
    wrong = []
    for case in CASES:
        taken = iter(case["draws"])
        view = lua.view(case["snapshot"]["pools"][0])
        choice = lua.choose(view, case["request"], taken.__next__)
        left = len(list(taken))
        if (choice, len(case["draws"]) - left) != (case["choice"], case["draws_taken"]):
            wrong.append((case["name"], choice, case["choice"]))
    assert wrong == []


def test_hashes_are_the_same(lua: Lua):
    """Points, pairs of points, and the target that each key prefers."""
    assert {text: lua.p2c.point(text) for text in HASHES["points"]} == HASHES["points"]
    mixed = [[one, other, lua.p2c.mixed(one, other)] for one, other, _ in HASHES["mixed"]]
    assert mixed == HASHES["mixed"]
    for case in HASHES["rings"]:
        ring = lua.p2c.ring(lua.value(case["targets"]))
        found = {
            key: case["targets"][lua.p2c.preferred(ring, key) - 1] for key in case["preferred"]
        }
        assert found == case["preferred"]


def test_a_large_pool_is_shuffled_once_per_view(lua: Lua):
    """Every candidate stays, in another order; without chance the order is the snapshot's."""
    pool = next(
        case["snapshot"]["pools"][0]
        for case in CASES
        if len(case["snapshot"]["pools"][0]["targets"]) > 8
    )
    plain = [row.target for row in lua.view(pool).rows.values()]
    mixed = [row.target for row in lua.view(pool, random.Random(4).random).rows.values()]
    assert sorted(plain) == sorted(mixed)
    assert plain != mixed


def test_load_of_the_proxy_replaces_that_of_the_snapshot(lua: Lua):
    """A target that looks idle in the snapshot is passed by when the proxy filled it since."""
    pool = CASES[4]["snapshot"]["pools"][0]
    assert len(pool["targets"]) == 2
    busy = pool["targets"][0]["target"]
    request = {"prompt_tokens": 500, "exclude": [], "key": "", "lora": ""}

    def load(row):
        return (20, 40_000, 90_000.0) if row.target == busy else (0, 0, 0.0)

    dice = random.Random(1).random
    view = lua.view(pool)
    assert busy in {lua.choose(view, request, dice)["target"] for _ in range(60)}
    assert busy not in {lua.choose(view, request, dice, load)["target"] for _ in range(60)}


def test_full_targets_of_an_old_snapshot_are_full_no_longer(lua: Lua):
    """What lasts for seconds is left out: a cooldown, a full KV cache; health stays."""
    pool = next(
        case["snapshot"]["pools"][0]
        for case in CASES
        if any(target["cooling"] for target in case["snapshot"]["pools"][0]["targets"])
    )
    fresh, old = lua.view(pool), lua.p2c.view(lua.p2c.lasting(lua.value(pool)), None)
    assert len(fresh.short_list) < len(fresh.rows)
    assert len(old.short_list) == len(old.rows) == len(fresh.rows)
    assert {row.room for row in old.rows.values()} == {float("inf")}
    assert [row.health for row in old.rows.values()] == [row.health for row in fresh.rows.values()]


def test_pool_by_name_by_model_or_the_only_one(lua: Lua):
    """As the daemon resolves: a name is taken at its word, else the first pool that serves it."""
    pools = [
        {"pool": "big", "models": ["llama-70b*"], "targets": []},
        {"pool": "rest", "models": [], "targets": []},
    ]
    several, one = lua.value({"pools": pools}), lua.value({"pools": pools[:1]})

    def name(*arguments):
        found = lua.p2c.pool(*arguments)
        return found[1] if isinstance(found, tuple) else found.pool

    assert name(several, "rest", "llama-70b") == "rest"
    assert name(several, "", "llama-70b-chat") == "big"
    assert name(several, None, "qwen") == "rest"
    assert name(one, None, None) == "big"
    assert "several pools" in name(several, None, None)
    assert name(one, None, "qwen") == "no pool serves the model qwen"
    assert name(one, "none", None) == "no pool none"


@pytest.mark.parametrize("glob", GLOBS)
def test_globs_match_as_in_the_daemon(lua: Lua, glob: str):
    """Stars, question marks, sets, and signs that mean something to Lua only."""
    pools = lua.value(
        {
            "pools": [
                {"pool": "p", "models": [glob], "targets": []},
                {"pool": "q", "models": ["?*", "*"], "targets": []},
            ]
        }
    )
    fitting = [model for model in MODELS if model and lua.p2c.pool(pools, None, model).pool == "p"]
    assert fitting == [model for model in MODELS if model and fnmatchcase(model, glob)]


def test_without_a_snapshot_two_of_a_list(lua: Lua):
    """Random, never one that is excluded; nothing when nobody is left."""
    targets = lua.value(["a:1", "b:1", "c:1"])
    dice = random.Random(2).random
    seen = set()
    for _ in range(60):
        target, others = lua.p2c.any_two(targets, lua.value({"b:1": True}), dice)
        seen.add((target, *others.values()))
    assert seen == {("a:1", "c:1"), ("c:1", "a:1")}
    assert (
        lua.p2c.any_two(targets, lua.value({"a:1": True, "b:1": True, "c:1": True}), dice) is None
    )


def test_lua_is_clean():
    """Luacheck finds nothing in any Lua file that ships."""
    luacheck = shutil.which("luacheck")
    assert luacheck, "scripts/setup.sh test installs Debian's lua-check"
    command = [luacheck, "--no-color", "--config", str(ROOT / ".luacheckrc"), "integrations"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("absurd", [10_000_001.0, 1e18, 1e300, float("inf"), float("nan")])
def test_absurd_length_is_the_longest_that_there_is(lua: Lua, absurd: float):
    """As the daemon takes it; what a client announces must not make costs no numbers."""
    pool = CASES[4]["snapshot"]["pools"][0]
    request = {"exclude": [], "key": "", "lora": ""}
    dice = random.Random(1)
    drawn = [dice.random() for _ in range(200)]

    def picks(tokens):
        view, draws = lua.view(pool), lua.drawing(drawn)
        return [
            lua.choose(view, {**request, "prompt_tokens": tokens}, draws, lua.loaded)
            for _ in range(20)
        ]

    assert lua.p2c.MOST_BYTES == MOST_TOKENS * BYTES_PER_TOKEN
    assert picks(absurd) == picks(float(MOST_TOKENS))
