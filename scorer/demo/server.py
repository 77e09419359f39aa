"""An emulated engine as a server on loopback that can be restarted like a process.

While it is down its port refuses connections, and its streams break off. Its port stays
reserved by a second bound socket that never listens, so nothing else can take it meanwhile.
"""

import asyncio
import logging
import socket
import time

import uvicorn

from scorer.demo.app import EngineApp
from scorer.demo.cost import CostModel
from scorer.demo.driver import Driver
from scorer.demo.engine import Engine, Limits

LOOPBACK = "127.0.0.1"


def _bind(port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind((LOOPBACK, port))
    return bound


class EngineServer:
    """One emulated engine behind ``address`` (``host:port`` on loopback)."""

    def __init__(self, model_name: str, cost: CostModel, limits: Limits) -> None:
        self._model_name = model_name
        self._driver = Driver(Engine(cost, limits, asyncio.get_running_loop().time()))
        self._reservation = _bind(0)
        self._port: int = self._reservation.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self.address = f"{LOOPBACK}:{self._port}"

    @property
    def engine(self) -> Engine:
        """The emulation behind the server, for reading."""
        return self._driver.engine

    async def start(self) -> None:
        """Listen, as a process that started this moment."""
        app = EngineApp(self._driver, self._model_name, time.time())
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=2,
        )
        # Streams broken by a restart are part of the demo, not an error to report.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        config.load()
        # Driven by hand rather than by serve(), which would take over this process's signals.
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup(sockets=[_bind(self._port)])
        self._server = server

    async def down(self) -> None:
        """Die as a process does: refuse connections, break all streams, lose all state."""
        server, self._server = self._server, None
        if server is None:
            return
        self._driver.restart()
        await server.shutdown()

    async def restart(self, down_for: float) -> None:
        """Be down for ``down_for`` seconds, then come back empty."""
        await self.down()
        await asyncio.sleep(down_for)
        await self.start()

    async def close(self) -> None:
        """Stop for good and give the port back."""
        await self.down()
        self._reservation.close()
