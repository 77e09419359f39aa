"""The running daemon takes feedback: by HTTP and by UDP, from friends and from strangers."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.confusion import SAMPLES, load, wanted
from tests.system.cases import CASES
from tests.system.conftest import DaemonProcess, FakeEngine, free_port, pool_of

pytestmark = pytest.mark.system

NGINX = (
    '<190>Nov 30 01:14:08 edge scorer: {"target":"%s, %s","status":"502, 200",'
    '"duration_seconds":"0.002, 1.512","gateway_status":"200","pick_id":"-"}'
)
HAPROXY = '{"target":"%s","status":-1,"termination":"CH--","duration_ms":60012,"pick_id":""}\n'


@pytest.fixture
def engines(engine: Callable[[], FakeEngine]) -> list[FakeEngine]:
    """Return two healthy engines."""
    started = [engine(), engine()]
    for each in started:
        each.serves()
    return started


@pytest.fixture
def udp() -> Iterator[Callable[[str, int], None]]:
    """Return a function that sends a datagram to a port of this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        yield lambda text, port: sock.sendto(text.encode(), ("127.0.0.1", port)) and None


def post(daemon: DaemonProcess, body: Any, query: str = "", **kwargs: Any) -> Any:
    """Return the answer to feedback."""
    data = body if isinstance(body, bytes) else json.dumps(body)
    return daemon.http.post(f"{daemon.url}/feedback{query}", data=data, timeout=30, **kwargs)


def counts(daemon: DaemonProcess, name: str) -> dict[str, float]:
    """Return the samples of a metric that are not 0, by their labels."""
    text = daemon.get(f"/metrics?name[]={name}").text
    found = re.findall(rf"^{name}{{([^}}]*)}} (\S+)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in found if float(value)}


def outcomes(daemon: DaemonProcess) -> dict[tuple[str, str], float]:
    """Return the outcomes counted, by target and class."""
    found = counts(daemon, "scorer_feedback_total")
    labels = {text: dict(re.findall(r'(\w+)="([^"]*)"', text)) for text in found}
    return {(labels[text]["target"], labels[text]["outcome"]): found[text] for text in found}


def judged_twice(daemon: DaemonProcess) -> None:
    """Wait for a judgement that has seen all that was said before: one may be under way."""

    def version() -> int:
        return int(daemon.get("/api/v1/snapshot").json()["data"]["version"])

    wanted = version() + 2
    daemon.until(lambda: version() >= wanted)


def test_outcomes_reach_the_score(daemon, engines):
    """Failures of one target are counted and cost it points; a good TTFT is shown."""
    bad, good = (each.target for each in engines)
    scorer = daemon(pool_of(*engines)).ready()
    for _ in range(5):
        assert post(scorer, {"target": bad, "status": 500}).status_code == 202
        assert post(scorer, {"target": good, "status": 200, "ttft_seconds": 0.4}).status_code == 202
    assert outcomes(scorer) == {(bad, "engine_fault"): 5.0, (good, "success"): 5.0}
    scorer.until(lambda: scorer.target(bad)["score"] < scorer.target(good)["score"])


def test_pick_is_closed_by_its_id(daemon, engines):
    """The id alone names the target; the second report of the same end counts nothing."""
    scorer = daemon(pool_of(*engines)).ready()
    picked = scorer.get("/pick").json()
    for _ in range(2):
        body = {"pick_id": picked["pick_id"], "status": 200, "ttft_seconds": 0.3}
        assert post(scorer, body).json() == {"accepted": 1, "rejected": []}
    assert outcomes(scorer) == {(picked["target"], "success"): 1.0}


def test_strangers_create_nothing(daemon, engines):
    """Unknown targets are 404, unknown picks orphans; the page has no series more."""
    scorer = daemon(pool_of(*engines)).ready()
    before = len(scorer.get("/metrics").text.splitlines())
    for number in range(200):
        assert post(scorer, {"target": f"10.9.9.{number}:1", "status": 200}).status_code == 404
        assert post(scorer, {"pick_id": f"x{number}", "status": 200}).status_code == 202
    assert len(scorer.get("/metrics").text.splitlines()) == before
    rejected = counts(scorer, "scorer_feedback_rejected_total")
    assert rejected == {'reason="unknown_target"': 200.0, 'reason="orphan"': 200.0}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"x" * 10_000_000, 413),
        (b'{"error_body":"' + b"x" * 5_000_000 + b'"}', 413),
        (b"[" * 1_048_576, 400),
        (b"[" * 524_288 + b"]" * 524_288, 400),
        (b'{"target":"a:1","status":' + b"9" * 1_000_000 + b"}", 400),
        (b'{"target":"a:1","ttft_seconds":NaN}', 400),
        (b"\xff" * 1_000_000, 400),
        (b"[" + b"{}," * 300_000 + b"{}]", 400),
    ],
    ids=["10 MB", "5 MB of JSON", "deep", "deep and closed", "digits", "NaN", "bytes", "items"],
)
def test_hostile_body_is_refused(daemon, engines, body, status):
    """With a reason, and the daemon goes on answering."""
    scorer = daemon(pool_of(*engines)).ready()
    answer = post(scorer, body)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert scorer.get("/pick").status_code == 200


def test_chunked_body_is_bounded(daemon, engines):
    """A body without a length is refused where it passes the limit."""
    scorer = daemon(pool_of(*engines)).ready()
    answer = scorer.http.post(
        f"{scorer.url}/feedback", data=(b" " * 65_536 for _ in range(40)), timeout=30
    )
    assert answer.status_code == 413


def test_samples_are_told_apart(daemon, engines):
    """Every sample, posted as a gateway would, is in its class."""
    target = engines[0].target
    scorer = daemon(pool_of(*engines)).ready()
    samples = load(SAMPLES)
    items = [
        {"target": target, "status": each["status"], "headers": each["headers"],
         "error_body": each["body"]}
        for each in samples
    ]  # fmt: skip
    answer = post(scorer, items, "?explain=1&dry_run=1").json()
    assert [each["class"] for each in answer["outcomes"]] == [wanted(each) for each in samples]
    assert outcomes(scorer) == {}


def test_proxies_log_by_udp(daemon, engines, udp):
    """Two attempts in a syslog line, a client that left in a raw one; junk is counted."""
    first, second = (each.target for each in engines)
    port = free_port()
    scorer = daemon(
        {**pool_of(*engines), "feedback": {"udp": {"listen": f"127.0.0.1:{port}"}}}
    ).ready()
    scorer.until(lambda: "Taking feedback by UDP" in scorer.log)
    udp(NGINX % (first, second), port)
    udp(HAPROXY % first, port)
    udp("junk\n\xff{{{", port)
    expected = {
        (first, "engine_fault"): 1.0, (second, "success"): 1.0, (first, "client_abort"): 1.0
    }  # fmt: skip
    scorer.until(lambda: outcomes(scorer) == expected)
    scorer.until(
        lambda: counts(scorer, "scorer_feedback_rejected_total") == {'reason="malformed"': 2.0}
    )


def test_token_is_asked_for_and_may_change(daemon, engines, udp, tmp_path):
    """By HTTP as a bearer token, by UDP as a field; a new file counts within a second or two."""
    target, port = engines[0].target, free_port()
    token = tmp_path / "token"
    token.write_text("one")
    feedback = {"token_file": str(token), "udp": {"listen": f"127.0.0.1:{port}"}}
    scorer = daemon({**pool_of(*engines), "feedback": feedback}).ready()
    item = {"target": target, "status": 200}
    assert post(scorer, item).status_code == 401
    assert post(scorer, item, headers={"Authorization": "Bearer one"}).status_code == 202
    token.write_text("another")
    scorer.until(
        lambda: post(scorer, item, headers={"Authorization": "Bearer another"}).status_code == 202
    )
    assert post(scorer, item, headers={"Authorization": "Bearer one"}).status_code == 401
    udp(json.dumps(item), port)
    udp(json.dumps({**item, "token": "another"}), port)
    scorer.until(lambda: outcomes(scorer) == {(target, "success"): 3.0})


def test_rules_change_with_a_reload(daemon, engines):
    """SIGHUP brings an operator's new rule."""
    config = pool_of(*engines)
    scorer = daemon(config).ready()
    item = {"target": engines[0].target, "status": 503, "error_body": "edge says no"}

    def judged() -> str:
        outcome: str = post(scorer, item, "?explain=1&dry_run=1").json()["outcomes"][0]["class"]
        return outcome

    assert judged() == "unknown"
    rule = {"match": {"status": 503, "body_regex": "edge says"}, "class": "gateway_fault"}
    scorer.write({**config, "feedback": {"rules": [rule]}})
    scorer.signal(signal.SIGHUP)
    scorer.until(lambda: judged() == "gateway_fault")


def test_udp_address_in_use_ends_the_daemon(tmp_path: Path):
    """Exit code 1, and the reason."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        config = {
            **pool_of("a:1"),
            "feedback": {"udp": {"listen": f"127.0.0.1:{sock.getsockname()[1]}"}},
        }
        path = tmp_path / "scorer.yml"
        path.write_text(json.dumps(config))
        done = subprocess.run(
            [sys.executable, "-m", "scorer", "run", "--config.file", str(path),
             "--web.listen-address", f"127.0.0.1:{free_port()}"],
            capture_output=True, text=True, timeout=60, check=False, env=os.environ.copy(),
        )  # fmt: skip
    assert done.returncode == 1
    assert "scorer: cannot listen on UDP 127.0.0.1:" in done.stderr


def test_ttft_that_is_none_moves_no_score_up(daemon, engines):
    """Case B27: strings, nonsense and raw bodies; each is used, ignored or refused.

    A sample of 0 is never taken, whole answers are no first tokens, and one outlier does not
    zero a good target.
    """
    folder = CASES / "B27"
    target = engines[0].target
    scorer = daemon(pool_of(*engines)).ready()
    seen = []
    for line in (folder / "feedback.jsonl").read_text().splitlines():
        item = {**json.loads(line), "target": target}
        value = item.pop("ttft_ms", None)
        if value is not None:
            item["ttft_seconds"] = "0.412" if value == "412" else value / 1000.0
        status = post(scorer, item).status_code
        judged_twice(scorer)
        row = scorer.target(target)
        seen.append((line, status, row["signals"]["ttft"].get("value"), row["score"]))
    statuses = [status for _, status, _, _ in seen]
    assert statuses == [202, 202, 400, 202, 202, 202, 202, 400, 202, 202, 202, 400, 400]
    assert {value for _, _, value, _ in seen[:6]} == {0.412}
    assert all(value is not None and value > 0.05 for _, _, value, _ in seen)
    scores = [score for _, _, _, score in seen]
    assert min(scores) > 60.0  # an outlier of three minutes costs what 4 s cost once
    assert max(scores) <= 100.0
    for path in folder.glob("raw_*.json"):
        body = path.read_bytes().replace(b'"instance":"a"', f'"target":"{target}"'.encode())
        answer = post(scorer, body)
        assert answer.status_code in {202, 400}, path.name
        assert path.name in {"raw_list.json", "raw_dup.json"} or answer.json()["error"]
