"""The state file: replaced whole or not at all, and read by nobody who trusts it."""

import os
import stat
import threading
from pathlib import Path

import pytest

from scorer import statefile
from scorer.statefile import StateFileError, Writer
from tests.waited import Waited

LINES = [b'{"a":1}\n', b'{"b":2}\n']


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return where a file may be."""
    return str(tmp_path / "state.json")


def test_what_is_written_can_be_read(path: str) -> None:
    """Line by line, and it is the version that was written."""
    mark = statefile.write(path, LINES)
    assert statefile.read(path) == ([b'{"a":1}', b'{"b":2}'], mark)
    assert statefile.mark(path) == mark


def test_only_the_owner_may_read_it(path: str) -> None:
    """Notes and addresses are nobody else's, whatever the umask says."""
    before = os.umask(0)
    try:
        statefile.write(path, LINES)
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


def test_failed_write_leaves_the_file_of_before(path: str) -> None:
    """And nothing beside it."""
    statefile.write(path, LINES)

    def lines():
        yield b"x\n"
        raise OSError(28, "No space left on device")

    with pytest.raises(StateFileError, match="cannot be written: No space left on device"):
        statefile.write(path, lines())
    assert statefile.read(path)[0] == [b'{"a":1}', b'{"b":2}']
    assert list(Path(path).parent.iterdir()) == [Path(path)]


def test_too_much_is_not_written(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that could not be read again would be worth nothing."""
    monkeypatch.setattr(statefile, "MOST_BYTES", 10)
    with pytest.raises(StateFileError, match="would be larger than 10 bytes"):
        statefile.write(path, LINES)
    assert not Path(path).exists()


def test_symbolic_link_is_followed(path: str, tmp_path: Path) -> None:
    """The link stays, its target is replaced."""
    (tmp_path / "elsewhere").mkdir()
    Path(path).symlink_to(tmp_path / "elsewhere" / "real.json")
    statefile.write(path, LINES)
    assert Path(path).is_symlink()
    assert (tmp_path / "elsewhere" / "real.json").read_bytes() == b"".join(LINES)


def test_fifo_is_neither_read_nor_replaced(path: str) -> None:
    """Neither waits for somebody at its other end."""
    os.mkfifo(path)
    for use in (lambda: statefile.read(path), lambda: statefile.write(path, LINES)):
        with pytest.raises(StateFileError, match="is not a regular file"):
            use()
    assert stat.S_ISFIFO(Path(path).stat().st_mode)


def test_directory_is_not_a_file(tmp_path: Path) -> None:
    """It is said, not raised as something else."""
    for use in (statefile.read, lambda path: statefile.write(path, LINES)):
        with pytest.raises(StateFileError, match="is not a regular file"):
            use(str(tmp_path))


def test_huge_file_is_not_read(path: str) -> None:
    """By its size, before any of it is in memory."""
    with Path(path).open("wb") as file:
        file.truncate(statefile.MOST_BYTES + 1)
    with pytest.raises(StateFileError, match="is larger than 67108864 bytes"):
        statefile.read(path)


def test_missing_file_is_told_from_an_unusable_one(path: str) -> None:
    """The first is how every daemon begins."""
    with pytest.raises(FileNotFoundError):
        statefile.read(path)


@pytest.mark.parametrize("path", ["/proc/self/mem", "/dev/null/x", "/nonexistent/state.json"])
def test_place_that_cannot_be_written_is_told(path: str) -> None:
    """With a reason of the system's."""
    with pytest.raises(StateFileError, match=r"cannot be written: |is not a regular file"):
        statefile.write(path, LINES)


@pytest.mark.parametrize("line", [b"", b"{", b"\xff\xfe\x00", b"[" * 100_000, b"9" * 5000])
def test_line_that_is_no_json_is_refused(line: bytes) -> None:
    """Whatever the parser makes of it."""
    with pytest.raises(StateFileError, match="is not JSON"):
        statefile.decoded(line)


def test_leftovers_of_a_killed_daemon_are_removed(path: str, tmp_path: Path) -> None:
    """Old ones only: another daemon may be at a new one."""
    old, new, other = (tmp_path / f".{name}.tmp" for name in ("state.json.a", "state.json.b", "x"))
    for each in (old, new, other):
        each.touch()
    os.utime(old, (1.0, 1.0))
    os.utime(other, (1.0, 1.0))
    statefile.tidy(path)
    assert (old.exists(), new.exists(), other.exists()) == (False, True, True)


def test_disk_that_hangs_is_not_waited_for() -> None:
    """Whoever reads gets a reason in time."""
    release = threading.Event()
    with pytest.raises(StateFileError, match=r"cannot be read within 0\.05 seconds"):
        statefile.within(0.05, release.wait)
    release.set()


def test_error_of_a_read_is_its_callers() -> None:
    """It comes out as if there were no thread."""
    with pytest.raises(FileNotFoundError):
        statefile.within(5.0, lambda: statefile.read("/nonexistent"))


def test_writer_writes_when_asked() -> None:
    """And once more at its end."""
    written = threading.Semaphore(0)
    writer = Writer(written.release)
    assert writer.ask()
    assert written.acquire(timeout=5)
    assert writer.finish(5.0)
    assert written.acquire(timeout=5)


def test_write_that_hangs_holds_up_nobody() -> None:
    """Asking again says so at once, and the end is not put off."""
    release, started = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        release.wait()

    writer = Writer(hang)
    writer.ask()
    assert started.wait(5)
    waited = Waited()
    assert not writer.ask()
    assert not writer.finish(0.05)
    assert waited.seconds < 1.0
    release.set()
