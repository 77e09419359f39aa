"""How a test of picks says what it means whoever is drawn."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.system.conftest import NAP, DaemonProcess


def order(daemon: DaemonProcess, verb: str, target: str, **body: str) -> None:
    """Give an operator's order; picks go by it at once."""
    url = f"{daemon.url}/api/v1/targets/{target}/{verb}"
    daemon.http.post(url, json=body, timeout=10).raise_for_status()


def idle(daemon: DaemonProcess) -> bool:
    """Return whether the daemon knows of no request under way: it was told of the end of each."""
    targets = daemon.get("/api/v1/targets").json()["data"]
    return all(each["in_flight"] == 0 for each in targets)


@contextmanager
def only(daemon: DaemonProcess, *targets: str) -> Iterator[None]:
    """Let picks return these targets alone, in whatever state they are: others are drained."""
    known = [each["target"] for each in daemon.get("/api/v1/targets").json()["data"]]
    others = [each for each in known if each not in targets]
    try:
        for each in others:
            order(daemon, "drain", each)
        yield
    finally:
        for each in others:
            order(daemon, "undrain", each)


def repeat(
    request: Callable[[], object],
    least: int,
    enough: Callable[[], object],
    what: Callable[[], object] = str,
) -> int:
    """Make a request ``least`` times, and again until that was ``enough``; return how often.

    The bound is what a target needs to be picked again after the worst that tests do to it.
    """
    for _ in range(least):
        request()
    for more in range(int(60.0 / NAP)):
        if enough():
            return least + more
        time.sleep(NAP)
        request()
    raise AssertionError(f"still not enough after a minute: {what()}")
