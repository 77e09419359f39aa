"""The daemon as a process: scores, picks, signals, reloads, misbehaving engines."""

import gzip
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path

import pytest

from tests.system.conftest import DaemonProcess, FakeEngine, drip, free_port, page, pool_of, send

pytestmark = pytest.mark.system

TIMEOUT = 0.8
"""Seconds that a scrape may take, as it is unless it is configured."""

Engines = Callable[[], FakeEngine]
Daemons = Callable[..., DaemonProcess]


def picks(running: DaemonProcess, count: int, query: str = "") -> Counter[str]:
    return Counter(running.get(f"/pick?format=text{query}").text.strip() for _ in range(count))


def test_two_engines_get_a_score_and_a_share(engine: Engines, daemon: Daemons) -> None:
    """Two healthy engines score 100, and each gets between 30 and 70 of 100 picks."""
    one, two = engine(), engine()
    running = daemon(pool_of(one, two)).ready()
    metrics = running.get("/metrics").text
    assert f'scorer_target_score{{pool="chat",target="{one.target}"}} 100.0' in metrics
    shares = picks(running, 100)
    assert set(shares) == {one.target, two.target}
    assert min(shares.values()) >= 30


def test_loaded_engine_loses_score_within_two_scrapes(engine: Engines, daemon: Daemons) -> None:
    """A queue shows in the score and on the page two intervals later; picks go elsewhere."""
    one, two = engine(), engine()
    running = daemon(pool_of(one, two)).ready()
    one.serves(waiting=60, kv_cache=1.0, count=20, sum=41.0)
    before = len(one.scraped_at)
    running.until(lambda: running.target(one.target)["score"] < 50)
    assert len(one.scraped_at) - before <= 3  # the last of them may be under way
    lowest = re.findall(r"<title>lowest of the last 15 minutes ([\d.]+)", running.get("/").text)
    assert min(map(float, lowest)) < 50
    assert picks(running, 100)[two.target] >= 90


def test_score_rises_at_most_15_points_a_second(engine: Engines, daemon: Daemons) -> None:
    """After the load is gone the score climbs, it does not jump."""
    one = engine()
    running = daemon(pool_of(one)).ready()
    one.serves(waiting=60)
    running.until(lambda: running.target(one.target)["score"] == 75.0)
    one.serves()
    low_at = time.monotonic()

    def high() -> bool:
        nonlocal low_at
        asked, score = time.monotonic(), running.target(one.target)["score"]
        low_at = asked if score == 75.0 else low_at
        return score == 100.0

    running.until(high)
    assert time.monotonic() - low_at >= (100.0 - 75.0) / 15.0 - 0.5


def test_hung_and_dripping_targets_delay_no_other(engine: Engines, daemon: Daemons) -> None:
    """A byte every 200 ms, and silence: both end as timeouts, the good one is scraped meanwhile."""
    dripping, hung, good = engine(), engine(), engine()
    dripping.answer = drip
    hung.hangs()
    running = daemon(pool_of(dripping, hung, good)).ready()
    for each in (hung, good):
        each.scraped_at.clear()
    running.until(lambda: len(good.scraped_at) > 5)
    for before, after in pairwise(good.scraped_at):
        assert sum(before < at < after for at in hung.scraped_at) <= 2
    pending = [(at, at + TIMEOUT) for at in hung.scraped_at]
    assert any(begin < at < end for at in good.scraped_at for begin, end in pending)
    for target, detail in {
        dripping.target: f"no complete answer within {TIMEOUT}s",
        hung.target: f"no answer from {hung.target} within {TIMEOUT}s",
    }.items():
        shown = running.target(target)
        assert (shown["state"], shown["last_scrape"]["reason"]) == ("unreachable", "timeout")
        assert shown["last_scrape"]["detail"].startswith(detail)


def gzip_that_lies(handler: object) -> None:
    send(handler, b"this is no gzip", Content_Encoding="gzip")  # type: ignore[arg-type]


def cut_short(handler: object) -> None:
    body = page().encode()
    send(handler, body[:100], length=len(body))  # type: ignore[arg-type]
    handler.close_connection = True  # type: ignore[attr-defined]


def hangs_up(_: object) -> None:
    raise OSError


def sends(body: bytes, status: int = 200, **headers: str) -> Callable[[object], None]:
    return lambda handler: send(handler, body, status=status, **headers)  # type: ignore[arg-type]


BAD_ANSWERS = {
    "html": (sends(b"<html>Login</html>", Content_Type="text/html"), "wrong_content"),
    "truncated": (cut_short, "truncated"),
    "empty": (sends(b""), "empty"),
    "redirect loop": (sends(b"", 302, Location="/metrics"), "http_status"),
    "401": (sends(b"no", 401), "auth"),
    "503": (sends(b"loading", 503), "http_status"),
    "gzip that lies": (gzip_that_lies, "wrong_content"),
    "gzip twice": (
        sends(gzip.compress(gzip.compress(page().encode())), Content_Encoding="gzip"),
        "wrong_content",
    ),
    "malformed": (sends(page(waiting="lots").encode()), "parse"),
}


def test_each_bad_page_is_told_by_name_and_harms_no_other(engine: Engines, daemon: Daemons) -> None:
    """Every kind of bad answer has its reason in API, metrics and log; the good one is fine."""
    good, bad = engine(), {name: engine() for name in BAD_ANSWERS}
    for name, (answer, _) in BAD_ANSWERS.items():
        bad[name].answer = answer
    running = daemon(pool_of(good, *bad.values())).ready()
    metrics = running.get("/metrics").text
    for name, (_, reason) in BAD_ANSWERS.items():
        target = bad[name].target
        shown = running.target(target)
        assert (name, shown["state"], shown["last_scrape"]["reason"]) == (
            name, "unreachable", reason,
        )  # fmt: skip
        assert shown["last_scrape"]["detail"]
        failures = (
            f'scorer_scrape_failures_total{{pool="chat",target="{target}",reason="{reason}"}}'
        )
        assert f"{failures} 0.0" not in metrics
        assert failures in metrics
        running.until(lambda told=f"target={target} state=unreachable": told in running.log)
    assert running.target(good.target)["score"] == 100.0
    assert set(picks(running, 20)) == {good.target} or running.get("/pick").json()["panic"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [("NaN", "not_a_number"), ("-1", "negative"), ("93.0", "out_of_range")],
)
def test_unreadable_gauge_is_unavailable_never_zero(
    engine: Engines, daemon: Daemons, value: str, reason: str
) -> None:
    """NaN, -1 and a percentage leave the signal unavailable with its reason; strict JSON stays."""
    one = engine()
    one.serves(kv_cache=value)
    running = daemon(pool_of(one)).ready()
    shown = running.target(one.target)
    assert shown["signals"]["kv_cache"] == {"unavailable": reason}
    metrics = running.get("/metrics").text
    assert "scorer_target_kv_cache_usage_ratio{" not in metrics
    assert (
        f'scorer_target_signal_available{{pool="chat",target="{one.target}",signal="kv_cache"}} 0.0'
        in metrics
    )


def test_unreachable_pool_still_answers(daemon: Daemons) -> None:
    """Nobody listens on any target: picks go on, marked panic."""
    running = daemon(pool_of(f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}")).ready()
    answer = running.get("/pick")
    assert (answer.status_code, answer.json()["panic"]) == (200, True)


def test_restarted_engine_warms_up(engine: Engines, daemon: Daemons) -> None:
    """A new start time puts the target in warm-up from 0 and counts a restart."""
    one = engine()
    running = daemon(pool_of(one)).ready()
    one.serves(start_time=5000, count=0, sum=0, tokens=0)
    shown = running.until(
        lambda: (t := running.target(one.target))["state"] == "warmup" and t, seconds=5
    )
    assert shown["score"] < 60
    assert f'scorer_target_restarts_total{{pool="chat",target="{one.target}"}} 1.0' in (
        running.get("/metrics").text
    )


def test_reload_keeps_what_stays_and_drops_what_left(engine: Engines, daemon: Daemons) -> None:
    """SIGHUP: a target that stays keeps its score, one that left is gone everywhere at once."""
    one, two, three = engine(), engine(), engine()
    running = daemon(pool_of(one, two)).ready()
    running.write(pool_of(one, three))
    running.signal(signal.SIGHUP)
    running.until(lambda: "Configuration reloaded" in running.log)
    assert running.target(one.target)["score"] == 100.0
    assert running.get(f"/api/v1/targets/{two.target}").status_code == 404
    assert two.target not in running.get("/metrics").text
    assert two.target not in picks(running, 50)
    assert running.target(three.target)["state"] == "warmup"


def test_reload_of_a_bad_file_changes_nothing(engine: Engines, daemon: Daemons) -> None:
    """All or nothing: the problem is in the log and a gauge, the daemon goes on as it was."""
    one = engine()
    running = daemon(pool_of(one)).ready()
    running.write({**pool_of(one, "10.0.0.1"), "wbe": {}})
    running.signal(signal.SIGHUP)
    running.until(
        lambda: "scorer_config_last_reload_successful 0.0" in running.get("/metrics").text
    )
    assert "wbe: is not a known key (did you mean web?)" in running.log
    assert "targets[1]: must name the port, as host:port, got 10.0.0.1" in running.log
    assert running.get("/pick").json()["target"] == one.target


def test_sigterm_ends_with_zero(engine: Engines, daemon: Daemons) -> None:
    """A stop that was asked for is a clean one."""
    running = daemon(pool_of(engine())).ready()
    assert running.stop() == 0
    assert "Scorer stopped" in running.log


def test_port_in_use_is_a_clear_error(engine: Engines, daemon: Daemons, tmp_path: Path) -> None:
    """A second daemon on the same port says so and exits with 1."""
    running = daemon(pool_of(engine())).ready()
    address = running.url.removeprefix("http://")
    second = subprocess.run(
        [sys.executable, "-m", "scorer", "run", "--config.file", str(running.path),
         "--web.listen-address", address],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert f"cannot listen on {address}: Address already in use" in second.stderr


def test_not_ready_until_scored_then_ready_whatever_the_targets(
    engine: Engines, daemon: Daemons
) -> None:
    """Readiness waits for the first scores and does not follow the targets afterwards."""
    one, asked = engine(), threading.Event()

    def once_asked(handler: BaseHTTPRequestHandler) -> None:
        asked.wait(60)
        send(handler, page().encode())

    one.answer = once_asked
    seldom = {"global": {"scrape_interval": "3s", "scrape_timeout": "2900ms"}}
    running = daemon({**pool_of(one), **seldom})
    [answer] = running.until(lambda: [running.get("/-/ready")])  # that of an error is false
    assert (answer.status_code, answer.text) == (503, "pool chat has not been scored yet.\n")
    asked.set()
    running.ready()
    one.answer = hangs_up
    one.close()
    running.until(lambda: running.target(one.target)["state"] == "unreachable")
    assert running.get("/-/ready").status_code == 200


def test_proxy_of_the_environment_is_not_used(engine: Engines, daemon: Daemons) -> None:
    """Targets are reached directly although http_proxy names a proxy (see the fixture)."""
    one = engine()
    assert daemon(pool_of(one)).ready().target(one.target)["score"] == 100.0
