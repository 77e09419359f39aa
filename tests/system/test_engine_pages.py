"""Every page in the data folder, served to the running daemon: it sees what the table says."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.cases import Stage
from tests.system.conftest import DaemonProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]

PAGES = Path(__file__).parents[1] / "data" / "expositions"
TABLE = csv.DictReader((PAGES / "golden.csv").read_text().splitlines())
ROWS = [row for row in TABLE if row["kind"] != "gateway"]
LENGTH = 4.0
BIG = 5 * 1024 * 1024


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Serve each page as an engine of a pool of any kind, and a page of 5 MiB."""
    folder: Path = tmp_path_factory.mktemp("engine-pages")
    started: list[DaemonProcess] = []

    def start(config: dict[str, object]) -> DaemonProcess:
        started.append(DaemonProcess(folder, config))
        return started[-1]

    big = folder / "big.prom"
    others = (f'other_total{{row="{n}",text="{"x" * 60}"}} {n}.0' for n in range(BIG // 90))
    wanted = (PAGES / "oddities" / "good.prom").read_text()
    big.write_text("\n".join([*others, wanted]))
    stage = Stage(folder, start)
    pages = {row["page"]: [{"body_file": str(PAGES / row["page"])}] for row in ROWS}
    stage.pool("pages", ".", {**pages, "big": [{"body_file": str(big)}]})
    stage.run(LENGTH)
    yield stage
    for each in started:
        each.process.kill()
        each.process.wait(5)


def told(target: dict) -> dict[str, str | float]:
    """Return what the API says of a target, in the words of the table."""
    signals = {"waiting": target["signals"]["queue"], "kv_cache": target["signals"]["kv_cache"]}
    found = {name: each.get("unavailable", each.get("value")) for name, each in signals.items()}
    return {"mapping": target["mapping"] or "no_mapping", **found}


def expected(row: dict[str, str]) -> dict[str, object]:
    """Return the same of a row of the table; the API rounds to four places."""
    if row["kind"] == "-":
        return dict.fromkeys(("mapping", "waiting", "kv_cache"), "no_mapping")
    cells = {name: number_or_reason(row[name]) for name in ("waiting", "kv_cache")}
    return {"mapping": row["mapping"], **cells}


def number_or_reason(cell: str) -> object:
    """Return what a number compares with, or the reason why there is none."""
    try:
        return pytest.approx(float(cell), abs=1e-4)
    except ValueError:
        return cell


READ = [row for row in ROWS if row["mapping"] not in ("parse", "wrong_content")]


@pytest.mark.parametrize("row", READ, ids=[row["page"] for row in READ])
def test_daemon_reads_a_page_as_the_table_does(stage: Stage, row: dict[str, str]) -> None:
    """The same mapping, the same values, the same reasons; a page of no engine is blind."""
    target = stage.shots[-1].targets["pages", row["page"]]
    assert target["last_scrape"]["ok"]
    assert told(target) == expected(row)
    assert target["running"] == (float(row["running"]) if row["running"].isdigit() else None)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row not in READ], ids=lambda row: row["page"]
)
def test_page_that_is_none_fails_the_scrape(stage: Stage, row: dict[str, str]) -> None:
    """With its reason, and without a value."""
    target = stage.shots[-1].targets["pages", row["page"]]
    assert (target["last_scrape"]["ok"], target["last_scrape"]["reason"]) == (False, row["mapping"])
    assert target["state"] == "unreachable"


def test_no_page_without_a_value_looks_idle(stage: Stage) -> None:
    """What could not be read costs confidence; no target is healthy on nothing."""
    blind = [row["page"] for row in ROWS if row["mapping"] == "no_mapping"]
    states = {stage.shots[-1].targets["pages", page]["state"] for page in blind}
    assert states == {"degraded"}


def test_page_of_five_megabytes_is_read_in_time(stage: Stage) -> None:
    """Other families cost next to nothing: the few wanted lines are found within the deadline."""
    read = [row for row in stage.series("pages", "big") if row["last_scrape"]["ok"]]
    assert read
    assert {(row["mapping"], row["running"]) for row in read} == {("vllm_v1", 3)}
