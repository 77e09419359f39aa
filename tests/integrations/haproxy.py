"""The real HAProxy with a shipped configuration, on ports and with targets of a test."""

import asyncio
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.integrations.client import Connection
from tests.integrations.engine import ROLE, Engine, Exchange
from tests.system.conftest import NAP, DaemonProcess, free_port

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples" / "haproxy"
LUA = ROOT / "integrations"
PORT = re.compile(r"(127\.0\.0\.1:|agent-port )(\d+)")
HOP = "abns@scorer_"
SERVER = re.compile(r"^    server \S+ 10\.0\.0\.\d+:8000.*\n", re.MULTILINE)


def program() -> str:
    """Return the HAProxy to test: that of ``SCORER_TEST_HAPROXY``, else Debian's."""
    found = os.environ.get("SCORER_TEST_HAPROXY") or shutil.which(
        "haproxy", path=f"{os.environ['PATH']}:/usr/sbin"
    )
    assert found, "no haproxy: scripts/setup.sh test installs it"
    return found


class Haproxy:
    """One HAProxy; ``ports`` maps the ports of the shipped file to those it has here."""

    def __init__(
        self,
        folder: Path,
        example: str,
        ports: dict[int, int],
        servers: str = "",
        changes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        text = (EXAMPLES / example).read_text()
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        own = {int(port) for _, port in PORT.findall(text)}
        self.ports = {port: ports.get(port) or free_port() for port in own}
        text = PORT.sub(lambda match: f"{match[1]}{self.ports[int(match[2])]}", text)
        paths = "".join(f"    lua-prepend-path {LUA}/{at}/?.lua\n" for at in ("lua", "haproxy"))
        text = re.sub(r"    lua-prepend-path .*\n", lambda _: paths, text)
        text = text.replace("/etc/haproxy/lua/", f"{LUA}/haproxy/")
        # Several may run on this machine, and abstract sockets are not in a folder.
        text = text.replace(HOP, f"{HOP}{self.ports[8080]}_")
        self.admin = folder / "admin.sock"
        text = text.replace(
            "global\n",
            f"global\n    stats socket {self.admin} mode 600 level admin\n    nbthread 2\n",
            1,
        )
        if SERVER.search(text):
            start = SERVER.search(text).start()
            text = SERVER.sub("", text)
            text = text[:start] + servers + text[start:]
        self.path = folder / "haproxy.cfg"
        self.path.write_text(text)
        self.log_path = folder / "haproxy.log"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [program(), "-db", "-f", str(self.path)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + 60
        while not self._listens():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    @property
    def port(self) -> int:
        """Where clients come."""
        return self.ports[8080]

    @property
    def log(self) -> str:
        """What it said."""
        return self.log_path.read_text(errors="replace")

    def command(self, line: str) -> str:
        """Return what the admin socket answers."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self.admin))
            sock.sendall(f"{line}\n".encode())
            return b"".join(iter(lambda: sock.recv(65536), b"")).decode()

    def _listens(self) -> bool:
        """Whether the admin socket answers: it is there a moment before that."""
        try:
            return bool(self.command("show info"))
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    def stop(self) -> None:
        """End it; it must not have ended before."""
        assert self.process.poll() is None, self.log
        self.kill()

    def kill(self) -> None:
        """End it, whether or not it has ended."""
        self.process.kill()
        self.process.wait(5)


def passes_tokens_on(port: int, engines: Sequence[Engine], tries: int = 5) -> bool:
    """Whether a client has a token before the engine sends the next one, 0.15 s later.

    HAProxy's packets wait for more to send for 0.2 s if they may. A busy machine may be late
    too, so one of several tries is enough.
    """
    sent: list[str] = []

    async def pauses(engine: Engine, exchange: Exchange) -> None:
        await exchange.start(engine.target)
        await exchange.event(ROLE)
        await exchange.event({"choices": [{"delta": {"content": "one"}}]})
        await asyncio.sleep(0.15)
        sent.append(engine.target)
        await exchange.event({"choices": [{"delta": {"content": "two"}}]})
        await exchange.end()

    async def in_time() -> bool:
        sent.clear()
        connection = Connection(port)
        await connection.send()
        await connection.head(b'"one"')
        early = not sent
        connection.close()
        return early

    for each in engines:
        each.way = pauses
    return any(asyncio.run(in_time()) for _ in range(tries))


def until(condition, seconds: float = 60.0, why=lambda: ""):
    """Return the first true value of ``condition``."""
    for _ in range(int(seconds / NAP)):
        if value := condition():
            return value
        time.sleep(NAP)
    return pytest.fail(f"did not happen within {seconds} s {why()}")


def end(haproxy: Haproxy | None, daemon: DaemonProcess, engines: Sequence[Engine]) -> None:
    """End all that a test module started, in whatever state it is."""
    if haproxy is not None:
        haproxy.kill()
    daemon.process.kill()
    daemon.process.wait(5)
    for each in engines:
        each.close()
