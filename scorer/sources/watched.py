"""Files that others rewrite while we run: read again when they change, and only then."""

import os
import threading

from scorer.config.files import check_regular, read_file

Signature = tuple[int, int, int]
"""What tells one version of a file from another: inode, size, time of change in ns."""


def signature(path: str) -> Signature:
    """Return what the file looks like from outside; OSError when it cannot be read.

    An atomic replacement has another inode, a rewrite another time. What is no regular
    file is refused here, before anybody waits for it to be opened.
    """
    seen = os.stat(path)  # noqa: PTH116 - called for every request
    check_regular(seen)
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


class WatchedFile:
    """The content of a file, as it is at the moment; any thread may read it."""

    def __init__(self, path: str) -> None:
        """Read nothing yet."""
        self.path = path
        self._lock = threading.Lock()
        self._known: tuple[Signature, bytes] | None = None

    def read(self) -> bytes:
        """Return the content; OSError when it cannot be read."""
        with self._lock:
            seen = signature(self.path)
            if self._known is None or self._known[0] != seen:
                self._known = seen, read_file(self.path)
            return self._known[1]
