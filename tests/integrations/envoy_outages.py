"""What happens to Envoy's clients when the daemon is away, whichever way Envoy asks it."""

import signal
import time

from tests.integrations.envoy_stack import Stack, until
from tests.integrations.load import Load

TIMEOUTS = "cluster.scorer.upstream_rq_timeout"
"""Envoy's count of requests that waited for the daemon in vain."""
SHARED = 300
"""Requests of which three dice would never leave one engine less than a sixth."""


def killed_under_load(stack: Stack, before: float, alone: float) -> None:
    """Kill the daemon after ``before`` seconds of load, and start it again ``alone`` later."""
    envoy = stack.hasty
    with Load(envoy.address, threads=6) as load:
        time.sleep(before)
        waited = envoy.stat(TIMEOUTS)
        killed = time.monotonic()
        stack.kill_daemon()
        time.sleep(0.2)
        stack.reset()
        time.sleep(alone)
        until(lambda: sum(stack.served().values()) >= SHARED)
        served = stack.served()
        back, waited = time.monotonic(), envoy.stat(TIMEOUTS) - waited
        stack.start_daemon()
        until(lambda: picked_for(stack))
    assert load.failed() == []
    assert min(served.values()) > sum(served.values()) / 6
    assert waited < load.sent(killed, back) / 10


def left_alone_while_it_hangs(stack: Stack, most: int) -> None:
    """Stop the daemon for a while; at most ``most`` requests wait for it."""
    process = stack.daemon.process
    envoy = stack.hasty
    with Load(envoy.address, threads=6) as load:
        time.sleep(0.5)
        stopped, before = time.monotonic(), envoy.stat(TIMEOUTS)
        process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(2.5)
            until(lambda: load.sent(stopped, float("inf")) >= 5 * most)
            on, waited = time.monotonic(), envoy.stat(TIMEOUTS) - before
        finally:
            process.send_signal(signal.SIGCONT)
        stack.reset()
        until(lambda: picked_for(stack))
    assert load.failed() == []
    assert waited < most
    assert waited < load.sent(stopped, on) / 5


def picked_for(stack: Stack) -> bool:
    """Return whether any request was one that the daemon picked for."""
    return any("x-scorer-pick-id" in s.headers for e in stack.engines for s in list(e.seen))
