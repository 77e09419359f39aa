"""The file in which the daemon's memory survives a restart: read whole, replaced whole.

One JSON object a line, so that neither writing nor reading holds the interpreter for long.
A reader finds the file of before or the new one, never half of one. All that can go wrong
is a :class:`StateFileError` with a reason for people.
"""

import contextlib
import glob
import json
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

MOST_BYTES = 64 * 1024 * 1024
"""A thousand targets need about five million."""
LEFT_BEHIND = 60.0
"""Age in seconds from which an unfinished file is one that nobody will finish."""
_CHUNK = 1024 * 1024


class StateFileError(Exception):
    """The file cannot be used, and why."""


class Mark(NamedTuple):
    """What tells one version of a file from another."""

    inode: int
    changed_ns: int
    size: int


def read(path: str) -> tuple[list[bytes], Mark]:
    """Return the lines of a file, and which version of it they are.

    FileNotFoundError when there is none, StateFileError when it cannot be used.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise StateFileError(f"cannot be opened: {_why(error)}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise StateFileError("is not a regular file")
        if found.st_size > MOST_BYTES:
            raise StateFileError(f"is larger than {MOST_BYTES} bytes")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(MOST_BYTES)
    except OSError as error:
        raise StateFileError(f"cannot be read: {_why(error)}") from None
    finally:
        os.close(descriptor)
    return content.splitlines(), _mark(found)


def write(path: str, lines: Iterable[bytes]) -> Mark:
    """Replace a file by one with these lines, which only its owner may read.

    The new content is on the disk before it takes the place of the old one. A symbolic link
    is followed, and what is not a regular file is left alone.
    """
    target = Path(os.path.realpath(path))
    if (found := _stat(target)) and not stat.S_ISREG(found.st_mode):
        raise StateFileError("is not a regular file")
    try:
        return _replace(target, lines)
    except OSError as error:
        raise StateFileError(f"cannot be written: {_why(error)}") from None


def mark(path: str) -> Mark | None:
    """Return which version of a file there is, None without any."""
    found = _stat(Path(os.path.realpath(path)))
    return _mark(found) if found else None


def tidy(path: str) -> None:
    """Remove what a daemon that was killed while it wrote left behind."""
    target = Path(os.path.realpath(path))
    with contextlib.suppress(OSError):
        for each in target.parent.glob(f"{glob.escape(_prefix(target))}*.tmp"):
            if time.time() - each.stat().st_mtime > LEFT_BEHIND:
                each.unlink()


def encoded(data: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return one line; StateFileError when it is nothing that could be read again."""
    try:
        return json.dumps(data, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except (ValueError, RecursionError):
        raise StateFileError("has a part that is not JSON") from None


def decoded(line: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Return what a line holds; StateFileError when it is no JSON."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise StateFileError("is not JSON") from None


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return what ``call`` returns or raises; StateFileError when it takes too long.

    A disk may hang for ever; whoever waits for it here does not.
    """
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(call())
        except (OSError, StateFileError) as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="state-read", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise StateFileError(f"cannot be read within {seconds:g} seconds")
    return results[0]


class Writer:
    """A thread that writes when it is asked; asking never waits.

    Its own, and one that the interpreter does not wait for at its end: a disk that hangs
    holds up nothing else.
    """

    def __init__(self, write_all: Callable[[], None]) -> None:
        """Write by calling ``write_all``, which must not raise."""
        self._write = write_all
        self._asked = threading.Event()
        self._finished = threading.Event()
        self._last = False
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="state", daemon=True)
        self._thread.start()

    def ask(self) -> bool:
        """Have it written; False when the write before is still going on."""
        if self._busy:
            return False
        self._asked.set()
        return True

    def finish(self, seconds: float) -> bool:
        """Have it written a last time; return whether that was done within ``seconds``."""
        self._last = True
        self._asked.set()
        return self._finished.wait(seconds)

    def _run(self) -> None:
        last = False
        while not last:
            self._asked.wait()
            self._asked.clear()
            last, self._busy = self._last, True
            self._write()
            self._busy = False
        self._finished.set()


def _replace(target: Path, lines: Iterable[bytes]) -> Mark:
    descriptor, name = tempfile.mkstemp(".tmp", _prefix(target), target.parent)
    try:
        with os.fdopen(descriptor, "wb", _CHUNK) as file:
            _put(file.write, lines)
            file.flush()
            os.fsync(descriptor)
            written = os.fstat(descriptor)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return _mark(written)


def _put(put: Callable[[bytes], object], lines: Iterable[bytes]) -> None:
    size = 0
    for line in lines:
        size += len(line)
        if size > MOST_BYTES:
            raise StateFileError(f"would be larger than {MOST_BYTES} bytes")
        put(line)


def _prefix(target: Path) -> str:
    return f".{target.name[:100]}."


def _stat(target: Path) -> os.stat_result | None:
    try:
        return target.stat()
    except OSError:
        return None


def _mark(found: os.stat_result) -> Mark:
    return Mark(found.st_ino, found.st_mtime_ns, found.st_size)


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
