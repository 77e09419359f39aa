"""nginx with scorer's Lua and a picker that does everything wrong that one can."""

import asyncio
import json
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integrations.nginx_rig import NGINX, ROOT, TEMP, Engine, Nginx, event_loop, until
from tests.integrations.picker import blackhole
from tests.system.conftest import free_port

pytestmark = pytest.mark.system

BUDGET = 0.1
"""Seconds that a picker which is broken may add to a request."""


class Picker:
    """Answers ``/pick`` with ``answer`` after ``delay``; None is never. Anything else is a 404."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answer: bytes | None = None
        self.delay = 0.0
        self.asked = 0
        self._loop = loop
        self._server: asyncio.Server | None = None
        self.port = free_port()

    def start(self) -> None:
        """Listen."""
        listening = asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)

    def stop(self) -> None:
        """Refuse connections."""

        async def close() -> None:
            if self._server:
                self._server.close()
            self._server = None

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            picks = head.startswith(b"GET /pick")
            self.asked += picks
            await asyncio.sleep(self.delay)
            if picks and self.answer is None:
                await reader.read()
            writer.write(self.answer or b"" if picks else http(404, b"{}"))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        writer.close()


def http(status: int, body: bytes) -> bytes:
    """Return an answer after which the connection is closed."""
    return b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (
        status, len(body),
    ) + body  # fmt: skip


@dataclass
class Rig:
    """nginx, the picker, two engines."""

    nginx: Nginx
    picker: Picker
    engines: list[Engine]

    def right(self) -> bytes:
        """Return the answer of a picker that works."""
        one, two = (engine.target for engine in self.engines)
        return http(200, pick(one, [two]))


def pick(target: object, alternates: object) -> bytes:
    """Return the body of a pick."""
    fields = {"target": target, "alternates": alternates, "pick_id": "1x", "pool": "chat"}
    return json.dumps(fields).encode()


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("nginx")
    with event_loop() as loop:
        engines = [Engine(loop) for _ in range(2)]
        picker = Picker(loop)
        nginx = None
        try:
            nginx = Nginx(folder, "lua.conf", {
                "/opt/scorer": str(ROOT),
                "127.0.0.1:9808": f"127.0.0.1:{picker.port}",
                '"10.0.0.1:8000", "10.0.0.2:8000"': ", ".join(f'"{e.target}"' for e in engines),
                "127.0.0.1:9145": f"127.0.0.1:{free_port()}",
                "worker_processes 2;": "worker_processes 1;",
            })  # fmt: skip
            yield Rig(nginx, picker, engines)
        finally:
            if nginx:
                nginx.close()
            picker.stop()
            for engine in engines:
                engine.stop()


WRONG = {
    "refuses": (0.0, b"refuse"),
    "drops connections": (0.0, b"drop"),
    "never answers": (0.0, None),
    "answers after 5 s": (5.0, http(200, b"{}")),
    "answers 500": (0.0, http(500, b'{"errorType":"internal"}')),
    "answers half a JSON": (0.0, http(200, b'{"target":"127.0.0.1:')),
    "answers less than it says": (0.0, http(200, b"{}" * 200)[:-300]),
    "answers another JSON": (0.0, http(200, b'[1, 2, {"target": 3}]')),
    "speaks no HTTP": (0.0, b"\x15\x03\x01\x00\x02\x02\x16\r\n\r\n"),
    "names a target that is none": (0.0, http(200, pick("127.0.0.1:1", []))),
    "names a target by name": (0.0, http(200, pick("localhost:8000", ["engine:1"]))),
    "names no pool": (
        0.0,
        http(200, b'{"target":"127.0.0.1:1","alternates":["127.0.0.1:2"],"pick_id":"1x"}'),
    ),
    "names no text": (0.0, http(200, pick("127.0.0.1:1", [7, None, {}]))),
    "has no target": (0.0, http(503, b'{"errorType":"no_target","error":"none"}')),
}


def durations(rig: Rig) -> list[float]:
    """Return how many seconds each of fifty requests takes, all of which are answered."""
    took = []
    for _ in range(50):
        started = time.monotonic()
        status, body = rig.nginx.post()
        took.append(time.monotonic() - started)
        assert (status, body.endswith(b"data: [DONE]\n\n")) == (200, True)
    return took


@pytest.mark.parametrize("wrong", WRONG)
def test_a_broken_picker_costs_no_request_and_little_time(rig: Rig, wrong: str):
    """Fifty requests are answered, in a little more time than others; then it is asked again."""
    # On a busy machine one request may take long by itself: of several rounds one must be quick.
    assert any(quick(rig, *WRONG[wrong]) for _ in range(4))
    faults = ("failed to run", "thread aborted", "attempt to", "index is nil")
    lines = rig.nginx.log.splitlines()
    assert [line for line in lines if any(fault in line for fault in faults)] == []


def quick(rig: Rig, delay: float, answer: bytes | None) -> bool:
    """Return whether a picker that breaks costs little time, and be sure that it is asked later."""
    works(rig)
    usual = durations(rig)
    rig.picker.delay, rig.picker.answer = delay, answer
    if answer in {b"refuse", b"drop"}:
        rig.picker.stop()
    with blackhole(rig.picker.port) if answer == b"drop" else nullcontext():
        took = durations(rig)
    rig.picker.stop()
    works(rig)
    usual += durations(rig)
    rig.picker.stop()
    longest = statistics.quantiles(took, n=50)[-1] < max(usual) + 2 * BUDGET
    return longest and statistics.median(took) < statistics.median(usual) + BUDGET / 2


def works(rig: Rig) -> None:
    """Let the picker do its work, and wait until nginx asks it and goes by what it says."""
    rig.picker.delay, rig.picker.answer = 0.0, rig.right()
    rig.picker.start()
    rig.engines[0].behave()

    def asked() -> bool:
        before = rig.picker.asked
        assert rig.nginx.post()[0] == 200
        return rig.picker.asked > before and len(rig.engines[0].seen) > 0

    until(asked)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('daemon = "127.0.0.1:9808"', 'daemon = "scorer:9808"', "daemon must be an IP address"),
        ('daemon = "127.0.0.1:9808"', 'daemon = "unix:s"', "or unix:/run/scorer/scorer.sock"),
        ('daemon = "127.0.0.1:9808",', "", "daemon must be an IP address"),
        ('pool = "chat"', 'pol = "chat"', "unknown option pol"),
        ('pool = "chat"', "pool = 3", "pool must be a string, got number"),
        (
            '"10.0.0.2:8000"',
            '"engine-2:8000"',
            "targets must be IP addresses and ports, got engine",
        ),
        ("lua_shared_dict scorer 8m;", "", "there is no lua_shared_dict scorer"),
        ("/opt/scorer/integrations/lua", "/nowhere", "module 'p2c' not found"),
    ],
)
def test_a_mistake_is_named_at_the_start(tmp_path: Path, old: str, new: str, said: str):
    """Nginx does not start and says which option is wrong."""
    text = (ROOT / "examples" / "nginx" / "lua.conf").read_text()
    temp = "".join(f" {name}_temp_path {tmp_path}/{name};" for name in TEMP)
    for before, after in {
        old: new,
        "/opt/scorer": str(ROOT),
        "user www-data;": "",
        "pid /run/nginx.pid;": f"pid {tmp_path}/pid;",
        "/var/log/nginx/error.log": f"{tmp_path}/error.log",
        "\nhttp {": "\nhttp {" + temp,
        "listen 8080;": f"listen 127.0.0.1:{free_port()};",
    }.items():
        assert before in text
        text = text.replace(before, after)
    path = tmp_path / "nginx.conf"
    path.write_text(text)
    command = [NGINX, "-g", "daemon off;", "-c", str(path), "-e", str(tmp_path / "error.log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode != 0
    assert said in done.stderr
