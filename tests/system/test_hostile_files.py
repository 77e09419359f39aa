"""The programs with files, streams and arguments that nobody means well."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.invoked import invoked
from tests.system.conftest import DaemonProcess, FakeEngine, free_port, pool_of
from tests.waited import waited_to_end

pytestmark = pytest.mark.system

Engines = Callable[[], FakeEngine]
Daemons = Callable[..., DaemonProcess]

PAGES = Path(__file__).parents[1] / "data" / "expositions"
PAGE = str(PAGES / "vllm" / "v1-latest.prom")
ONE_POOL = "pools: [{name: chat, static_configs: [{targets: ['127.0.0.1:1']}]}]"
LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghijklmnop", "bcdefghijklmnopq", strict=True)
)


def scorer(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, which must come soon."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        [sys.executable, "-m", "scorer", *arguments],
        text=True, timeout=120, check=False, **streams,
    )  # fmt: skip


def shell(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in which ``scorer`` is the program and ``$1`` the first argument."""
    function = f'scorer() {{ "{sys.executable}" -m scorer "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", function + script, "bash", *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def stop_soon(running: DaemonProcess) -> None:
    """Stop a daemon, which must wait for nothing, not for three seconds, and end with 0."""
    running.signal(signal.SIGTERM)
    assert waited_to_end(running.process) < 3.0
    assert running.process.returncode == 0


def becomes_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def becomes_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def becomes_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def becomes_laughs(path: Path) -> None:
    path.write_text(LAUGHS)


def becomes_brackets(path: Path) -> None:
    path.write_text("[" * 10_000)


@pytest.mark.parametrize(
    ("becomes", "problem"),
    [
        (becomes_pipe, "cannot be read: a pipe, not a regular file"),
        (becomes_device, "cannot be read: a device, not a regular file"),
        (becomes_folder, "cannot be read: Is a directory"),
        (becomes_laughs, "holds more than 100000 values"),
        (becomes_brackets, "is nested more than 50 levels deep"),
    ],
)
def test_reload_of_no_configuration_changes_nothing(
    engine: Engines, daemon: Daemons, becomes: Callable[[Path], None], problem: str
) -> None:
    """One line in the log; the daemon goes on, reloads when the file is good, and stops."""
    one, two = engine(), engine()
    running = daemon(pool_of(one)).ready()
    becomes(running.path)
    running.signal(signal.SIGHUP)
    running.until(lambda: "Configuration not reloaded" in running.log)
    [line] = [line for line in running.log.splitlines() if "not reloaded" in line]
    assert problem in line
    assert "Traceback" not in running.log
    assert running.get("/pick?format=text").text.strip() == one.target
    if running.path.is_dir():
        running.path.rmdir()
    running.path.unlink(missing_ok=True)
    running.write(pool_of(two))
    running.signal(signal.SIGHUP)
    running.until(lambda: "Configuration reloaded" in running.log)
    stop_soon(running)


def test_reload_that_hangs_holds_up_neither_picks_nor_the_end(tmp_path: Path) -> None:
    """A file on a dead mount: its reader waits in the kernel, and nobody can wake it."""
    path = tmp_path / "scorer.yml"
    path.write_text(ONE_POOL)
    address = f"127.0.0.1:{free_port()}"
    hangs = (
        "import time, scorer.cli, scorer.daemon\n"
        "def load(_):\n    print('HANGS', flush=True)\n    time.sleep(1000)\n"
        "scorer.daemon.load_config = load\nscorer.cli.main()"
    )
    arguments = ["run", "--config.file", str(path), "--web.listen-address", address]
    with subprocess.Popen(
        [sys.executable, "-c", hangs, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        wait_for(address)
        process.send_signal(signal.SIGHUP)
        assert process.stdout is not None
        assert process.stdout.readline() == "HANGS\n"
        process.send_signal(signal.SIGHUP)
        assert ask(address, "/-/healthy") == 200
        process.send_signal(signal.SIGTERM)
        assert waited_to_end(process) < 3.0
        assert process.returncode == 0


def test_pipes_for_secrets_and_targets_hold_up_nothing(
    engine: Engines, daemon: Daemons, tmp_path: Path
) -> None:
    """Token, CA, password, targets and feedback token: each is told, none is waited for."""
    names = ("token", "ca.pem", "password", "targets.json", "feedback")
    token, ca, password, targets, feedback = (str(tmp_path / name) for name in names)
    for name in names:
        os.mkfifo(tmp_path / name)
    one = engine()
    keyed = {"authorization": {"credentials_file": token}}
    trusting = {"tls_config": {"ca_file": ca}, "scheme": "https"}
    named = {"basic_auth": {"username": "u", "password_file": password}}
    pools = [
        {**pool_of(one, **more)["pools"][0], "name": name}
        for name, more in {"good": {}, "token": keyed, "ca": trusting, "basic": named}.items()
    ]
    pools.append({"name": "files", "file_sd_configs": [{"files": [targets]}]})
    running = daemon({"pools": pools, "feedback": {"token_file": feedback}})
    running.until(lambda: running.get("/api/v1/targets").json()["data"])
    pipe = "cannot be read: a pipe, not a regular file"

    def failures() -> dict[str, str]:
        listed = running.get("/api/v1/targets").json()["data"]
        return {each["pool"]: (each["last_scrape"] or {}).get("detail", "") for each in listed}

    running.until(lambda: all(pipe in failures()[name] for name in ("token", "ca", "basic")))
    running.until(lambda: f"{targets} {pipe}" in running.log)
    running.until(lambda: running.get("/pick?pool=good").status_code == 200)
    answer = running.http.post(f"{running.url}/feedback", json={}, timeout=5)
    assert answer.status_code == 401
    assert scorer("check-config", str(running.path)).stderr.count(pipe) == 4
    stop_soon(running)


def test_closed_standard_streams_are_not_taken_for_sockets(tmp_path: Path) -> None:
    """With 0 to 2 closed, what libraries print must not end up in somebody's connection."""
    path = tmp_path / "scorer.yml"
    path.write_text(ONE_POOL)
    address = f"127.0.0.1:{free_port()}"
    command = f'exec "{sys.executable}" -m scorer run --config.file "$1" --web.listen-address "$2"'
    arguments = ["bash", "-c", f"{command} <&- >&- 2>&-", "bash", str(path), address]
    with subprocess.Popen(arguments) as process:
        wait_for(address)
        streams = [str(Path(f"/proc/{process.pid}/fd/{number}").readlink()) for number in range(3)]
        process.send_signal(signal.SIGTERM)
        assert waited_to_end(process) < 5.0
        assert (process.returncode, streams) == (0, ["/dev/null"] * 3)


def wait_for(address: str) -> None:
    """Wait until a daemon answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            ask(address, "/-/healthy")
        except requests.ConnectionError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def ask(address: str, path: str) -> int:
    """Return the status of an answer."""
    with requests.Session() as session:
        session.trust_env = False
        return session.get(f"http://{address}{path}", timeout=5).status_code


@pytest.mark.parametrize(
    ("script", "code", "printed"),
    [
        ("scorer check-config $1", 0, "SUCCESS"),
        ("scorer check-config <(cat $1)", 0, "SUCCESS"),
        ("cat $1 | scorer check-config /dev/stdin", 0, "SUCCESS: /dev/stdin: 1 pool, 1 target"),
        ("scorer check-config $1 >&-", 0, ""),
        ("scorer check-config $1 <&- >&- 2>&-", 0, ""),
        ("scorer check-config $1 > /dev/full", 1, "cannot write to standard output: No space"),
        ("scorer check-config /dev/zero 2> /dev/full", 2, ""),
        ("scorer check-config /dev/zero", 2, "cannot be read: a device, not a regular file"),
        ("scorer run --config.file /dev/null", 2, "cannot be read: a device, not a regular file"),
        ("scorer run --config.file ''", 2, "cannot be read: Is a directory"),
        ("scorer doctor $2 > /dev/full", 1, "cannot write to standard output: No space"),
        ("scorer doctor -o json $2 $2 > /dev/full", 1, "cannot write to standard output: No"),
        ("scorer doctor $2 >&-", 0, ""),
        ("scorer doctor <(cat $2)", 0, "vLLM V1"),
        ("scorer doctor - <&-", 1, "target: standard input is closed"),
        ("scorer doctor $'\\xff'", 1, "no such file, and as an address"),
        ("scorer doctor 'http://[::1'", 1, "target: Invalid IPv6 URL"),
        ("set -o pipefail; scorer doctor -o json $3 | head -1", 1, "["),
        ("set -o pipefail; scorer doctor $3 | true", 1, ""),
    ],
)
def test_command_ends_with_a_line_at_most(
    tmp_path: Path, script: str, code: int, printed: str
) -> None:
    """Closed streams, full disks, pipes and devices: an exit code and no traceback."""
    path = tmp_path / "scorer.yml"
    path.write_text(ONE_POOL)
    done = shell(script, str(path), PAGE, str(PAGES))
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert len(done.stderr.splitlines()) <= 1
    assert printed in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["doctor", "--timeout", "1000000000d", "a:1"], "must be at most 366d"),
        (["doctor", "--timeout", "30d", "a:1"], "must be at least 1ms and at most 1h"),
        (["doctor", "--timeout", "0s", "a:1"], "must be at least 1ms and at most 1h"),
        (["demo", "--rate", "nan"], "is not a number"),
        (["demo", "--rate", "inf"], "is not in the range"),
        (["demo", "--duration", "1" + "0" * 5_000 + "s"], "must be at most 366d"),
        (["demo", "--web.listen-address", "a..b:80"], "must be host:port"),
        (["run", "--web.listen-address", "٣:٣"], "must be host:port"),
        (["run", "--web.listen-address", "localhost:80\n"], "must be host:port"),
        (["run", "--web.listen-address", "[::1]:٣"], "must be host:port"),
        (["run", "--web.listen-address", "x" * 64 + ":80"], "must be host:port"),
    ],
)
def test_argument_is_refused_with_its_rule(arguments: list[str], rule: str) -> None:
    """Bad usage is exit code 2 and names the option."""
    done = invoked(*arguments)
    assert done.returncode == 2
    assert re.search(rf"Error: Invalid value for '{arguments[1]}'.*", done.stderr)
    assert rule in done.stderr


def test_unknown_host_to_listen_on_is_a_line(tmp_path: Path) -> None:
    """A name that looks good and is nobody's is a runtime error."""
    path = tmp_path / "scorer.yml"
    path.write_text(ONE_POOL)
    done = scorer("run", "--config.file", str(path), "--web.listen-address", "nobody.invalid:80")
    [line] = done.stderr.splitlines()
    assert done.returncode == 1
    assert line.startswith("scorer: cannot listen on nobody.invalid:80: ")
