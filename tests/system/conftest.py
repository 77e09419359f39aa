"""The real daemon as a process, and fake engines that misbehave on demand."""

import contextlib
import fcntl
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

PAGE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} {running}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} {waiting}
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} {kv_cache}
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} {count}
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} {sum}
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} {count}
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} {tokens}
# TYPE process_start_time_seconds gauge
process_start_time_seconds {start_time}
"""
HEALTHY: dict[str, object] = {
    "running": 0, "waiting": 0, "kv_cache": 0.2, "count": 10, "sum": 1.0, "tokens": 1000,
    "start_time": 1000,
}  # fmt: skip

Answer = Callable[[BaseHTTPRequestHandler], None]


def page(**changes: object) -> str:
    """Return the text of a vLLM page, healthy but for ``changes``."""
    values = {**HEALTHY, **changes}
    return re.sub(r"\{(\w+)\}", lambda match: str(values[match[1]]), PAGE)


def send(
    handler: BaseHTTPRequestHandler,
    body: bytes,
    *,
    status: int = 200,
    length: int | None = None,
    **headers: str,
) -> None:
    """Answer with ``body``; ``headers`` are named with underscores for dashes."""
    handler.send_response(status)
    for name, value in {"content_type": "text/plain; version=0.0.4", **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)


def drip(handler: BaseHTTPRequestHandler) -> None:
    """Send the page one byte every 200 ms."""
    body = page().encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    for byte in body:
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()
        time.sleep(0.2)


class FakeEngine:
    """An HTTP server whose ``answer`` to every request can be replaced at any time."""

    def __init__(self) -> None:
        self.answer: Answer = lambda handler: send(handler, page().encode())
        self.scraped_at: list[float] = []
        self.released = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake.scraped_at.append(time.monotonic())
                try:
                    fake.answer(self)
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self._server.daemon_threads = True
        self.target = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def serves(self, text: str | None = None, **changes: object) -> None:
        """Answer with a page from here on."""
        body = (page(**changes) if text is None else text).encode()
        self.answer = lambda handler: send(handler, body)

    def hangs(self) -> None:
        """Accept requests and answer none of them."""
        self.answer = lambda _: self.released.wait(60) and None

    def close(self) -> None:
        """Stop; later connections are refused."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


NAP = 0.05
"""Seconds between two looks at what is waited for.

Waits are bounded by naps and not by the clock: on a busy machine one takes longer than it says,
as all else does.
"""


class DaemonProcess:
    """``scorer run`` on a free port."""

    program: tuple[str, ...] = ("-m", "scorer")
    """What Python runs."""

    def __init__(self, folder: Path, config: dict[str, Any], *flags: str) -> None:
        self.path = folder / "scorer.yml"
        self.log_path = folder / "scorer.log"
        self.write(config)
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}"
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.program, "run", "--config.file", str(self.path),
                 "--web.listen-address", address, *flags],
                stderr=log, stdout=log, env={**os.environ, "http_proxy": "http://127.0.0.1:1"},
            )  # fmt: skip
        self.http = requests.Session()
        self.http.trust_env = False
        weakref.finalize(self, self.http.close)

    def write(self, config: dict[str, Any]) -> None:
        """Write the configuration file."""
        self.path.write_text(yaml.safe_dump(config))

    @property
    def log(self) -> str:
        """Everything logged so far."""
        return self.log_path.read_text()

    def get(self, path: str, **kwargs: Any) -> requests.Response:
        """Return the answer to a GET."""
        return self.http.get(self.url + path, timeout=10, **kwargs)

    def target(self, name: str) -> dict[str, Any]:
        """Return what the API says of a target."""
        data: dict[str, Any] = self.get(f"/api/v1/targets/{name}").json()["data"]
        return data

    def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Return the first true value of ``condition``; fail after ``seconds`` of naps."""
        for _ in range(int(seconds / NAP)):
            try:
                if value := condition():
                    return value
            except requests.ConnectionError:
                assert self.process.poll() is None, self.log
            time.sleep(NAP)
        pytest.fail(f"did not happen within {seconds} s; the daemon's log:\n{self.log}")

    def ready(self) -> "DaemonProcess":
        """Wait until the daemon says that it is ready."""
        self.until(lambda: self.get("/-/ready").status_code == 200)
        return self

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def stop(self) -> int:
        """Stop with SIGTERM and return the exit code."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.process.wait(60)


PORTS = range(10_240, 32_000)
"""Ports that the system gives to nobody by itself, so that only other tests may want them."""

_given: set[int] = set()
_dice = random.SystemRandom()
_taken = os.open(
    Path(tempfile.gettempdir()) / f"scorer-test-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600
)
"""A file with a lock on the byte of each port that some process of tests has taken."""


def free_port() -> int:
    """Return a port that is free and that no test gets but this one, until its process ends.

    Tests run in several processes, and between this and listening there is time. A port on
    which nobody ever listens, or no more, refuses connections for as long.
    """
    while True:
        port = _dice.choice(PORTS)
        if port not in _given and _reserved(port):
            _given.add(port)
            return port


def _reserved(port: int) -> bool:
    """Reserve a port, for TCP and UDP; False when another process has it."""
    with (
        contextlib.suppress(OSError),
        socket.socket() as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
    ):
        fcntl.lockf(_taken, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        for sock in (tcp, udp):
            sock.bind(("127.0.0.1", port))
        return True
    return False


def pool_of(*engines: FakeEngine | str, **more: Any) -> dict[str, Any]:
    """Return a configuration with one pool ``chat`` of these engines or addresses."""
    targets = [engine if isinstance(engine, str) else engine.target for engine in engines]
    return {"pools": [{"name": "chat", "static_configs": [{"targets": targets}], **more}]}


@pytest.fixture
def engine() -> Iterator[Callable[[], FakeEngine]]:
    """Return a function that starts fake engines; all are stopped at the end."""
    started: list[FakeEngine] = []

    def start() -> FakeEngine:
        started.append(FakeEngine())
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Callable[..., DaemonProcess]]:
    """Return a function that starts daemons; all are stopped at the end."""
    started: list[DaemonProcess] = []

    def start(config: dict[str, Any], *flags: str) -> DaemonProcess:
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(DaemonProcess(folder, config, *flags))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait(5)
