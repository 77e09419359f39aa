"""The shipped Alertmanager example: who is told, and what covers what."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.alerts.live import EXAMPLE, Server, Webhook, alertmanager, session
from tests.alerts.shipped import RULES

pytestmark = pytest.mark.system

INHIBITIONS = yaml.safe_load(EXAMPLE.read_text())["inhibit_rules"]
SEVERITIES = {rule["alert"]: rule["labels"]["severity"] for rule in reversed(RULES)}
"""Of a name with two, the one that comes first in the file, which is the graver."""


def amtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["amtool", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def alert(name: str, **labels: str) -> dict[str, Any]:
    """Return an alert as Prometheus posts it."""
    severity = {"severity": SEVERITIES[name]}
    return {"labels": {"alertname": name, "job": "scorer", **severity, **labels}}


def on(name: str, pool: str, target: str) -> dict[str, Any]:
    """Return an alert about a target."""
    return alert(name, pool=pool, target=target)


SEVERAL = [
    # A pool without an eligible target: one page covers all else that is wrong with it.
    alert("ScorerPoolNoEligibleTargets", pool="dead"),
    alert("ScorerPoolTargetsUnavailable", pool="dead"),
    alert("ScorerPoolTargetsUnavailable", pool="dead", severity="warning"),
    alert("ScorerPoolScoreLow", pool="dead"),
    alert("ScorerPoolPanicMode", pool="dead"),
    on("ScorerTargetUnreachable", "dead", "a:1"),
    on("ScorerTargetScoreLow", "dead", "a:1"),
    # A pool that scores low: its tickets are covered, those of other pools are not.
    alert("ScorerPoolScoreLow", pool="low"),
    alert("ScorerPoolQueueing", pool="low"),
    on("ScorerTargetScoreLow", "low", "b:1"),
    alert("ScorerPoolQueueing", pool="chat"),
    # One target: the cause covers its symptoms, on that target.
    on("ScorerTargetUnreachable", "chat", "c:1"),
    on("ScorerTargetScoreLow", "chat", "c:1"),
    on("ScorerTargetSignalMissing", "chat", "c:1"),
    on("ScorerTargetCooldowns", "chat", "d:1"),
    on("ScorerTargetScoreLow", "chat", "d:1"),
    on("ScorerTargetScoreLow", "chat", "e:1"),
    # Half of one pool is out, a quarter of another.
    alert("ScorerPoolTargetsUnavailable", pool="half"),
    alert("ScorerPoolTargetsUnavailable", pool="half", severity="warning"),
    alert("ScorerPoolTargetsUnavailable", pool="quarter", severity="warning"),
    # Scores that are old say nothing.
    alert("ScorerScoringStalled", pool="old"),
    alert("ScorerPoolScoreLow", pool="old"),
    on("ScorerTargetFrozen", "old", "f:1"),
    # The daemon is down: its alert has no job.
    {"labels": {"alertname": "ScorerDown", "severity": "critical"}},
    alert("ScorerReplicaDown", instance="r1"),
    alert("ScorerPoolVanished", pool="gone"),
    alert("ScorerConfigReloadFailed", instance="r2"),
]
TOLD = {
    ("ScorerPoolNoEligibleTargets", "dead", "", "critical"),
    ("ScorerPoolScoreLow", "low", "", "critical"),
    ("ScorerPoolQueueing", "chat", "", "warning"),
    ("ScorerTargetUnreachable", "chat", "c:1", "warning"),
    ("ScorerTargetCooldowns", "chat", "d:1", "warning"),
    ("ScorerTargetScoreLow", "chat", "e:1", "warning"),
    ("ScorerPoolTargetsUnavailable", "half", "", "critical"),
    ("ScorerPoolTargetsUnavailable", "quarter", "", "warning"),
    ("ScorerScoringStalled", "old", "", "critical"),
    ("ScorerDown", "", "", "critical"),
    ("ScorerConfigReloadFailed", "", "", "warning"),
}


def identity(labels: dict[str, str]) -> tuple[str, str, str, str]:
    return (
        labels["alertname"],
        labels.get("pool", ""),
        labels.get("target", ""),
        labels["severity"],
    )


@pytest.fixture(scope="module")
def hook() -> Iterator[Webhook]:
    """Return what takes the notifications."""
    webhook = Webhook()
    yield webhook
    webhook.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, hook: Webhook) -> Iterator[Server]:
    """Return an Alertmanager that got all of the alerts at once."""
    with alertmanager(tmp_path_factory.mktemp("inhibition"), hook.url, times=60) as started:
        posted = session.post(f"{started.url}/api/v2/alerts", json=SEVERAL, timeout=10)
        assert posted.status_code == 200, posted.text
        yield started


def test_example_is_valid() -> None:
    """Amtool has nothing to say against it."""
    checked = amtool("check-config", str(EXAMPLE))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(("severity", "receiver"), [("critical", "pager"), ("warning", "tickets")])
def test_severity_decides_who_is_told(severity: str, receiver: str) -> None:
    """Pages wake somebody, tickets wait for the morning."""
    routed = amtool("config", "routes", "test", f"--config.file={EXAMPLE}", f"severity={severity}")
    assert routed.stdout.split() == [receiver]


def active(server: Server) -> set[tuple[str, str, str, str]]:
    """Return which of the alerts nothing suppresses."""
    alerts = server.get("/api/v2/alerts")
    assert len(alerts) == len(SEVERAL)
    return {identity(each["labels"]) for each in alerts if each["status"]["state"] == "active"}


def test_cause_covers_symptom(server: Server) -> None:
    """Alertmanager suppresses what another alert explains, and nothing else."""
    server.until(lambda: active(server) == TOLD, 10)


def test_only_the_cause_is_told(server: Server, hook: Webhook) -> None:
    """Notifications are those of the alerts that nothing covers, to pager and tickets."""
    server.until(lambda: len({identity(n.labels) for n in hook.notices}) >= len(TOLD), 10)
    assert {identity(notice.labels) for notice in hook.notices} == TOLD
    for notice in hook.notices:
        critical = notice.labels["severity"] == "critical"
        assert notice.receiver == ("pager" if critical else "tickets")


def test_every_name_in_the_example_is_of_an_alert() -> None:
    """A rule that waits for an alert that does not exist never inhibits anything."""
    words = set("".join(c if c.isalnum() else " " for c in EXAMPLE.read_text()).split())
    assert {word for word in words if word.startswith("Scorer")} <= set(SEVERITIES) | {
        "ScorerPool",
        "ScorerTarget",
    }


@pytest.mark.parametrize("number", range(len(INHIBITIONS)))
def test_every_inhibition_is_needed(server: Server, number: int) -> None:
    """Without it somebody would be told more."""
    path = server.folder / "alertmanager.yml"
    whole = path.read_text()
    document = yaml.safe_load(whole)
    del document["inhibit_rules"][number]
    try:
        path.write_text(yaml.safe_dump(document))
        session.post(f"{server.url}/-/reload", timeout=10).raise_for_status()
        server.until(lambda: active(server) > TOLD, 10)
    finally:
        path.write_text(whole)
