"""What stands where a configuration file should: whatever it is, nothing waits for it."""

import os
import socket
import threading
from pathlib import Path

import pytest

from scorer.config import load_config
from scorer.config.errors import ConfigError
from scorer.config.files import LARGEST, read_file
from tests.waited import Waited

ONE_POOL = "pools: [{name: chat, static_configs: [{targets: ['10.0.0.1:8000']}]}]"


def refusal(path: Path | str, patience: float = 0.0) -> str:
    """Return why a path cannot be read."""
    with pytest.raises(ConfigError) as error:
        load_config(path, patience)
    [problem] = error.value.problems
    return problem


def refusal_at_once(path: Path | str, patience: float = 0.0) -> str:
    """Return why a path cannot be read; nothing is waited for, not for a second."""
    waited = Waited()
    problem = refusal(path, patience)
    assert waited.seconds < 1
    return problem


def test_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe without a writer would hold a reload for ever."""
    os.mkfifo(tmp_path / "pipe")
    assert refusal_at_once(tmp_path / "pipe") == "cannot be read: a pipe, not a regular file"


def test_pipe_is_read_with_patience(tmp_path: Path) -> None:
    """At the start a configuration may come from another program."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=(ONE_POOL,))
    writer.start()
    assert load_config(path, patience=10).pools[0].name == "chat"
    writer.join()


def test_patience_ends(tmp_path: Path) -> None:
    """Whoever opens the other end and writes nothing, or not all, is given up."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert "whose writer does not come to an end" in refusal_at_once(path, patience=0.1)
    holder = os.open(path, os.O_RDWR)
    os.write(holder, b"pools: ")
    assert "whose writer does not come to an end" in refusal_at_once(path, patience=0.1)
    os.close(holder)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/random"])
def test_device_is_not_opened(path: str) -> None:
    """Neither one without an end nor one that waits."""
    assert refusal_at_once(path, patience=5) == "cannot be read: a device, not a regular file"


def test_socket_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket's name is no file's."""
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("s")
        assert refusal_at_once("s") == "cannot be read: a socket, not a regular file"


def test_name_with_nul_is_none() -> None:
    """It cannot come from the command line, but from a file that names files."""
    said = refusal_at_once("a\0b")
    assert said.startswith("cannot be read: ")
    assert "embedded null" in said


def test_largest_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte more than 1 MiB is not read, and a sparse terabyte not tried."""
    path = tmp_path / "large"
    path.write_bytes(b"#" * LARGEST)
    assert len(read_file(path)) == LARGEST
    assert refusal(path) == "is empty"
    monkeypatch.setattr(os, "read", None)
    os.truncate(path, LARGEST + 1)
    assert refusal(path) == "cannot be read: more than 1 MiB"
    os.truncate(path, 1 << 40)
    assert refusal(path) == "cannot be read: more than 1 MiB"


def test_file_that_grows_while_it_is_read() -> None:
    """A file without a size, as in /proc, is held to the limit too."""
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_file("/proc/self/maps", 10)


def test_link_to_itself(tmp_path: Path) -> None:
    """The system's own word for it."""
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot be read: Too many levels of symbolic links" in refusal_at_once(tmp_path / "loop")
