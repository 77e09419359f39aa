"""Log lines: their form, and that nobody waits for whoever reads them."""

import io
import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import structlog

from scorer import logs
from scorer.logs import FLUSH_SECONDS, QueuedHandler, Seldom
from tests.waited import Waited

MOST = 100


class Lines(io.StringIO):
    """A stream that is looked at after everything was written."""

    def getvalue(self) -> str:
        logs.flush()
        return super().getvalue()


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Return what is logged while the test runs; logging is put back afterwards."""
    root, hooks = logging.getLogger(), (sys.excepthook, threading.excepthook, sys.unraisablehook)
    handlers, level = root.handlers, root.level
    yield Lines()
    root.handlers, root.level = handlers, level
    sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
    logging.captureWarnings(capture=False)
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).filters = []
    structlog.reset_defaults()


def test_logfmt_line_has_the_documented_keys_in_order(lines: Lines) -> None:
    """Time, level, source and msg come first, then the facts."""
    logs.configure("info", "logfmt", lines)
    structlog.stdlib.get_logger("scorer.cycle").warning("Target left", target="a:1", pool="chat")
    line = lines.getvalue()
    assert line.startswith("time=20")
    assert 'level=warn source=scorer.cycle msg="Target left" pool=chat target=a:1\n' in line


def test_json_line_is_one_object(lines: Lines) -> None:
    """Each line is a JSON object with the same keys."""
    logs.configure("info", "json", lines)
    structlog.stdlib.get_logger("scorer.cycle").info("Up", pool="chat")
    line = json.loads(lines.getvalue())
    assert (line["level"], line["msg"], line["pool"]) == ("info", "Up", "chat")


def test_lines_of_libraries_look_like_ours(lines: Lines) -> None:
    """A library's record goes through the same renderer."""
    logs.configure("info", "json", lines)
    logging.getLogger("some.library").warning("careful: %s", "hot")
    assert json.loads(lines.getvalue())["msg"] == "careful: hot"


def test_lines_below_the_level_are_left_out(lines: Lines) -> None:
    """Nothing below the level is written."""
    logs.configure("warn", "logfmt", lines)
    structlog.stdlib.get_logger("scorer").info("chatter")
    assert lines.getvalue() == ""


def test_text_of_others_cannot_forge_a_line(lines: Lines) -> None:
    """A line feed in a value stays inside its value."""
    logs.configure("info", "logfmt", lines)
    structlog.stdlib.get_logger("scorer").info("x", detail="a\nlevel=error msg=forged")
    assert lines.getvalue().count("\n") == 1


def test_apscheduler_does_not_warn_of_late_runs(lines: Lines) -> None:
    """Its warnings, one per run, are left out; its errors are not."""
    logs.configure("info", "logfmt", lines)
    logging.getLogger("apscheduler.scheduler").warning("maximum number of running instances")
    logging.getLogger("apscheduler.executors.score").error("Job raised an exception")
    assert "maximum" not in lines.getvalue()
    assert "Job raised" in lines.getvalue()


def test_lines_that_clients_cause_are_few(lines: Lines) -> None:
    """A thousand of the same are ten lines."""
    logs.configure("info", "logfmt", lines)
    for _ in range(1000):
        logging.getLogger("asyncio").warning("socket.send() raised exception.")
    assert lines.getvalue().count("\n") == 10


def test_line_can_come_again_after_a_while() -> None:
    """The bound is for a stretch of time, whichever way the clock goes."""
    seldom, record = Seldom(burst=1, seconds=10.0), logging.makeLogRecord({})
    passed = []
    for moment in (100.0, 105.0, 110.0, 111.0, 50.0):
        record.created = moment
        passed.append(seldom.filter(record))
    assert passed == [True, False, True, False, True]


def test_exceptions_of_threads_are_lines(lines: Lines) -> None:
    """What Python would print itself goes the same way, with its traceback."""
    logs.configure("info", "json", lines)
    logs.take_over()

    def fail() -> None:
        raise ValueError("boom")

    thread = threading.Thread(target=fail, name="worker")
    thread.start()
    thread.join()
    line = json.loads(lines.getvalue())
    assert line["msg"] == "Thread worker ends with an exception"
    assert line["exception"].endswith("ValueError: boom")


class Unread:
    """A pipe that nobody reads until :meth:`read_on`, with a handler that writes to it."""

    def __init__(self, **bounds: int) -> None:
        self._reader, writer = os.pipe()
        self.stream = os.fdopen(writer, "w")
        self.handler = QueuedHandler(self.stream, **bounds)
        self.handler.setFormatter(logging.Formatter("%(message)s"))

    def log(self, text: str, times: int = 1) -> None:
        for _ in range(times):
            self.handler.handle(logging.makeLogRecord({"msg": text}))

    def read_on(self, until: bytes) -> bytes:
        """Read until something has come."""
        got = b""
        while until not in got:
            got += os.read(self._reader, 1 << 20)
        return got

    def stop_reading(self) -> None:
        """Close the reader's end."""
        os.close(self._reader)


def test_blocked_stream_delays_nobody_and_drops_are_told_once() -> None:
    """Beyond what is kept lines are dropped and counted; one line says how many were."""
    unread = Unread(most_lines=MOST)
    waited = Waited()
    unread.log("x" * 1000, times=10_000)
    assert waited.seconds < 2.0
    dropped = unread.handler.dropped
    assert 10_000 - 3 * MOST <= dropped < 10_000
    got = unread.read_on(b"dropped").decode()
    assert got.count("x\n") == 10_000 - dropped
    assert re.findall("(.*) log lines were dropped", got) == [str(dropped)]
    unread.log("and on")
    assert unread.read_on(b"on\n") == b"and on\n"
    unread.stop_reading()


def test_long_lines_are_bounded_by_their_bytes() -> None:
    """A few lines of a megabyte each do not fill memory."""
    unread = Unread(most_bytes=1 << 20)
    unread.log("x" * 300_000, times=20)
    assert unread.handler.dropped >= 14
    unread.stop_reading()


def test_flush_gives_up_on_a_blocked_stream() -> None:
    """The end of the process is not put off for long."""
    unread = Unread()
    unread.log("x" * 1000, times=1000)
    waited = Waited()
    unread.handler.flush()
    assert FLUSH_SECONDS - 0.1 < waited.seconds < FLUSH_SECONDS + 1.0
    unread.stop_reading()


def test_closed_stream_is_counted() -> None:
    """When the reader is gone, lines are lost, and logging goes on."""
    unread = Unread()
    unread.stop_reading()
    unread.log("x", times=3)
    unread.handler.flush()
    assert unread.handler.dropped == 3


def test_line_that_cannot_be_rendered_is_counted(lines: Lines) -> None:
    """A fault in a message is no fault of whoever logs it."""
    logs.configure("info", "logfmt", lines)
    logging.getLogger("some.library").warning("%d", "no number")
    assert lines.getvalue() == ""
    assert logs.dropped() == 1


SCRIPT = """
import logging
from scorer import logs
logs.configure("info", "logfmt")
logs.take_over()
for number in range(500):
    logging.getLogger("x").info("line %d", number)
{ending}
"""


@pytest.mark.parametrize(
    ("ending", "code", "last"),
    [("", 0, "line 499"), ("raise SystemExit(3)", 3, "line 499"), ("1 / 0", 1, "ZeroDivision")],
)
def test_nothing_is_lost_at_the_end(ending: str, code: int, last: str) -> None:
    """Every line before the end of a process is written, whatever ends it."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(ending=ending)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == code
    assert sum("line " in line for line in done.stderr.splitlines()) >= 500
    assert last in done.stderr.splitlines()[-1]
