"""The running daemon takes orders: over HTTP and by its own commands, from those who may."""

import json
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import requests

from tests.invoked import invoked
from tests.system.conftest import DaemonProcess, FakeEngine, pool_of

pytestmark = pytest.mark.system

PICKS = 100


@pytest.fixture
def engines(engine: Callable[[], FakeEngine]) -> list[FakeEngine]:
    """Return two healthy engines."""
    started = [engine(), engine()]
    for each in started:
        each.serves()
    return started


def order(daemon: DaemonProcess, target: str, verb: str, **body: Any) -> dict[str, Any]:
    """Give an order over HTTP; return what then applies in the one pool."""
    [shown] = post(daemon, target, verb, json=body).json()["data"]
    return shown


def post(daemon: DaemonProcess, target: str, verb: str, **kwargs: Any) -> requests.Response:
    url = f"{daemon.url}/api/v1/targets/{target}/{verb}"
    return daemon.http.post(url, timeout=30, **kwargs)


def command(daemon: DaemonProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command against the daemon, in an environment whose proxy goes nowhere."""
    return invoked(*arguments, SCORER_URL=daemon.url, http_proxy="http://127.0.0.1:1")


def picked(daemon: DaemonProcess) -> set[str]:
    """Return where a hundred picks go."""
    return {daemon.get("/pick").json()["target"] for _ in range(PICKS)}


def metric(daemon: DaemonProcess, name: str, target: str, more: str = "") -> float:
    """Return a sample about a target of pool ``chat``."""
    text = daemon.get(f"/metrics?name[]={name}").text
    [value] = re.findall(
        rf'^{name}{{pool="chat",target="{target}"{more}}} (\S+)$', text, re.MULTILINE
    )
    return float(value)


def test_drain_holds_until_its_end(daemon, engines):
    """A hundred picks go elsewhere; then the target is back by itself, said line by line."""
    out, other = (each.target for each in engines)
    scorer = daemon(pool_of(*engines)).ready()
    shown = order(scorer, out, "drain", duration="6s", reason="new\ndriver")
    assert (shown["state"], shown["state_reason"]) == ("draining", "manual")
    assert picked(scorer) == {other}
    assert metric(scorer, "scorer_target_state", out, ',state="draining"') == 1.0
    assert metric(scorer, "scorer_target_weight_ratio", out) == 0.0
    assert metric(scorer, "scorer_target_score", out) == 100.0
    scorer.until(lambda: scorer.target(out)["state"] == "healthy")
    assert picked(scorer) == {out, other}
    changes = [
        (each["from"], each["to"], each["reason"]) for each in scorer.target(out)["transitions"]
    ]
    assert changes[-2:] == [("healthy", "draining", "manual"), ("draining", "healthy", "none")]
    scorer.until(lambda: 'msg="Target became healthy"' in scorer.log)  # the last line of it all
    [line] = [line for line in scorer.log.splitlines() if "Operator's order" in line]
    assert rf"target={out} order=drain peer=127.0.0.1 until={shown['until']}" in line
    assert line.endswith(r"note=new\ndriver")
    assert scorer.log.count('msg="Target became draining"') == 1


def test_cooldown_starts_and_ends(daemon, engines):
    """Long prompts go elsewhere and short ones still come; it is listed and counted."""
    cool, other = (each.target for each in engines)
    scorer = daemon(pool_of(*engines)).ready()
    assert picked(scorer) == {cool, other}  # so that for 30 s neither lacks picks and is probed
    until = order(scorer, cool, "cooldown", duration="1m", reason="hot")["until"]
    [listed] = scorer.get("/api/v1/cooldowns").json()["data"]
    assert (listed["target"], listed["until"], listed["reason"]) == (cool, until, "manual")
    assert (listed["count"], listed["note"]) == (1, "hot")
    asked = [scorer.get("/pick?prompt_tokens=8000").json()["target"] for _ in range(PICKS)]
    assert set(asked) == {other}
    assert metric(scorer, "scorer_target_state", cool, ',state="cooldown"') == 1.0
    assert metric(scorer, "scorer_target_cooldowns_total", cool, ',reason="manual"') == 1.0
    assert order(scorer, cool, "end-cooldown")["state"] == "healthy"
    assert scorer.get("/api/v1/cooldowns").json()["data"] == []
    assert 0.0 < metric(
        scorer, "scorer_target_cooldown_seconds_total", cool, ',reason="manual"'
    ) < 60.0  # fmt: skip


def test_reload_keeps_a_drain_and_takes_a_token(daemon, engines, tmp_path):
    """What an operator said stays; who may say it changes with the file, both ways."""
    out, other = (each.target for each in engines)
    config = pool_of(*engines)
    scorer = daemon(config).ready()
    order(scorer, out, "drain")
    (tmp_path / "token").write_text("s3cret\n")
    scorer.write({**config, "web": {"admin_token_file": str(tmp_path / "token")}})
    scorer.signal(signal.SIGHUP)
    scorer.until(lambda: post(scorer, other, "end-cooldown", json={}).status_code == 401)
    assert picked(scorer) == {other}
    known = {"Authorization": "Bearer s3cret", "Origin": "http://console.example"}
    assert post(scorer, out, "undrain", json={}, headers=known).status_code == 200
    assert "restart" not in scorer.log
    assert "s3cret" not in scorer.log


def test_form_of_the_page(daemon, engines, tmp_path):
    """It drains with the token in its body, and only then; the log has the order and no token."""
    out, other = (each.target for each in engines)
    (tmp_path / "token").write_text("s3cret\n")
    web = {"admin_token_file": str(tmp_path / "token")}
    scorer = daemon({**pool_of(*engines), "web": web}).ready()
    page = f"{scorer.url}/targets/{out}"
    form = {"order": "drain", "pool": "chat", "duration": "10m", "reason": "upgrade"}
    for wrong in ({"token": "s3cre"}, {}):
        refused = scorer.http.post(f"{page}?token=s3cret", data=form | wrong, timeout=30)
        assert refused.status_code == 401
        assert "the token of web.admin_token_file is required" in refused.text
    assert scorer.target(out)["state"] == "healthy"
    done = scorer.http.post(page, data=form | {"token": "s3cret"}, timeout=30)
    assert [each.status_code for each in done.history] == [303]
    assert "draining" in done.text
    assert picked(scorer) == {other}
    scorer.until(lambda: 'msg="Target became healthy"' in scorer.log)  # the last line of it all
    [line] = [line for line in scorer.log.splitlines() if "Operator's order" in line]
    assert all(each in line for each in (out, "drain", "127.0.0.1", "upgrade"))
    assert "s3cre" not in scorer.log + done.text + done.url


def test_commands(daemon, engines, tmp_path):
    """They print what applies, and one line with exit code 1 when the daemon refuses."""
    out, other = (each.target for each in engines)
    scorer = daemon(pool_of(*engines)).ready()
    done = command(scorer, "drain", out, "--duration", "10m", "--reason", "upgrade")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{out} of pool chat: draining (by an operator), drained until ")
    assert picked(scorer) == {other}
    shown = json.loads(command(scorer, "undrain", out, "-o", "json").stdout)
    assert [each["state"] for each in shown] == ["healthy"]
    refused = command(scorer, "drain", "10.9.9.9:1")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == 'scorer: target: no such target, got "10.9.9.9:1"\n'


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b" " * 10_000_000, 413),
        (b"[" * 8000, 400),
        (b'{"duration": NaN}', 400),
        (b'{"duration": "-1m"}', 400),
        (b'{"duration": "99999999999d"}', 400),
        (b'{"duration": 60}', 400),
        (b'{"reason": "' + b"x" * 201 + b'"}', 400),
        (b'{"reason": "\\ud800"}', 400),
        (b"\x00" * 100, 400),
    ],
    ids=lambda value: repr(value[:20]) if isinstance(value, bytes) else None,
)
def test_hostile_body_changes_nothing(daemon, engines, body, status):
    """It gets its answer, and the daemon goes on as if it had not come."""
    target = engines[0].target
    scorer = daemon(pool_of(*engines)).ready()
    kind = {"Content-Type": "application/json"}
    assert post(scorer, target, "drain", data=body, headers=kind).status_code == status
    assert scorer.target(target)["state"] == "healthy"
    assert "Operator's order" not in scorer.log
    assert "Traceback" not in scorer.log


def test_client_that_goes_away_has_ordered_nothing(daemon, engines):
    """The head of a request alone, however its length is told, drains nothing."""
    target = engines[0].target
    scorer = daemon(pool_of(*engines)).ready()
    host, port = scorer.url.removeprefix("http://").split(":")
    for length in ("Content-Length: 30", "Transfer-Encoding: chunked"):
        with socket.create_connection((host, int(port)), timeout=10) as sock:
            sock.sendall(
                f"POST /api/v1/targets/{target}/drain HTTP/1.1\r\nHost: x\r\n"
                f"Content-Type: application/json\r\n{length}\r\n\r\n".encode()
            )
    assert order(scorer, target, "end-cooldown")["state"] == "healthy"
    scorer.until(lambda: "Operator's order" in scorer.log)  # of the order that was given
    assert scorer.log.count("Operator's order") == 1
