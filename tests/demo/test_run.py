import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from scorer.config import load_config
from scorer.demo.run import config_text, run_demo, welcome
from tests.system.conftest import NAP, free_port

ANY_PORT = "127.0.0.1:0"


@contextmanager
def demo(*arguments: str, **environment: str):
    """Run ``scorer demo`` for the length of a ``with`` block; its output is one pipe."""
    command = [sys.executable, "-m", "scorer", "demo", "--web.listen-address", ANY_PORT]
    with subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def read_until(process, text: str) -> str:
    """Return the first line of the output that has ``text`` in it."""
    for line in process.stdout:
        if text in line:
            return line
    pytest.fail(f"the demo ended without saying {text!r}")


@pytest.fixture(scope="module")
def output() -> tuple[int, str]:
    """Run the demo for 22 seconds; return its exit code and all it printed."""
    with demo("--duration", "22s") as process:
        text, _ = process.communicate(timeout=90)
        return process.returncode, text


def children_of(pid: int) -> list[int]:
    """Return the processes that a process started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    """Whether a process goes on; one that nobody has asked for its exit code does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def scores(text: str, engine: str) -> list[float]:
    """Return the scores of an engine in the order of the reports."""
    return [
        float(found) for found in re.findall(rf"^  {engine} +([\d.]+) [█·]", text, re.MULTILINE)
    ]


@pytest.mark.system
def test_the_demo_ends_by_itself_with_0(output):
    """A duration is a clean stop."""
    assert output[0] == 0


@pytest.mark.system
def test_the_demo_says_where_to_look(output):
    """Status page, metrics and pick, at the address that was found free."""
    pattern = r"http://(127\.0\.0\.1:\d+)/\n.*http://\1/metrics\n.*'http://\1/pick\?"
    assert re.search(pattern, output[1])


@pytest.mark.system
@pytest.mark.parametrize("engine", ["engine 1", "engine 2", "engine 3", "engine 4"])
def test_every_engine_is_reported_every_two_seconds(output, engine):
    """Eight reports at least in 22 seconds."""
    assert len(scores(output[1], engine)) >= 8


@pytest.mark.system
def test_scores_move(output):
    """The engine that gets the documents loses at least 10 points."""
    seen = scores(output[1], "engine 3")
    assert max(seen) - min(seen) >= 10


@pytest.mark.system
def test_events_are_told(output):
    """The reader learns why the score falls."""
    assert re.search(
        r"engine 3 \(127\.0\.0\.1:\d+\) gets a pile of long documents behind the scorer's back",
        output[1],
    )


@pytest.mark.system
def test_no_request_is_lost(output):
    """Every request of the client got a pick and an answer."""
    assert not re.search(r"broken off|failed|without a pick|not sent", output[1])


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything_with_0(number):
    """The daemon's port is free again when the demo has ended."""
    port = free_port()
    with demo("--web.listen-address", f"127.0.0.1:{port}") as process:
        assert f":{port}/" in read_until(process, "status page")
        process.send_signal(number)
        process.communicate(timeout=60)
    with socket.socket() as probe:
        assert (process.returncode, probe.connect_ex(("127.0.0.1", port)) != 0) == (0, True)


@pytest.mark.system
def test_a_daemon_that_dies_ends_the_demo_with_1():
    """It says so and shows the end of the daemon's log."""
    with demo() as process:
        read_until(process, "Ctrl-C")
        [daemon] = children_of(process.pid)
        os.kill(daemon, signal.SIGKILL)
        text, _ = process.communicate(timeout=60)
    assert (process.returncode, "the daemon ended with exit code -9" in text) == (1, True)


@pytest.mark.system
def test_nothing_outlives_a_demo_that_is_killed(tmp_path):
    """Whoever kills the demo gets rid of the daemon too, within three seconds."""
    with demo(TMPDIR=str(tmp_path)) as process:
        read_until(process, "Ctrl-C")
        children = children_of(process.pid)
        process.kill()
        naps = int(3.0 / NAP)
        while running := [child for child in children if is_running(child)]:
            assert naps, f"{running} are still there"
            time.sleep(NAP)
            naps -= 1
        process.communicate(timeout=10)
    assert children


@pytest.mark.system
def test_a_full_disk_ends_the_demo_with_1():
    """One line says why."""
    command = [sys.executable, "-m", "scorer", "demo", "--web.listen-address", ANY_PORT]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (
        1,
        "scorer: cannot write to standard output: No space left on device\n",
    )


@pytest.mark.system
def test_a_folder_with_the_name_of_the_package_does_no_harm(tmp_path):
    """Such as a clone, seen from the folder that it is in."""
    (tmp_path / "scorer").mkdir()
    (tmp_path / "scorer" / "__init__.py").touch()
    flags = ("--web.listen-address", ANY_PORT, "--engines", "2", "--duration", "1s")
    command = [sys.executable, "-P", "-m", "scorer", "demo", *flags]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.system
def test_a_reader_that_leaves_ends_the_demo_quietly():
    """As after `scorer demo | head -1`."""
    with demo() as process:
        read_until(process, "starting")
        process.stdout.close()
        assert process.wait(timeout=60) == 0


def test_an_address_in_use_ends_the_demo_with_1(capsys):
    """Before anything is started, with the address and what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code = run_demo(listen=address, duration=1.0, rate=1.0, engines=2)
    assert code == 1
    assert f"cannot listen on {address}: Address already in use" in capsys.readouterr().err


def test_the_configuration_is_one_the_daemon_accepts(tmp_path):
    """One pool with the engines as its targets, and Envoy may ask for them."""
    path = tmp_path / "scorer.yml"
    path.write_text(config_text(["127.0.0.1:1001", "127.0.0.1:1002"]))
    assert load_config(path).exporters.envoy_eds.enabled
    [pool] = yaml.safe_load(path.read_text())["pools"]
    assert pool["static_configs"] == [{"targets": ["127.0.0.1:1001", "127.0.0.1:1002"]}]


def test_the_welcome_names_every_engine(tmp_path):
    """So that their pages can be looked at."""
    text = "\n".join(welcome("127.0.0.1:9808", ["h:1", "h:2"], tmp_path / "daemon.log"))
    assert ("http://h:1/metrics" in text, "http://h:2/metrics" in text) == (True, True)
