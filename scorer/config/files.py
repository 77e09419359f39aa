"""Files that a configuration names: relative to its own folder, checked on request.

A file may come, go and change while the daemon runs, so one that cannot be read is no
reason to refuse a configuration; ``scorer check-config`` names it all the same.
Whatever stands at a path, :func:`read_file` ends: pipes and devices are not waited for.
"""

import errno
import glob
import os
import select
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ValidationInfo

LARGEST = 1 << 20
"""Bytes of the largest file that is read: more is no configuration, list or secret."""
_BLOCK = 1 << 16
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class FileName(str):
    """Path of a file that is read while the daemon runs."""

    __slots__ = ()


class FilePattern(str):
    """Path of files, with shell-style wildcards."""

    __slots__ = ()


class KeptFile(str):
    """Path of a file that the daemon writes and reads again; none when empty."""

    __slots__ = ()


def beside(text: str, info: ValidationInfo) -> str:
    """Return a path that is relative to the configuration's folder where it is relative."""
    if not text or "\0" in text:
        rule = "must name a file"
        raise ValueError(rule)
    folder = (info.context or {}).get("folder", "")
    return str(Path(folder, text))


def check_regular(seen: os.stat_result, largest: int = LARGEST) -> None:
    """Raise OSError for what is no regular file, and for one of more than ``largest`` bytes."""
    if stat.S_ISDIR(seen.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(seen.st_mode):
        kind = _KINDS.get(stat.S_IFMT(seen.st_mode), "something else")
        raise OSError(errno.EINVAL, f"{kind}, not a regular file")
    if seen.st_size > largest:
        raise _too_large(largest)


def read_file(path: str | Path, largest: int = LARGEST, patience: float = 0.0) -> bytes:
    """Return the content of a regular file; OSError for anything else, or beyond ``largest`` bytes.

    With ``patience`` a pipe is read too, to its end, which must come within so many seconds.
    """
    try:
        seen = os.stat(path)  # noqa: PTH116 - before it is opened, which some devices notice
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error)) from None
    deadline = None
    if patience and stat.S_ISFIFO(seen.st_mode):
        deadline = time.monotonic() + patience
    else:
        check_regular(seen, largest)
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if deadline is None:  # what stands there may be another thing than a moment ago
            check_regular(os.fstat(file), largest)
        return _content(file, largest, deadline)
    finally:
        os.close(file)


def _content(file: int, largest: int, deadline: float | None) -> bytes:
    content = bytearray()
    while len(content) <= largest:
        if deadline is not None:
            _wait(file, deadline)
        block = os.read(file, _BLOCK)
        if not block:
            return bytes(content)
        content += block
    raise _too_large(largest)


def _wait(file: int, deadline: float) -> None:
    """Wait until a pipe has something to read or its writer left."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise OSError(errno.ETIMEDOUT, "a pipe whose writer does not come to an end")


def _too_large(largest: int) -> OSError:
    """Return the error of a file of more than ``largest`` bytes."""
    size = f"{largest >> 20} MiB" if largest >> 20 else f"{largest} bytes"
    return OSError(errno.EFBIG, f"more than {size}")


def _named(text: str, info: ValidationInfo) -> FileName:
    return FileName(beside(text, info))


def _named_if_any(text: str, info: ValidationInfo) -> str:
    return _named(text, info) if text else text


def _kept(text: str, info: ValidationInfo) -> KeptFile:
    if text.endswith("/"):
        rule = "must name a file"
        raise ValueError(rule)
    return KeptFile(beside(text, info) if text else "")


FilePath = Annotated[str, AfterValidator(_named)]
"""A file that must be readable; a value of this kind is a :class:`FileName`."""
OptionalFilePath = Annotated[str, AfterValidator(_named_if_any)]
"""The same, or empty for none."""

KeptPath = Annotated[str, AfterValidator(_kept)]
"""A file that is written; a value of this kind is a :class:`KeptFile`."""


def unreadable(part: object) -> Iterator[str]:
    """Yield one line for each file named in ``part`` that cannot be read."""
    for path, value in values(part):
        if isinstance(value, FileName):
            try:
                read_file(value)
            except OSError as error:
                yield f"{path}: cannot be read: {error.strerror}, got {value}"


def unmatched(part: object) -> Iterator[str]:
    """Yield one line for each pattern named in ``part`` that matches no file."""
    for path, value in values(part):
        if isinstance(value, FilePattern) and not glob.glob(value):  # noqa: PTH207 - it may be absolute
            yield f"{path}: matches no file, got {value}"


def unwritable(part: object) -> Iterator[str]:
    """Yield one line for each file named in ``part`` that could not be written by this user."""
    for path, value in values(part):
        if not isinstance(value, KeptFile) or not value:
            continue
        file = Path(os.path.realpath(value))
        if not file.parent.is_dir():
            yield f"{path}: cannot be written: {file.parent} is no directory"
        elif not os.access(file.parent, os.W_OK | os.X_OK):
            yield f"{path}: cannot be written: {file.parent} is not writable by this user"
        elif file.exists() and not file.is_file():
            yield f"{path}: cannot be written: {file} is not a regular file"


def values(part: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield every value in a part of a configuration, with its path."""
    if isinstance(part, BaseModel):
        for name, field in type(part).model_fields.items():
            key = field.alias or name
            yield from values(getattr(part, name), f"{path}.{key}" if path else key)
    elif isinstance(part, tuple):
        for index, each in enumerate(part):
            yield from values(each, f"{path}[{index}]")
    else:
        yield path, part
