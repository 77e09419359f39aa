"""Failure cases from public bug reports, all at once against one daemon.

Each case is a pool of its own with its own scripted fake engines (see
tests/data/cases/README.md), and a script that picks and reports in real time. One run of
all of them takes as long as the longest; what happened is recorded and judged afterwards.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import requests

from tests.system.conftest import DaemonProcess, free_port

CASES = Path(__file__).parents[1] / "data" / "cases"
FAKE = CASES / "common" / "fake_engine.py"
HOLD = 2.0
"""The second at which the engines wait for the daemon, which on a busy machine starts slowly."""


@dataclass(slots=True)
class Shot:
    """What the API said of all targets at one moment (seconds since the start)."""

    at: float
    targets: dict[tuple[str, str], dict[str, Any]]


@dataclass
class Pool:
    """One case's pool: letters to addresses, and everything that was picked in it."""

    name: str
    ports: dict[str, int]
    config: dict[str, Any] = field(default_factory=dict)
    picks: list[tuple[float, str, int]] = field(default_factory=list)
    answers: list[tuple[int, Any]] = field(default_factory=list)

    @property
    def letters(self) -> dict[str, str]:
        """Addresses to letters."""
        return {f"127.0.0.1:{port}": letter for letter, port in self.ports.items()}


class Stage:
    """The daemon, the fakes and the clock that all cases share."""

    def __init__(self, folder: Path, start: Callable[[dict[str, Any]], DaemonProcess]) -> None:
        self._folder = folder
        self._start = start
        self._scenario: dict[str, Any] = {}
        self._scripts: list[Callable[[], None]] = []
        self.pools: dict[str, Pool] = {}
        self.notes: dict[str, Any] = {}
        self.shots: list[Shot] = []
        self.failures: list[BaseException] = []
        self.metrics_before = self.metrics_after = ""

    def pool(
        self,
        name: str,
        case: str,
        scenario: str | Mapping[str, str | list[dict[str, Any]]],
        **config: Any,
    ) -> Pool:
        """Add a pool with the engines of a case's scenario file, or of letters to pages.

        A page is a file whose counters grow, or phases of a scenario. ``config`` are further
        keys of the pool's configuration.
        """
        if isinstance(scenario, str):
            engines = json.loads((CASES / case / scenario).read_text())["engines"]
        else:
            engines = {
                letter: {"routes": {"/metrics": _phases(page)}} for letter, page in scenario.items()
            }
        ports = {letter: free_port() for letter in engines}
        for letter, spec in engines.items():
            _absolute(spec, CASES / case)
            self._scenario[f"{name}.{letter}"] = {**spec, "port": ports[letter]}
        self.pools[name] = Pool(name, ports, config)
        return self.pools[name]

    def script(self, run: Callable[[], None]) -> None:
        """Add a script; all run side by side, each in a thread."""
        self._scripts.append(run)

    def run(self, seconds: float) -> None:
        """Start everything, let the scripts run, watch for ``seconds``, stop."""
        path = self._folder / "scenario.json"
        path.write_text(json.dumps({"engines": self._scenario}))
        fakes = subprocess.Popen(
            [sys.executable, str(FAKE), str(path), "--log", str(self._folder / "fake.log"),
             "--hold", str(HOLD)],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert fakes.stderr is not None
        try:
            said = fakes.stderr.readline()
            assert "ready" in said, said + fakes.stderr.read()
            self._watch(seconds, fakes, time.monotonic())
        finally:
            fakes.kill()
            fakes.wait(5)
            fakes.stderr.close()

    def _watch(self, seconds: float, fakes: subprocess.Popen[str], ready: float) -> None:
        pools = [
            {
                "name": pool.name,
                "static_configs": [{"targets": list(pool.letters)}],
                **pool.config,
            }
            for pool in self.pools.values()
        ]
        self.daemon = self._start({"pools": pools})
        self.daemon.ready()
        self.daemon.until(self._all_scraped)
        judged = self._version() + 1  # the judgement under way may not have seen the last scrape
        self.daemon.until(lambda: self._version() > judged)
        self.metrics_before = self.daemon.get("/metrics").text
        self.began = time.monotonic()
        fakes.send_signal(signal.SIGUSR1)
        self._engines_began = self.began - min(self.began - ready, HOLD)
        threads = [threading.Thread(target=self._guarded, args=(run,)) for run in self._scripts]
        for thread in threads:
            thread.start()
        while time.monotonic() - self.began < seconds or any(t.is_alive() for t in threads):
            self._shoot()
            time.sleep(0.2)
        self.metrics_after = self.daemon.get("/metrics").text

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - told by the test that looks
            self.failures.append(error)

    def _all_scraped(self) -> bool:
        data = self.daemon.get("/api/v1/targets").json()["data"]
        return all(row["last_scrape"] for row in data)

    def _version(self) -> int:
        return int(self.daemon.get("/api/v1/snapshot").json()["data"]["version"])

    def _shoot(self) -> None:
        data = self.daemon.get("/api/v1/targets").json()["data"]
        rows = {}
        for row in data:
            pool = self.pools[row["pool"]]
            rows[pool.name, pool.letters[row["target"]]] = row
        self.shots.append(Shot(time.monotonic() - self.began, rows))

    @property
    def now(self) -> float:
        """Seconds since the scripts began."""
        return time.monotonic() - self.began

    def engines_at(self, second: float) -> float:
        """Return when, since the scripts began, the engines were at ``second`` of theirs."""
        return second + self._engines_began - self.began

    def until(self, at: float) -> None:
        """Wait for second ``at``."""
        time.sleep(max(0.0, at - self.now))

    def client(self, pool: Pool) -> "Client":
        """Return a client of one pool; one per thread."""
        return Client(self, pool)

    def series(self, pool: str, letter: str, begin: float = 0.0, end: float = 1e9) -> list[Any]:
        """Return the rows of one target between two moments."""
        return [s.targets[pool, letter] for s in self.shots if begin <= s.at <= end]

    def scores(self, pool: str, letter: str, begin: float = 0.0, end: float = 1e9) -> list[float]:
        """Return the scores of one target between two moments."""
        return [row["score"] for row in self.series(pool, letter, begin, end)]

    def share(self, pool: str, letter: str, begin: float = 0.0, end: float = 1e9) -> float:
        """Return the share of the pool's picks between two moments that named the target."""
        named = Counter(who for at, who, _ in self.pools[pool].picks if begin <= at <= end)
        return named[letter] / max(1, named.total())

    def picked(self, pool: str, begin: float, end: float) -> int:
        """Return how many picks of the pool there were between two moments."""
        return sum(begin <= at <= end for at, _, _ in self.pools[pool].picks)


class Client:
    """Picks and reports in one pool."""

    def __init__(self, stage: Stage, pool: Pool) -> None:
        self._stage = stage
        self._pool = pool
        self._http = requests.Session()
        self._http.trust_env = False

    def pick(self) -> str:
        """Pick once, remember it, and return the letter."""
        answer = self._http.get(
            f"{self._stage.daemon.url}/pick", params={"pool": self._pool.name}, timeout=5
        )
        letter = self._pool.letters[answer.json()["target"]]
        self._pool.picks.append((self._stage.now, letter, answer.status_code))
        return letter

    def tell(self, letter: str, **facts: Any) -> requests.Response:
        """Report an outcome of a target."""
        target = f"127.0.0.1:{self._pool.ports[letter]}"
        return self.send(json.dumps({"target": target, "pool": self._pool.name, **facts}))

    def send(self, body: str | bytes) -> requests.Response:
        """Send any body as feedback."""
        answer = self._http.post(
            f"{self._stage.daemon.url}/feedback", data=body, timeout=10,
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        self._pool.answers.append((answer.status_code, body if len(body) < 300 else None))
        return answer

    def judged(self, letter: str) -> tuple[float, dict[str, Any]]:
        """Return when the pool was judged (Unix seconds), and what was said then of a target."""
        base = f"{self._stage.daemon.url}/api/v1"
        name = f"127.0.0.1:{self._pool.ports[letter]}"
        while True:
            before, shown, after = (
                self._http.get(f"{base}/{path}", timeout=10).json()["data"]
                for path in ("pools", f"targets/{name}?pool={self._pool.name}", "pools")
            )
            at, still = (
                next(each["judged_at"] for each in pools if each["pool"] == self._pool.name)
                for pools in (before, after)
            )
            if at == still:
                return unix(at), shown

    def cooldowns(self) -> dict[str, float]:
        """Return the lengths of the cooldowns under way, by letter."""
        url = f"{self._stage.daemon.url}/api/v1/cooldowns?pool={self._pool.name}"
        return {
            self._pool.letters[each["target"]]: unix(each["until"]) - unix(each["since"])
            for each in self._http.get(url, timeout=10).json()["data"]
        }

    def post_to(self, letter: str) -> None:
        """Send a request to the engine itself, as the gateway does with a pick."""
        port = self._pool.ports[letter]
        self._http.post(f"http://127.0.0.1:{port}/v1/chat/completions", json={}, timeout=5)


def unix(moment: str) -> float:
    """Return the Unix seconds of a moment that the API shows."""
    return datetime.fromisoformat(moment).timestamp()


def every(seconds: float, times: int) -> Iterable[int]:
    """Yield 0 … times-1, one every ``seconds``."""
    began = time.monotonic()
    for index in range(times):
        time.sleep(max(0.0, began + index * seconds - time.monotonic()))
        yield index


def _phases(page: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"body_file": page, "progress": 0.01}] if isinstance(page, str) else page


def _absolute(spec: dict[str, Any], folder: Path) -> None:
    for routes in (spec.get("routes", {}), spec.get("after_post", {})):
        for phases in routes.values():
            for phase in phases:
                if "body_file" in phase:
                    phase["body_file"] = str(folder / phase["body_file"])
