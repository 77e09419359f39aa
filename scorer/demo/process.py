"""The real daemon as a child process of the demo, its log in a file."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from scorer.demo.wire import KeepAlive

STOP_PATIENCE = 10.0
"""Seconds after which a daemon that ignores SIGTERM is killed."""
PLACE = Path(__file__).parents[2]
"""The folder that has the package."""
READY_PATIENCE = 30.0
READY_POLL = 0.1
LAST_LINES = 10


class DaemonDiedError(Exception):
    """The daemon ended, or never became ready; the message ends with its last log lines."""


class Daemon:
    """A running ``scorer run``."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    async def watch(self) -> None:
        """Wait for the daemon's end and raise DaemonDiedError: it has no reason to end."""
        code = await self._process.wait()
        raise DaemonDiedError(f"the daemon ended with exit code {code}\n{self._last_lines()}")

    async def ready(self, client: KeepAlive) -> None:
        """Wait until it tells ``client`` that it is ready; DaemonDiedError when it never does."""
        try:
            async with asyncio.timeout(READY_PATIENCE):
                await self._poll(client)
        except TimeoutError:
            text = f"the daemon was not ready after {READY_PATIENCE:.0f} s"
            raise DaemonDiedError(f"{text}\n{self._last_lines()}") from None

    async def _poll(self, client: KeepAlive) -> None:
        while True:
            if self._process.returncode is not None:
                await self.watch()
            # Until it listens, the connection is refused.
            with suppress(ConnectionError):
                status, _ = await client.get("/-/ready")
                if status == 200:
                    return
            await asyncio.sleep(READY_POLL)

    async def stop(self) -> None:
        """Terminate it, as an operator would; kill it when it does not obey."""
        if self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(STOP_PATIENCE):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _last_lines(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "\n".join(f"  {line}" for line in lines) or "  (its log is empty)"


@asynccontextmanager
async def running(arguments: Sequence[str], log: Path) -> AsyncIterator[Daemon]:
    """Run ``python -m scorer`` with ``arguments`` for the length of a ``with`` block.

    It ends with this process, however that ends. It gets a session of its own, so that
    a Ctrl-C reaches the demo alone and the demo decides when the daemon stops. What the
    environment says to a daemon is not for this one. It starts beside the package, as
    ``-m`` looks where it is first: a folder called ``scorer``, such as a clone, may be here.
    """
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "scorer.demo.child",
            *arguments,
            cwd=PLACE,
            env={k: v for k, v in os.environ.items() if not k.startswith("SCORER_")},
            stdin=asyncio.subprocess.PIPE,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    daemon = Daemon(process, log)
    try:
        yield daemon
    finally:
        await daemon.stop()
