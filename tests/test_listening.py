"""Unix sockets: who may connect, whose file makes way, and whose file is taken away."""

import contextlib
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scorer.listening import ListenError, UnixListener, listen_unix

MODE = 0o660

Listen = Callable[..., UnixListener]


@pytest.fixture
def listening() -> Iterator[Listen]:
    """Return a function that listens at a path; what is still open is closed at the end."""
    made: list[UnixListener] = []

    def listen(path: Path, mode: int = MODE) -> UnixListener:
        listener = listen_unix(str(path), mode)
        assert listener is not None
        made.append(listener)
        return listener

    yield listen
    for each in made:
        each.sock.close()


def refusal(path: Path) -> str:
    """Return why there is no listening at a path."""
    with pytest.raises(ListenError) as refused:
        listen_unix(str(path), MODE)
    return str(refused.value).removeprefix(f"cannot listen on unix:{path}: ")


def connects(path: Path) -> bool:
    """Return whether somebody listens at a path."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def left_behind(path: Path, kind: socket.SocketKind = socket.SOCK_STREAM) -> None:
    """Leave a socket at a path as a process that was killed does."""
    with socket.socket(socket.AF_UNIX, kind) as sock:
        sock.bind(str(path))


def test_no_path_is_no_listener() -> None:
    """What is not configured is not there."""
    assert listen_unix("", MODE) is None


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_file_has_the_mode_that_was_asked_for(
    tmp_path: Path, listening: Listen, mode: int, umask: int
) -> None:
    """Whatever the process's own is, which stays as it was."""
    before = os.umask(umask)
    try:
        listening(tmp_path / "s", mode)
    finally:
        left = os.umask(before)
    assert left == umask
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == mode


def test_file_never_had_another_mode(
    tmp_path: Path, listening: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may connect in between: it is right before anything else can be done to it."""
    modes = []
    bind = socket.socket.bind

    def bind_and_look(sock: socket.socket, path: str) -> None:
        bind(sock, path)
        modes.append(stat.S_IMODE(Path(path).stat().st_mode))

    monkeypatch.setattr(socket.socket, "bind", bind_and_look)
    listening(tmp_path / "s", 0o600)
    assert modes == [0o600]


def test_file_that_nobody_listens_on_makes_way(tmp_path: Path, listening: Listen) -> None:
    """A daemon that was killed could not take it away."""
    path = tmp_path / "s"
    left_behind(path)
    assert not connects(path)
    listening(path)
    assert connects(path)


def test_path_in_use_is_refused_and_stays_in_use(tmp_path: Path, listening: Listen) -> None:
    """A second daemon takes nothing away from the first."""
    path = tmp_path / "s"
    first = listening(path)
    assert refusal(path) == "Address already in use"
    assert connects(path)
    first.remove()
    assert not path.exists()


def test_path_of_somebody_who_is_behind_is_in_use(tmp_path: Path) -> None:
    """A queue that is full is no sign of death, and is not waited for."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        assert refusal(path) == "Address already in use"
    assert path.is_socket()


@pytest.mark.parametrize("kind", ["file", "folder", "pipe", "link", "nowhere"])
def test_what_is_no_socket_stays(tmp_path: Path, kind: str) -> None:
    """A typing mistake must not cost a file, nor lead to one elsewhere."""
    path, other = tmp_path / "s", tmp_path / "other"
    left_behind(other)
    {
        "file": lambda: path.write_text("precious"),
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
        "link": lambda: path.symlink_to(other),
        "nowhere": lambda: path.symlink_to(tmp_path / "nothing"),
    }[kind]()
    before = os.lstat(path)
    assert refusal(path) == "There is something that is no socket"
    assert os.lstat(path) == before
    assert other.is_socket()


def test_socket_of_another_kind_stays(tmp_path: Path) -> None:
    """One for datagrams, on which somebody listens, is in use as well."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(path))
        assert refusal(path) == "Protocol wrong type for socket"
    assert path.is_socket()


@pytest.mark.parametrize(
    ("path", "why"),
    [("missing/s", "There is no folder {}/missing"), ("file/s", "Not a directory")],
)
def test_folder_that_cannot_be_used_is_named(tmp_path: Path, path: str, why: str) -> None:
    """The socket's file is never there before, so that it is missing says nothing."""
    (tmp_path / "file").touch()
    assert refusal(tmp_path / path) == why.format(tmp_path)


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Be nobody, where tests are root's, whom no permission keeps out."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_what_permissions_forbid_is_named() -> None:
    """To put a file there, to find out whether somebody listens, to look at all."""
    with tempfile.TemporaryDirectory() as name:  # root's tmp_path lets nobody else in
        folder = Path(name)
        left_behind(folder / "others")
        (folder / "others").chmod(0o000)
        (folder / "hidden").mkdir(mode=0o000)
        folder.chmod(0o555)
        with ordinary_user():
            found = [refusal(folder / name) for name in ("s", "others", "hidden/s")]
        folder.chmod(0o755)
        assert found == ["Permission denied"] * 3
        assert (folder / "others").is_socket()


def test_file_of_another_is_not_taken_away(tmp_path: Path, listening: Listen) -> None:
    """Who took the path over, while this one was ending, keeps it."""
    path = tmp_path / "s"
    first = listening(path)
    path.unlink()
    listening(path)
    first.remove()
    assert connects(path)


def test_file_is_taken_away_once(
    tmp_path: Path, listening: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later its number may be that of another file, and is not looked at."""
    monkeypatch.setattr("scorer.listening._identity", lambda _: (1, 1))
    path = tmp_path / "s"
    first = listening(path)
    first.remove()
    assert not path.exists()
    listening(path)
    first.remove()
    assert connects(path)
