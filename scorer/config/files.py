"""Files that a configuration names: relative to its own folder, checked on request.

A file may come, go and change while the daemon runs, so one that cannot be read is no
reason to refuse a configuration; ``scorer check-config`` names it all the same.
"""

import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ValidationInfo


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
                Path(value).open("rb").close()
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
