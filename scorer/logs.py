"""Log lines: logfmt or JSON on standard error, one event per line.

Lines of every library go through the same renderer, so a line is never half one
format and half another.
"""

import logging
import sys
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

Format = Literal["logfmt", "json"]
LEVELS = ("debug", "info", "warn", "error")
_ORDER = ["time", "level", "source", "msg", "pool", "target", "state", "reason", "score"]
_QUIET = ("apscheduler", "uvicorn", "urllib3", "asyncio")
"""Libraries whose own events are only worth a line when something is wrong."""


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
    handler = logging.StreamHandler(stream)
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
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(root.level, logging.WARNING))


def _named_as_documented(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Use the documented keys: time, level, source, msg."""
    event["msg"] = event.pop("event")
    event["source"] = event.pop("logger", "")
    if event.get("level") == "warning":
        event["level"] = "warn"
    return event
