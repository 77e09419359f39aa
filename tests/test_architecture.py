"""The shape of the code: floors, purity of the core, sizes, and what is packaged.

Each check is a function over a folder or a text, so that a test can also show it
something broken: a check that cannot fail proves nothing.
"""

import ast
import fnmatch
import shutil
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
PACKAGES = ("scorer", "exporters")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

FILE_LINES = 400
TEST_FILE_LINES = 500
FUNCTION_LINES = 50
MEDIAN_FUNCTION_LINES = 10


def check_contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the import contracts on the packages in ``folder``, in a process of their own."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def sources(*folders: str) -> Iterator[Path]:
    """Yield the Python files of the project's ``folders``."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if DATA not in path.parents:  # other people's code, as it came
                yield path


def function_lengths(source: str) -> dict[str, int]:
    """Return the lines of each function by name and line, docstring included."""
    return {
        f"{node.name}:{node.lineno}": (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a folder with a copy of the packages and of their contracts."""
    for package in PACKAGES:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_import_contracts_are_kept():
    """Imports flow downward only, and the core imports nothing impure."""
    done = check_contracts(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_contracts_hold_for_an_untouched_copy(copy: Path):
    """A copy passes, so what fails below fails for the line that was added."""
    done = check_contracts(copy)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("scorer/core/score.py", "import time", "scorer.core.score -> time"),
        ("scorer/core/pick.py", "from random import randrange", "scorer.core.pick -> random"),
        ("scorer/core/judge.py", "import logging", "scorer.core.judge -> logging"),
        ("scorer/core/score.py", "import requests", "scorer.core.score -> requests"),
        ("scorer/core/score.py", "import scorer.config", "scorer.core.score -> scorer.config"),
        ("scorer/registry.py", "import scorer.cycle", "scorer.registry -> scorer.cycle"),
        ("scorer/http/__init__.py", "import exporters", "scorer.http -> exporters"),
    ],
)
def test_contract_is_broken_by(copy: Path, module: str, line: str, contract: str):
    """One forbidden import breaks the contracts, and the report names it."""
    with (copy / module).open("a") as file:
        file.write(f"\n{line}\n")
    done = check_contracts(copy)
    assert done.returncode == 1
    assert contract in done.stdout


def test_every_module_has_a_floor():
    """A module that no layer names would be free to import anything."""
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    floors = next(c for c in contracts if c["id"] == "floors")["layers"]
    placed = {name.strip(" ()") for floor in floors for name in floor.split("|")}
    modules = {f"scorer.{p.stem}" for p in (ROOT / "scorer").glob("*.py") if p.stem != "__init__"}
    packages = {f"scorer.{p.parent.name}" for p in (ROOT / "scorer").glob("*/__init__.py")}
    assert (modules | packages | {"exporters"}) - placed == set()


@pytest.mark.parametrize(
    ("folders", "limit"),
    [(PACKAGES, FILE_LINES), (("benchmarks",), FILE_LINES), (("tests",), TEST_FILE_LINES)],
)
def test_no_file_is_too_long(folders: tuple[str, ...], limit: int):
    """A file fits in a head: 400 lines at most, 500 for tests."""
    lengths = {p.relative_to(ROOT): len(p.read_text().splitlines()) for p in sources(*folders)}
    assert {path: n for path, n in lengths.items() if n > limit} == {}


def test_no_function_is_too_long():
    """A function fits on a screen: 50 lines at most."""
    long = {
        f"{path.relative_to(ROOT)}:{name}": lines
        for path in sources(*PACKAGES, "tests", "benchmarks")
        for name, lines in function_lengths(path.read_text()).items()
        if lines > FUNCTION_LINES
    }
    assert long == {}


def test_most_functions_are_short():
    """Half of the shipped functions have fewer than ten lines."""
    lengths = [n for p in sources(*PACKAGES) for n in function_lengths(p.read_text()).values()]
    assert statistics.median(lengths) < MEDIAN_FUNCTION_LINES


def test_a_long_function_is_seen():
    """Methods, nested and async functions count from ``def`` to their last line."""
    source = "class A:\n    async def f(self):\n        def g():\n            pass\n        g()\n"
    assert function_lengths(source) == {"f:2": 4, "g:3": 2}


def test_every_test_says_its_fact():
    """A test has a docstring that says what holds, for whoever sees it fail."""
    silent = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in sources("tests")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []


def test_every_package_is_listed():
    """The explicit package list has every package, or a wheel would lack it."""
    found = {
        ".".join(p.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for p in (ROOT / package).rglob("__init__.py")
    }
    assert sorted(PYPROJECT["tool"]["setuptools"]["packages"]) == sorted(found)


def test_every_data_file_is_packaged():
    """Mappings and templates are named by package-data, or a wheel would lack them."""
    patterns = [
        f"{package.replace('.', '/')}/{pattern}"
        for package, listed in PYPROJECT["tool"]["setuptools"]["package-data"].items()
        for pattern in listed
    ]
    data = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"}
    }
    packaged = {name for name in data for pattern in patterns if fnmatch.fnmatch(name, pattern)}
    assert data == packaged
    assert data
