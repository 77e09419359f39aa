"""Targets in files, as Prometheus reads them: looked at every second, read when they change.

A deleted file that a wildcard matched takes its targets with it. A file that is named
without a wildcard and is not there is a failure, and so is a folder that is gone.
"""

import glob
import time
from collections.abc import Callable
from pathlib import Path

from scorer.config.discovery import FileSdConfig
from scorer.config.files import read_file
from scorer.sources.discovery.answers import Answer, Failure, LabelSets
from scorer.sources.discovery.groups import GroupsError, parse_json, parse_yaml
from scorer.sources.watched import Signature, signature

LOOK_EVERY = 1.0
"""Seconds between two looks; what changed between them is seen a second later at most."""
FILEPATH = "__meta_filepath"


class FileSd:
    """Reads the files of one ``file_sd_configs`` entry."""

    interval = retry = LOOK_EVERY

    def __init__(self, config: FileSdConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = ", ".join(config.files)
        self._config = config
        self._clock = clock
        self._matched: dict[str, list[str]] = {}
        self._known: dict[str, tuple[Signature, float, LabelSets | Failure]] = {}

    def ask(self) -> Answer:
        """Return the targets in each file."""
        answer: dict[str, LabelSets | Failure] = {}
        for pattern in self._config.files:
            for path, failure in self._paths(pattern):
                answer.setdefault(path, failure or self._read(path))
        self._known = {path: known for path, known in self._known.items() if path in answer}
        return answer

    def close(self) -> None:
        """Hold nothing."""

    def _paths(self, pattern: str) -> list[tuple[str, Failure | None]]:
        """Return the files of a pattern; those it had, when its folder cannot be looked into."""
        if not glob.has_magic(pattern):
            return [(pattern, None)]
        folder = Path(pattern).parent
        try:
            if not glob.has_magic(str(folder)):
                next(folder.iterdir(), None)
        except OSError as error:
            failure = Failure(f"{folder} cannot be read: {error.strerror}")
            return [(path, failure) for path in self._matched.get(pattern) or [pattern]]
        found = self._matched[pattern] = sorted(glob.glob(pattern))  # noqa: PTH207 - may be absolute
        return [(path, None) for path in found]

    def _read(self, path: str) -> LabelSets | Failure:
        try:
            seen = signature(path)
            known = self._known.get(path)
            expired = known and self._clock() - known[1] > self._config.refresh_interval
            if known is None or expired or known[0] != seen:
                content = read_file(path)
                known = self._known[path] = seen, self._clock(), _parsed(path, content)
        except OSError as error:
            self._known.pop(path, None)
            return Failure(f"{path} cannot be read: {error.strerror}")
        return known[2]


def _parsed(path: str, content: bytes) -> LabelSets | Failure:
    if not content.strip():
        return Failure(f"{path} is empty: no target is written []")
    parse = parse_json if path.lower().endswith(".json") else parse_yaml
    try:
        found = parse(content)
    except GroupsError as error:
        return Failure(f"{path} {error}")
    return tuple({**labels, FILEPATH: path} for labels in found)
