"""The listener and the signals: serves a daemon until it is told to stop.

SIGTERM and SIGINT stop accepting, finish the requests under way and end with 0.
SIGHUP reloads, in a thread, because reading a file may block and picks may not wait;
nor does the end wait for that thread.
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

import structlog
import uvicorn
import uvloop

from exporters.haproxy_agent import AgentConnection
from scorer.daemon import Daemon
from scorer.feedback.udp import FeedbackProtocol, bind_udp
from scorer.http.feedback_protocol import connections_with
from scorer.http.protocol import MOST_CONNECTIONS
from scorer.http.sweep import close_overdue, cut_all

logger = structlog.stdlib.get_logger(__name__)

BACKLOG = 2048
SEND_BUFFER = 1 << 18
"""Bytes that the kernel keeps for a client which does not read: left to itself it keeps
megabytes, and a client is found out only when they are full."""
KEEP_ALIVE = 75
"""Seconds an idle connection is kept: longer than proxies keep theirs, so that it is
they who close, and no request meets a connection that is being closed."""
CUT_AFTER = 3.0
"""Seconds that clients get to read their last answers when the daemon stops."""
FINISH_WITHIN = 5
"""Seconds that requests under way get when the daemon stops."""
FILES_FOR_SCRAPES = 4096
"""Open files that connections of clients leave for scrapes, where there are so many."""
SWITCH_INTERVAL = 0.0005
"""Seconds a thread may keep the interpreter: the default of 5 ms would let a busy
scrape thread delay picks by that much."""


GC_THRESHOLDS = (50_000, 20, 50)
"""Snapshots of a large pool are many objects without cycles; looking through them every
700 allocations, the default, was most of the tail of pick latency at 1,000 targets."""


class ListenError(Exception):
    """The listen address cannot be used."""


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling, which would end the process by the signal."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to :func:`serve`."""
        yield


def listen(address: str) -> socket.socket:
    """Return a socket bound to ``host:port``; ListenError says why that is not possible.

    An empty host means every IPv4 address.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        sock.bind((host, int(port)))
    except (OSError, UnicodeError) as error:  # the latter for a host that cannot be one
        sock.close()
        message = f"cannot listen on {address}: {_why(error)}"
        raise ListenError(message) from None
    sock.set_inheritable(True)
    return sock


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


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def listen_udp(address: str) -> socket.socket | None:
    """Return a UDP socket bound to ``host:port``, None for ""; ListenError as :func:`listen`."""
    if not address:
        return None
    try:
        return bind_udp(address)
    except (OSError, UnicodeError) as error:
        message = f"cannot listen on UDP {address}: {_why(error)}"
        raise ListenError(message) from None


def listen_agent(address: str) -> socket.socket | None:
    """Return a socket for HAProxy's agent-checks, None for ""; ListenError as :func:`listen`."""
    return listen(address) if address else None


def serve(
    daemon: Daemon,
    sock: socket.socket,
    udp: socket.socket | None = None,
    agent: socket.socket | None = None,
) -> None:
    """Run the daemon on bound sockets until SIGTERM or SIGINT.

    ``udp`` takes feedback, ``agent`` answers HAProxy's agent-checks.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.set_threshold(*GC_THRESHOLDS)
    most = raise_file_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(daemon, sock, udp, agent, most))


async def _serve(
    daemon: Daemon,
    sock: socket.socket,
    udp: socket.socket | None,
    agent: socket.socket | None,
    most_connections: int,
) -> None:
    server = _Server(
        uvicorn.Config(
            daemon.asgi,
            http=connections_with(daemon.picking, daemon.reporting, most_connections),
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
    )
    loop = asyncio.get_running_loop()
    reload = threading.Event()

    def stop(name: str) -> None:
        logger.info("Scorer is stopping", signal=name)
        daemon.stopping = server.should_exit = True
        loop.call_later(CUT_AFTER, cut_all, server.server_state)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, signal.Signals(number).name)
    loop.add_signal_handler(signal.SIGHUP, reload.set)
    threading.Thread(
        target=_reload_when, args=(reload, daemon.reload), name="reload", daemon=True
    ).start()
    daemon.start()
    try:
        logger.info("Listening", address="{}:{}".format(*sock.getsockname()[:2]))
        if udp is not None:
            await _take_feedback(daemon, udp)
        if agent is not None:
            await _answer_agents(daemon, agent)
        sweeping = asyncio.create_task(close_overdue(server.server_state, KEEP_ALIVE))
        await server.serve(sockets=[sock])
        sweeping.cancel()
    finally:
        daemon.stop()
    logger.info("Scorer stopped")


def _reload_when(asked: threading.Event, reload: Callable[[], object]) -> None:
    """Reload whenever that is asked for; once for what was asked meanwhile."""
    while asked.wait():
        asked.clear()
        reload()


async def _take_feedback(daemon: Daemon, udp: socket.socket) -> None:
    protocol = FeedbackProtocol(daemon.feedback, daemon.clocks.monotonic)
    await asyncio.get_running_loop().create_datagram_endpoint(lambda: protocol, sock=udp)
    logger.info("Taking feedback by UDP", address="{}:{}".format(*udp.getsockname()[:2]))


async def _answer_agents(daemon: Daemon, sock: socket.socket) -> None:
    await asyncio.get_running_loop().create_server(
        lambda: AgentConnection(daemon.agent), sock=sock, backlog=BACKLOG
    )
    logger.info("Answering agent-checks", address="{}:{}".format(*sock.getsockname()[:2]))
