"""The listener and the signals: serves a daemon until it is told to stop.

SIGTERM and SIGINT stop accepting, finish the requests under way and end with 0.
SIGHUP reloads, in a thread, because reading a file may block and picks may not wait;
nor does the end wait for that thread. One that came during the start reloads once.
"""

import asyncio
import contextlib
import gc
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog
import uvicorn
import uvloop

from exporters.haproxy_agent import AgentConnection
from scorer import hangup
from scorer.config.files import read_file
from scorer.daemon import Daemon
from scorer.daemon_stats import DaemonStats
from scorer.feedback.udp import FeedbackProtocol
from scorer.http.feedback_protocol import connections_with
from scorer.http.protocol import MOST_CONNECTIONS
from scorer.http.sweep import close_overdue, cut_all
from scorer.http.tls import WebFileKeeper
from scorer.listening import BACKLOG, UnixListener
from scorer.notify import READY, STOPPING, notify

logger = structlog.stdlib.get_logger(__name__)

KEEP_ALIVE = 75
"""Seconds an idle connection is kept: longer than proxies keep theirs, so that it is
they who close, and no request meets a connection that is being closed."""
CUT_AFTER = 3.0
"""Seconds that clients get to read their last answers when the daemon stops."""
FINISH_WITHIN = 5
"""Seconds that requests under way get when the daemon stops."""
LAG_EVERY = 0.5
"""Seconds between two timers that measure how late the event loop is."""
FILES_FOR_SCRAPES = 4096
"""Open files that connections of clients leave for scrapes, where there are so many."""
SWITCH_INTERVAL = 0.0005
"""Seconds a thread may keep the interpreter: the default of 5 ms would let a busy
scrape thread delay picks by that much."""


GC_THRESHOLDS = (50_000, 20, 50)
"""Snapshots of a large pool are many objects without cycles; looking through them every
700 allocations, the default, was most of the tail of pick latency at 1,000 targets."""


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling, which would end the process by the signal.

    It serves a Unix socket beside the others, without TLS: what passes there does not leave
    the machine.
    """

    def __init__(self, config: uvicorn.Config, unix: UnixListener | None) -> None:
        super().__init__(config)
        self.unix = unix

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and tell systemd."""
        await super().startup(sockets)
        if self.unix is not None:
            server = await asyncio.get_running_loop().create_unix_server(
                self._connection, sock=self.unix.sock, backlog=BACKLOG
            )
            self.servers.append(server)
        notify(READY)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, and end what is under way."""
        if self.unix is not None:
            self.unix.remove()
        await super().shutdown(sockets)

    def _connection(self) -> asyncio.Protocol:
        """Return the protocol of a connection, as uvicorn makes it for its own listeners."""
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to :func:`serve`."""
        yield


def raise_file_limit() -> int:
    """Allow as many open files as the system lets us: one per target, one per client.

    Return how many connections of clients that leaves room for: half of the files at
    least are theirs, and no more than are of use; the rest is for scrapes.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(MOST_CONNECTIONS, max(soft // 2, soft - FILES_FOR_SCRAPES))


class FileWatch:
    """Tells when the content of a file has changed since it was last asked."""

    def __init__(self, path: Path, every: float) -> None:
        """Begin with what is in the file now; it is to be asked ``every`` so many seconds."""
        self.every = every
        self._path = path
        self._seen = self._content()

    def changed(self) -> bool:
        """Return whether the file has another content; one that cannot be read has none."""
        before, self._seen = self._seen, self._content()
        return before != self._seen

    def _content(self) -> bytes | str | None:
        try:
            return read_file(self._path)
        except OSError as error:
            return error.strerror


def serve(
    daemon: Daemon,
    sock: socket.socket,
    udp: socket.socket | None = None,
    agent: socket.socket | None = None,
    web: WebFileKeeper | None = None,
    watch: FileWatch | None = None,
    unix: UnixListener | None = None,
) -> None:
    """Run the daemon on bound sockets until SIGTERM or SIGINT.

    ``udp`` takes feedback, ``agent`` answers HAProxy's agent-checks, ``web`` is TLS and
    basic auth, ``watch`` the configuration's file, to be reloaded when it changes, ``unix``
    the listener for this machine.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*GC_THRESHOLDS)
    web = web or WebFileKeeper(None)
    server = _Server(_configured(daemon, web, raise_file_limit()), unix)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(daemon, server, sock, udp, agent, web, watch))
    finally:
        if unix is not None:
            unix.remove()


def _configured(daemon: Daemon, web: WebFileKeeper, most_connections: int) -> uvicorn.Config:
    config = uvicorn.Config(
        web.guard.in_front_of(daemon.asgi),
        http=connections_with(daemon.picking, daemon.reporting, most_connections, web.guard),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=FINISH_WITHIN,
    )
    config.load()
    config.ssl = web.context
    return config


async def _serve(
    daemon: Daemon,
    server: _Server,
    sock: socket.socket,
    udp: socket.socket | None,
    agent: socket.socket | None,
    web: WebFileKeeper,
    watch: FileWatch | None,
) -> None:
    loop = asyncio.get_running_loop()
    reload = threading.Event()

    def stop(name: str) -> None:
        logger.info("Scorer is stopping", signal=name)
        notify(STOPPING)
        daemon.stopping = server.should_exit = True
        loop.call_later(CUT_AFTER, cut_all, server.server_state)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, signal.Signals(number).name)
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    threading.Thread(
        target=_reload_when, args=(reload, daemon.reload), name="reload", daemon=True
    ).start()
    if watch is not None:
        threading.Thread(
            target=_ask_when_changed, args=(watch, reload), name="auto-reload", daemon=True
        ).start()
    web.watch()
    daemon.start()
    if hangup.came():
        reload.set()
    try:
        logger.info("Listening", address=_address(sock), tls=web.context is not None)
        if server.unix is not None:
            logger.info("Listening", address=f"unix:{server.unix.path}", tls=False)
        if udp is not None:
            await _take_feedback(daemon, udp)
        if agent is not None:
            await _answer_agents(daemon, agent)
        sweeping = asyncio.create_task(close_overdue(server.server_state, KEEP_ALIVE))
        watching = asyncio.create_task(watch_lag(daemon.stats, loop.time))
        await server.serve(sockets=[sock])
        sweeping.cancel()
        watching.cancel()
    finally:
        daemon.stop()
    logger.info("Scorer stopped")


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def watch_lag(stats: DaemonStats, clock: Callable[[], float]) -> None:
    """Note, again and again, by how much a timer of the event loop is late."""
    while True:
        due = clock() + LAG_EVERY
        await asyncio.sleep(LAG_EVERY)
        stats.loop_lagged(max(0.0, clock() - due))


def _reload_when(asked: threading.Event, reload: Callable[[], object]) -> None:
    """Reload whenever that is asked for; once for what was asked meanwhile."""
    while asked.wait():
        asked.clear()
        reload()


def _ask_when_changed(watch: FileWatch, reload: threading.Event) -> None:
    pause = threading.Event()
    while not pause.wait(watch.every):
        if watch.changed():
            reload.set()


async def _take_feedback(daemon: Daemon, udp: socket.socket) -> None:
    protocol = FeedbackProtocol(daemon.feedback, daemon.clocks.monotonic)
    await asyncio.get_running_loop().create_datagram_endpoint(lambda: protocol, sock=udp)
    logger.info("Taking feedback by UDP", address=_address(udp))


async def _answer_agents(daemon: Daemon, sock: socket.socket) -> None:
    await asyncio.get_running_loop().create_server(
        lambda: AgentConnection(daemon.agent), sock=sock, backlog=BACKLOG
    )
    logger.info("Answering agent-checks", address=_address(sock))
