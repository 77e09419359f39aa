"""From the engine to the pager: daemon, Prometheus, Alertmanager and a webhook, all real.

Every duration of the rules and of the Alertmanager example is a sixtieth of what it is, so that
ten minutes are ten seconds. Scores and cooldowns take their usual time.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.alerts.live import Server, Webhook, alertmanager, prometheus
from tests.system.conftest import DaemonProcess, FakeEngine, page, send

pytestmark = [pytest.mark.system, pytest.mark.slow]

TIMES = 60
PAGE = "ScorerPoolScoreLow"
WINDOW, FOR, KEPT = 10.0, 10.0, 10.0
"""Seconds: average, `for` and `keep_firing_for` of that rule, sixty times faster."""
GROUP_INTERVAL = 5.0
DELAY = 5.0
"""Seconds for scrapes, evaluations, and a machine that does other things too."""
COOLDOWN = 4.0


class Engine(FakeEngine):
    """Serves ten requests between two scrapes, with a TTFT and a queue that can be set."""

    def __init__(self) -> None:
        super().__init__()
        self.ttft, self.waiting = 0.1, 0
        count, total = 10, 1.0

        def answer(handler: object) -> None:
            nonlocal count, total
            count, total = count + 10, total + 10 * self.ttft
            text = page(running=4, waiting=self.waiting, count=count, sum=total, tokens=100 * count)
            send(handler, text.encode())  # type: ignore[arg-type]

        self.answer = answer

    def overloaded(self) -> None:
        """Make everybody wait."""
        self.ttft, self.waiting = 20.0, 60

    def relieved(self) -> None:
        """Serve as at the beginning."""
        self.ttft, self.waiting = 0.1, 0


@dataclass
class Story:
    """What happened when, in seconds since the drop began."""

    began: float = 0.0
    lines: list[tuple[float, str]] = field(default_factory=list)

    def tell(self, what: str, at: float | None = None) -> float:
        """Note an event, of this moment unless ``at`` says otherwise; return its time."""
        moment = (time.monotonic() if at is None else at) - self.began
        self.lines.append((moment, what))
        return moment


@dataclass
class Chain:
    """The programs of a chain, in the order in which an alert goes through them."""

    engines: list[Engine]
    daemon: DaemonProcess
    prometheus: Server
    hook: Webhook

    def saturate(self, target: str) -> None:
        """Tell the daemon that an engine refused a request because it is full."""
        told = {"target": target, "pool": "cool", "status": 503, "error_body": "engine saturated"}
        self.daemon.http.post(f"{self.daemon.url}/feedback", json=told).raise_for_status()

    def firing(self, name: str) -> bool:
        """Return whether Prometheus has the alert firing."""
        alerts = self.prometheus.get("/api/v1/alerts")["data"]["alerts"]
        return any(a["labels"]["alertname"] == name and a["state"] == "firing" for a in alerts)

    def value(self, query: str) -> float | None:
        """Return the value of a query with one result at most."""
        found = self.prometheus.get("/api/v1/query", query=query)["data"]["result"]
        return float(found[0]["value"][1]) if found else None


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """Return a chain that runs: pool `drop` and pool `cool`, of two engines each."""
    folder: Path = tmp_path_factory.mktemp("chain")
    engines, hook = [Engine() for _ in range(4)], Webhook()
    names = [each.target for each in engines]
    config = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "400ms"},
        "pools": [
            {"name": "drop", "static_configs": [{"targets": names[:2]}]},
            {
                "name": "cool",
                "static_configs": [{"targets": names[2:]}],
                "cooldown": {"min": f"{COOLDOWN:g}s", "max": f"{COOLDOWN:g}s"},
            },
        ],
    }
    daemon = DaemonProcess(folder, config)
    address = daemon.url.removeprefix("http://")
    try:
        daemon.ready()
        with (
            alertmanager(folder, hook.url, TIMES) as manager,
            prometheus(folder, address, manager.address, TIMES) as server,
        ):
            yield Chain(engines, daemon, server, hook)
    finally:
        daemon.stop()
        hook.close()
        for engine in engines:
            engine.close()


def until_paged(chain: Chain, story: Story) -> float:
    """Wait for the page and tell of its way; return when it came."""
    limit = WINDOW + FOR + DELAY
    chain.prometheus.until(lambda: chain.firing(PAGE), limit)
    story.tell("Prometheus fires")
    notice = chain.prometheus.until(lambda: chain.hook.first("pager", PAGE, "firing"), DELAY)
    return story.tell("the pager's webhook gets it", notice.at)


def until_resolved(chain: Chain, story: Story) -> float:
    """Wait until the page is taken back; return when."""
    chain.prometheus.until(lambda: not chain.firing(PAGE), WINDOW + KEPT + DELAY)
    story.tell("Prometheus resolves")
    limit = GROUP_INTERVAL + DELAY
    notice = chain.prometheus.until(lambda: chain.hook.first("pager", PAGE, "resolved"), limit)
    return story.tell("the pager's webhook gets that", notice.at)


def test_sustained_drop_pages_and_a_cooldown_does_not(
    chain: Chain, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page comes when averages and `for` are over, and is taken back; nobody else is paged."""
    low = 'min(scorer_target_score{pool="drop"})'
    chain.prometheus.until(lambda: (chain.value(low) or 0.0) > 99.0, 20)
    story = Story(time.monotonic())
    for engine in chain.engines[:2]:
        engine.overloaded()
    chain.saturate(chain.engines[2].target)
    story.tell("the drop begins, and a cooldown of 4 s in another pool")
    chain.prometheus.until(lambda: (chain.value(low) or 100.0) < 50.0, 20)
    seen = story.tell(f"Prometheus sees a score of {chain.value(low):.0f}")
    paged = until_paged(chain, story)
    for engine in chain.engines[:2]:
        engine.relieved()
    relieved = story.tell("the engines are relieved")
    resolved = until_resolved(chain, story)
    with capsys.disabled():
        for at, what in story.lines:
            print(f"\n  {at:6.2f} s  {what}", end="")  # noqa: T201 - what the test is looked at for
        print()  # noqa: T201
    assert FOR <= paged <= seen + WINDOW + FOR + DELAY
    assert KEPT <= resolved - relieved <= WINDOW + KEPT + GROUP_INTERVAL + DELAY
    assert {(each.name, each.labels["pool"]) for each in chain.hook.notices
            if each.receiver == "pager"} == {(PAGE, "drop")}  # fmt: skip


def test_the_cooldown_was_one(chain: Chain) -> None:
    """What did not page did happen: one cooldown, for its 4 seconds."""
    spent = 'sum(scorer_target_cooldown_seconds_total{pool="cool"})'
    assert chain.value('sum(scorer_target_cooldowns_total{pool="cool"})') == 1.0
    assert chain.value(spent) == pytest.approx(COOLDOWN, abs=0.5)


def test_page_came_once(chain: Chain) -> None:
    """One notification that it fires, one that it is over: no flapping."""
    pages = [each.status for each in chain.hook.notices if each.receiver == "pager"]
    assert pages == ["firing", "resolved"]


def test_rules_are_those_that_ship(chain: Chain) -> None:
    """Prometheus evaluates every group without an error."""
    groups = chain.prometheus.get("/api/v1/rules")["data"]["groups"]
    health = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
    assert set(health.values()) == {"ok"}
    assert PAGE in health
