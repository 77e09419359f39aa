"""Log lines: logfmt or JSON on standard error, one event per line.

Lines of every library go through the same renderer, so a line is never half one
format and half another.

Whoever logs never waits for whoever reads: lines stand in a bounded queue that one
thread writes from. When nobody reads standard error the queue fills, further lines are
dropped and counted, and the count is a line of its own once writing works again. At the
end of the process what is left is waited for, but not for long.
"""

import contextlib
import logging
import os
import sys
import threading
import time
from collections import deque
from types import TracebackType
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

Format = Literal["logfmt", "json"]
LEVELS = ("debug", "info", "warn", "error")
_ORDER = ["time", "level", "source", "msg", "pool", "target", "state", "reason", "score"]
_QUIET = {
    "uvicorn": logging.WARNING,
    "urllib3": logging.WARNING,
    "asyncio": logging.WARNING,
    "apscheduler": logging.ERROR,
}
"""Libraries whose own events are only worth a line when something is wrong. APScheduler
warns of each run that comes late; the scheduler tells of that once."""
_SELDOM = ("uvicorn.error", "asyncio")
"""Loggers whose lines a client can cause, as many as it likes."""
BURST, BURST_SECONDS = 10, 10.0
"""Lines of such a logger that are written in so many seconds."""
MOST_LINES = 10_000
MOST_BYTES = 4 << 20
"""Bounds of what waits to be written."""
FLUSH_SECONDS = 1.0
"""Seconds that the end of the process waits for lines to be written."""
RETRY_SECONDS = 0.05
"""Seconds until a standard error that does not block, but is full, is tried again."""


class QueuedHandler(logging.Handler):
    """Writes lines to ``stream`` from a thread of its own; ``dropped`` counts those lost."""

    def __init__(
        self, stream: TextIO, most_lines: int = MOST_LINES, most_bytes: int = MOST_BYTES
    ) -> None:
        """Hold at most so many lines and bytes."""
        super().__init__()
        self.dropped = 0
        self._told = 0
        self._stream = stream
        self._descriptor = _descriptor(stream)
        self._most_lines, self._most_bytes = most_lines, most_bytes
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._writing = False
        self._changed = threading.Condition()
        threading.Thread(target=self._write_all, name="logs", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Put a line in the queue, or count it as dropped; never wait, never fail."""
        try:
            line = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
        except Exception:  # noqa: BLE001 - a line that cannot be rendered must not stop who logs it
            line = b""
        with self._changed:
            full = len(self._lines) >= self._most_lines or self._bytes >= self._most_bytes
            if full or not line:
                self.dropped += 1
                return
            self._lines.append(line)
            self._bytes += len(line)
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until everything is written, for a second at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines and not self._writing, FLUSH_SECONDS)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._lines)
                line = self._lines.popleft()
                self._bytes -= len(line)
                self._writing = True
            if self._write(line) and not self._lines:
                self._confess()

    def _confess(self) -> None:
        """Write how many lines were dropped since that was written last, if any."""
        if lost := self.dropped - self._told:
            text = "%d log lines were dropped: standard error was not read"
            told = logging.LogRecord(__name__, logging.WARNING, "", 0, text, (lost,), None)
            if self._write((self.format(told) + "\n").encode()):
                self._told += lost

    def _write(self, line: bytes) -> bool:
        """Write a line, however long that takes; return whether it could be written."""
        try:
            if self._descriptor is None:
                self._stream.write(line.decode())
                self._stream.flush()
                return True
            while line:
                try:
                    line = line[os.write(self._descriptor, line) :]
                except BlockingIOError:
                    time.sleep(RETRY_SECONDS)
        except (OSError, ValueError):  # closed, or its reader is gone
            with self._changed:
                self.dropped += 1
            return False
        return True


class Seldom(logging.Filter):
    """Lets through so many records in so many seconds."""

    def __init__(self, burst: int = BURST, seconds: float = BURST_SECONDS) -> None:
        """Let through ``burst`` records in ``seconds``."""
        super().__init__()
        self._burst, self._seconds = burst, seconds
        self._began, self._count = float("-inf"), 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is one of the first of its time."""
        if not 0.0 <= record.created - self._began < self._seconds:
            self._began, self._count = record.created, 0
        self._count += 1
        return self._count <= self._burst


def configure(level: str, form: Format, stream: TextIO = sys.stderr) -> None:
    """Send every log record of the process to ``stream`` in one format.

    ``level`` is one of :data:`LEVELS`.
    """
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        _named_as_documented,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.processors.LogfmtRenderer(key_order=_ORDER, drop_missing=True)
    )
    handler = QueuedHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel("WARNING" if level == "warn" else level.upper())
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(root.level, least))
    for name in _SELDOM:
        logging.getLogger(name).filters = [Seldom()]


def dropped() -> int:
    """Return how many lines were lost because nobody read them."""
    handlers = logging.getLogger().handlers
    return sum(each.dropped for each in handlers if isinstance(each, QueuedHandler))


def flush() -> None:
    """Wait until every line is written, for a second at most."""
    for each in logging.getLogger().handlers:
        each.flush()


def take_over() -> None:
    """Make log lines of what Python itself would write to standard error, and wait for it.

    Warnings, and exceptions that end the process or a thread, or that nobody can catch.
    """
    logger = logging.getLogger("python")

    def ends(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        logger.critical("The process ends with an exception", exc_info=(kind, value, trace))

    def of_thread(args: threading.ExceptHookArgs) -> None:
        name = args.thread.name if args.thread else "unknown"
        value = args.exc_value or args.exc_type()
        told = (args.exc_type, value, args.exc_traceback)
        logger.error("Thread %s ends with an exception", name, exc_info=told)

    def ignored(args: "sys.UnraisableHookArgs") -> None:
        value = args.exc_value or args.exc_type()
        told = (args.exc_type, value, args.exc_traceback)
        logger.error("Exception ignored in %r", args.object, exc_info=told)

    logging.captureWarnings(capture=True)
    sys.excepthook, threading.excepthook, sys.unraisablehook = ends, of_thread, ignored


def _descriptor(stream: TextIO) -> int | None:
    """Return the file descriptor of a stream, None without one.

    Written to directly: the lock of a Python stream, held by a write that blocks, would
    keep the process from ending.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return stream.fileno()
    return None


def _named_as_documented(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Use the documented keys: time, level, source, msg."""
    event["msg"] = event.pop("event")
    event["source"] = event.pop("logger", "")
    if event.get("level") == "warning":
        event["level"] = "warn"
    return event
