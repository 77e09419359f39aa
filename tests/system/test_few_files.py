"""More connections than the daemon may have open files: picks and scrapes go on."""

import contextlib
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scorer import serving
from scorer.http.protocol import MOST_CONNECTIONS
from scorer.serving import FILES_FOR_SCRAPES, raise_file_limit
from tests.system.conftest import DaemonProcess, FakeEngine, pool_of
from tests.unix import connect

FILES = 256


@pytest.mark.parametrize(
    ("limit", "connections"),
    [
        (256, 128),
        (FILES_FOR_SCRAPES * 2, FILES_FOR_SCRAPES),
        (20_000, 20_000 - FILES_FOR_SCRAPES),
        (10**6, MOST_CONNECTIONS),
        (serving.resource.RLIM_INFINITY, MOST_CONNECTIONS),
    ],
)
def test_connections_leave_files_for_scrapes(
    monkeypatch: pytest.MonkeyPatch, limit: int, connections: int
) -> None:
    """Half of a few, all but some thousands of many."""
    monkeypatch.setattr(serving.resource, "getrlimit", lambda _: (limit, limit))
    assert raise_file_limit() == connections


@pytest.mark.system
def test_connections_beyond_the_limit_lock_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Callable[[], FakeEngine]
) -> None:
    """Idle connections make room for others, of either listener; the target stays reachable."""
    limited = tmp_path / "python"
    limited.write_text(f'#!/bin/sh\nulimit -n {FILES}\nexec {sys.executable} "$@"\n')
    limited.chmod(0o755)
    one = engine()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", str(limited))
        web = {"unix_socket": {"path": str(tmp_path / "s")}}
        running = DaemonProcess(tmp_path, pool_of(one) | {"web": web})
    try:
        running.ready()
        port = int(running.url.rpartition(":")[2])
        with contextlib.ExitStack() as stack:
            for _ in range(3 * FILES // 2):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
                stack.enter_context(connect(tmp_path / "s"))
            one.scraped_at.clear()
            running.until(lambda: len(one.scraped_at) >= 2)
            for _ in range(20):
                assert running.get("/pick").status_code == 200
                running.http.close()
            shown = running.target(one.target)
            assert (shown["state"], shown["last_scrape"]["ok"]) == ("healthy", True)
        assert "Traceback" not in running.log
        assert running.stop() == 0
    finally:
        running.process.kill()
        running.process.wait(5)
