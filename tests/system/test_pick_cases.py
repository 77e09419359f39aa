"""Picks under everything that happens to them: shares, noise, slow clients, leaving targets."""

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.cases import Stage
from tests.system.conftest import DaemonProcess, FakeEngine, pool_of
from tests.system.wire import PICK, Wire

pytestmark = [pytest.mark.system, pytest.mark.slow]

POST = b"POST /feedback HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b"


def post(**item: object) -> bytes:
    """Return a request with one feedback item."""
    body = json.dumps(item).encode()
    return POST % (len(body), body)


@pytest.fixture(scope="module")
def b16(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Let 400 picks without feedback fall on each pool of B16, within about one scrape."""
    folder: Path = tmp_path_factory.mktemp("b16")
    started: list[DaemonProcess] = []

    def start(config: dict[str, object]) -> DaemonProcess:
        started.append(DaemonProcess(folder, config))
        return started[-1]

    stage = Stage(folder, start)
    pools = [
        stage.pool("near", "B16", "scenario.json"),
        stage.pool("two", "B16", "scenario_two.json"),
        stage.pool("same", "B16", "scenario_same.json"),
        stage.pool("back", "B16", dict.fromkeys("dcba", "kv10.prom")),
    ]

    def run() -> None:
        stage.until(3.0)
        wire = Wire(stage.daemon.url)
        for pool in pools:
            for _ in range(40):
                asked = [PICK % f"pool={pool.name}&format=text".encode()] * 10
                for status, body in wire.ask(*asked):
                    pool.picks.append((stage.now, pool.letters[body.decode()], status))
        wire.close()

    stage.script(run)
    stage.run(6.0)
    yield stage
    for each in started:
        each.process.kill()
        each.process.wait(5)


@pytest.mark.parametrize(
    ("pool", "least", "most"),
    [("near", 0.15, 0.35), ("two", 0.30, 0.70), ("same", 0.18, 0.32), ("back", 0.18, 0.32)],
)
def test_b16_burst_between_two_scrapes_is_shared(
    b16: Stage, pool: str, least: float, most: float
) -> None:
    """N=400: nearly equal 25 ± 10 %, one point apart none above 70 %, identical 25 ± 7 %."""
    assert b16.failures == []
    shares = [b16.share(pool, letter) for letter in b16.pools[pool].ports]
    assert all(least <= share <= most for share in shares), shares


def memory(daemon: DaemonProcess) -> float:
    """Return the resident MiB of the daemon."""
    text = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def series(daemon: DaemonProcess) -> int:
    """Return how many series /metrics has."""
    text: str = daemon.get("/metrics").text
    return sum(not line.startswith("#") for line in text.splitlines())


def test_b15_picks_without_a_word_and_reports_about_strangers(
    daemon: Callable[..., DaemonProcess], engine: Callable[[], FakeEngine]
) -> None:
    """N=200,000 picks, 50,000 strange reports, 1,000 repeated ones: no memory, no series."""
    running = daemon(pool_of(engine(), engine(), pick={"lease_ttl": "10s"})).ready()
    wire = Wire(running.url)
    picks = [PICK % b"prompt_tokens=200"] * 100

    def hammer(count: int) -> Counter[int]:
        return Counter(status for _ in range(count // 100) for status, _ in wire.ask(*picks))

    hammer(40_000)
    running.until(lambda: running.get("/api/v1/targets").status_code == 200)
    before, listed = memory(running), series(running)
    assert hammer(160_000) == {200: 160_000}
    answers: Counter[int] = Counter()
    for start in range(0, 50_000, 100):
        strange = [
            post(target=f"stranger-{number}:1", model=f"m{number}", status=200, ttft_seconds=0.005)
            for number in range(start, start + 100)
        ]
        answers += Counter(status for status, _ in wire.ask(*strange))
    assert answers == {404: 50_000}
    assert memory(running) - before < 50.0
    assert series(running) == listed

    [(_, body)] = wire.ask(picks[0])
    repeated = post(pick_id=json.loads(body)["pick_id"], status=200, ttft_seconds=0.3)
    wire.ask(*[repeated] * 1000)
    big = b"x" * 5_000_000
    assert running.http.post(running.url + "/feedback", data=big, timeout=10).status_code == 413

    def in_flight() -> list[int]:
        return [row["in_flight"] for row in running.get("/api/v1/targets").json()["data"]]

    assert min(in_flight()) >= 0
    running.until(lambda: in_flight() == [0, 0], seconds=20.0)
    wire.close()


def test_targets_that_leave_while_they_are_picked(
    daemon: Callable[..., DaemonProcess], engine: Callable[[], FakeEngine], tmp_path: Path
) -> None:
    """A pool shrunk, emptied and filled again under picks: an answer or 503, nothing else."""
    names = [engine().target, engine().target]
    listed = tmp_path / "targets.json"

    def lists(*targets: str) -> None:
        new = listed.with_suffix(".new")
        new.write_text(json.dumps([{"targets": list(targets)}]))
        new.replace(listed)

    lists(*names)
    files = [{"files": [str(listed)]}]
    running = daemon({"pools": [{"name": "chat", "file_sd_configs": files}]}).ready()
    wire = Wire(running.url)
    seen: dict[str, Counter[int]] = {}

    def picks_until(statuses: set[int], phase: str) -> None:
        """Pick until the answers are these only, for a hundred picks in a row."""
        counts = seen.setdefault(phase, Counter())
        end = time.monotonic() + 15.0
        while time.monotonic() < end:
            found = Counter(status for status, _ in wire.ask(*[PICK % b""] * 100))
            counts += found
            if set(found) == statuses:
                return
        pytest.fail(f"{phase}: answered {counts}; the daemon's log:\n{running.log}")

    for phase, (targets, statuses) in {
        "emptied": ((), {503}), "filled": (names, {200}), "emptied again": ((), {503}),
        "one": (names[:1], {200}),
    }.items():  # fmt: skip
        lists(*targets)
        picks_until(statuses, phase)
    assert {status for counts in seen.values() for status in counts} == {200, 503}
    running.until(lambda: names[1] not in {
        json.loads(body)["target"] for _, body in wire.ask(*[PICK % b""] * 20)
    })  # fmt: skip
    wire.close()
    assert "Traceback" not in running.log
    running.signal(signal.SIGTERM)
    assert running.process.wait(60) == 0


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        (b"x=" + b"y" * 10_240, 200, b""),
        (b"exclude=" + b",".join(b"t%d:1" % each for each in range(1500)), 200, b""),
        (b"key=" + b"k" * 10_240, 200, b""),
        (b"pool=" + b"p" * 10_240, 404, b"pool: no such pool"),
        (b"model=" + b"m" * 10_240 + b"&pool=", 404, b"model: served by no pool"),
        (b"model=unheard-of", 404, b"model: served by no pool"),
        (b"prompt_tokens=" + b"9" * 10_240, 200, b""),
        (b"prompt_tokens=" + b"z" * 10_240, 400, b"prompt_tokens: must be"),
        (b"format=" + b"&" * 10_240, 200, b""),
        (b"exclude=%A,%B", 503, b"excluded"),
    ],
)
def test_long_and_wrong_queries(asked: Callable[[bytes], tuple[int, bytes]], query, status, says):
    """10 KB of anything is answered, and a refusal is short and says what is wrong."""
    got, body = asked(query)
    assert (got, says in body) == (status, True)
    assert len(body) < 600


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bytes], object]]:
    """Return a function that asks one daemon with two targets; %A and %B are their names."""
    engines = [FakeEngine(), FakeEngine()]
    config = pool_of(*engines, models=["llama*"])
    running = DaemonProcess(tmp_path_factory.mktemp("queries"), config).ready()
    wire = Wire(running.url)

    def ask(query: bytes) -> tuple[int, bytes]:
        for letter, each in zip((b"%A", b"%B"), engines, strict=True):
            query = query.replace(letter, each.target.encode())
        [answer] = wire.ask(PICK % query)
        return answer

    yield ask
    wire.close()
    assert running.stop() == 0
    for each in engines:
        each.close()
