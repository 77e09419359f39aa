"""Ports that tests listen on: no two of them get the same, whatever process they run in."""

import socket
import subprocess
import sys
from pathlib import Path

from tests.system import conftest
from tests.system.conftest import free_port

ROOT = Path(__file__).parents[1]
OTHER = "from tests.system.conftest import free_port; print(free_port(), flush=True); input()"


def test_port_belongs_to_a_process_until_its_end() -> None:
    """Also while nobody listens on it."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER],
        cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        port = int(other.stdout.readline())
        assert not conftest._reserved(port)
        other.communicate("\n")
    assert conftest._reserved(port)


def test_port_in_use_is_not_given() -> None:
    """Be it by TCP or by UDP, and by whoever takes no part in this."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(type=kind) as sock:
            sock.bind(("127.0.0.1", 0))
            assert not conftest._reserved(sock.getsockname()[1])


def test_port_is_given_once() -> None:
    """One on which nobody listens any more refuses connections for as long as the tests run."""
    ports = [free_port() for _ in range(200)]
    assert len(set(ports)) == 200
