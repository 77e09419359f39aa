"""Clients that mean no good, or are slow: a program that attacks a daemon for a while.

``python hostile.py PORT SECONDS [ATTACK...]`` makes the attacks below side by side and
prints what came of each as one JSON object. It is a process of its own, so that
measuring picks beside it is not measuring it.
"""

import contextlib
import json
import os
import random
import resource
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

PORT, SECONDS = int(sys.argv[1]), float(sys.argv[2])
BEGAN = time.monotonic()
PICK = b"GET /pick?pool=chat HTTP/1.1\r\nHost: x\r\n\r\n"
METRICS = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
BIG = 2 << 20
TLS_HELLO = bytes.fromhex("16030100f8010000f40303") + bytes(240)

results: dict[str, Any] = {}


def left() -> float:
    """Return the seconds that are left."""
    return SECONDS - (time.monotonic() - BEGAN)


def connect(buffer: int = 0) -> socket.socket:
    """Return a connection; ``buffer`` bounds what the kernel takes in unread."""
    sock = socket.socket()
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.settimeout(20)
    sock.connect(("127.0.0.1", PORT))
    return sock


def status(sock: socket.socket) -> int:
    """Return the status of the next answer, 0 when the connection ends without one."""
    got = b""
    with contextlib.suppress(OSError):
        while b"\r\n" not in got and (more := sock.recv(4096)):
            got += more
    return int(got.split()[1]) if got.startswith(b"HTTP/1.1 ") else 0


def asked(request: bytes) -> int:
    """Return the status of the answer to a request."""
    with connect() as sock:
        with contextlib.suppress(OSError):
            sock.sendall(request)
        return status(sock)


def until_cut(sock: socket.socket, step: Callable[[], object], pause: float) -> float | None:
    """Do something again and again; return the second of the connection's end, None without."""
    began = time.monotonic()
    while left() > 0:
        try:
            step()
        except TimeoutError:
            pass
        except OSError:
            return time.monotonic() - began
        time.sleep(pause)
    return None


def ended(sock: socket.socket) -> bool:
    """Return whether the other side has ended the connection."""
    sock.setblocking(False)
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def idle() -> dict[str, int]:
    """Open as many connections as the limit allows, up to five thousand, and keep quiet."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    socks = [connect() for _ in range(min(5_000, hard - 1000))]
    time.sleep(max(0.0, left()))
    return {"opened": len(socks), "ended": sum(map(ended, socks))}


def flood(request: bytes, read: int) -> list[dict[str, Any]]:
    """Send requests as fast as they are taken, on eight connections; read little or nothing."""
    found: list[dict[str, Any]] = [{"sent": 0, "cut": None} for _ in range(8)]

    def one(mine: dict[str, Any]) -> None:
        with connect(4096) as sock:
            sock.settimeout(0.05)
            block = request * (65536 // len(request))

            def step() -> None:
                if read:
                    with contextlib.suppress(TimeoutError):
                        sock.recv(read)
                mine["sent"] += sock.send(block)

            mine["cut"] = until_cut(sock, step, 0.001)

    threads = [threading.Thread(target=one, args=(each,)) for each in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def head_floods() -> dict[str, list[int]]:
    """Send heads without end: many fields, small fields, one huge field, a huge URL."""
    start = b"GET /pick HTTP/1.1\r\nHost: x\r\n"
    kinds = {
        "fields": (start, b"X-Flood: " + b"y" * 1000 + b"\r\n"),
        "small": (start, b"a:\r\n" * 200),
        "one": (start + b"X-Flood: ", b"y" * 1000),
        "name": (start, b"y" * 1000),
        "url": (b"GET /pick?", b"y" * 1000),
    }

    def one(start: bytes, more: bytes) -> int:
        with connect() as sock:
            with contextlib.suppress(OSError):
                sock.sendall(start)
                for _ in range(1000):
                    sock.sendall(more)
            return status(sock)

    return {name: [one(*kind) for _ in range(20)] for name, kind in kinds.items()}


def dripping() -> dict[str, list[float | None]]:
    """Begin requests and go on a byte a second; return when the connections ended."""
    begun = {
        "head": b"GET /pick HTTP/1.1\r\nX: ",
        "report": b"POST /feedback HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n",
        "long report": b"POST /feedback HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n",
        "page": b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n",
        "pick": b"POST /pick HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n",
        "chunked": b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n",
        "after a pick": PICK + b"GET /p",
    }
    socks = {name: [connect() for _ in range(8)] for name in begun}
    ends: dict[str, list[float | None]] = {name: [None] * 8 for name in begun}
    for name, each in socks.items():
        for sock in each:
            sock.sendall(begun[name])
    began = time.monotonic()
    while left() > 0 and any(None in each for each in ends.values()):
        time.sleep(1.0)
        for name, each in socks.items():
            for place, sock in enumerate(each):
                if ends[name][place] is None:
                    try:
                        sock.setblocking(False)
                        with contextlib.suppress(BlockingIOError):
                            if sock.recv(65536) == b"":
                                raise ConnectionResetError
                        sock.send(b"x")
                    except OSError:
                        ends[name][place] = time.monotonic() - began
    return ends


def slow_readers() -> list[float | None]:
    """Ask for many pages and read a byte a second; return when the connections ended."""
    ends: list[float | None] = [None] * 4

    def one(place: int) -> None:
        with connect(1024) as sock:
            sock.settimeout(1.0)
            with contextlib.suppress(OSError):
                for _ in range(400):
                    sock.sendall(METRICS)

            def step() -> None:
                if sock.recv(1) == b"":
                    raise ConnectionResetError
                sock.send(b"G")  # What has arrived can be read after the end, too.

            ends[place] = until_cut(sock, step, 1.0)

    threads = [threading.Thread(target=one, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def nonsense() -> dict[str, list[int]]:
    """Send what is no HTTP."""
    dice = random.Random(53)
    garbage = [b"\x00" + dice.randbytes(dice.randrange(1, 5000)) + b"\r\n\r\n" for _ in range(500)]
    found = {
        "garbage": [asked(each) for each in garbage],
        "tls": [asked(TLS_HELLO) for _ in range(20)],
        "method": [asked(b"NOSUCH / HTTP/1.1\r\n\r\n")],
        "version": [asked(b"GET / HTTP/9.9\r\n\r\n")],
        "connect": [asked(b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n")],
        "path": [asked(b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n")],
        "lengths": [
            asked(b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n")
        ],
    }
    for _ in range(200):
        with connect() as sock:  # nothing at all
            sock.shutdown(socket.SHUT_WR)
    return found


def odd_requests() -> dict[str, dict[int, int]]:
    """Send what is HTTP, but not what one expects; return how often each status came."""
    long = b"m" * 10_000
    found: dict[str, Counter[int]] = {
        "long query": Counter(
            asked(b"GET %b?model=%b HTTP/1.1\r\nHost: x\r\n\r\n" % (path, long))
            for path in (b"/pick", b"/metrics", b"/", b"/feedback")
            for _ in range(20)
        ),
        "methods": Counter(
            asked(method + b" /pick/a/b%20c/../d;e?pool=chat HTTP/1.1\r\nHost: x\r\n\r\n")
            for method in (b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"PROPFIND", b"TRACE")
        ),
        "models": Counter(),
        "gone": Counter(),
    }
    with connect() as sock:
        for number in range(3000):
            sock.sendall(b"GET /pick?model=made-up-%d HTTP/1.1\r\nHost: x\r\n\r\n" % number)
            got = sock.recv(65536)
            found["models"][int(got.split()[1])] += 1
    body = b'{"target":"nobody:1","status":200}'
    post = b"POST /feedback HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    for request in (PICK * 50, METRICS, METRICS * 20, post + body, post + body[:9], b"POST / HT"):
        for _ in range(50):
            with connect() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.sendall(request)
                time.sleep(random.choice((0.0, 0.002)))
            found["gone"][0] += 1
    return {name: dict(counts) for name, counts in found.items()}


def huge_bodies() -> dict[str, list[int]]:
    """Send two megabytes, with and without saying so before, and one without an end."""
    found: dict[str, list[int]] = {}
    for path in ("/feedback", "/metrics", "/", "/-/healthy", "/api/v1/pools", "/pick?pool=chat"):
        start = f"POST {path} HTTP/1.1\r\nHost: x\r\n".encode()
        chunk = b"10000\r\n" + bytes(65536) + b"\r\n"
        found[path] = [
            asked(start + b"Content-Length: %d\r\n\r\n" % BIG + bytes(BIG)),
            asked(start + b"Content-Length: 99999999999\r\n\r\n"),
            asked(
                start
                + b"Transfer-Encoding: chunked\r\n\r\n"
                + chunk * (BIG // 65536)
                + b"0\r\n\r\n"
            ),
        ]

    def endless() -> None:
        with connect() as sock:
            sock.sendall(b"POST /feedback HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            found["endless"] = [until_cut(sock, lambda: sock.sendall(chunk), 0.0) is not None]

    endless()
    return found


ATTACKS: dict[str, Callable[[], Any]] = {
    "idle": idle,
    "picks": lambda: flood(PICK, 0),
    "picks read slowly": lambda: flood(PICK, 1024),
    "pages": lambda: flood(METRICS, 0),
    "head floods": head_floods,
    "dripping": dripping,
    "slow readers": slow_readers,
    "nonsense": nonsense,
    "odd requests": odd_requests,
    "huge bodies": huge_bodies,
}


def attack(name: str) -> None:
    """Make one attack, note what came of it."""
    try:
        results[name] = ATTACKS[name]()
    except Exception as error:  # noqa: BLE001 - told by the test that looks
        results[name] = repr(error)


def main() -> None:
    """Attack, all at once."""
    os.nice(5)
    chosen = sys.argv[3:] or list(ATTACKS)
    threads = [threading.Thread(target=attack, args=(name,), daemon=True) for name in chosen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.1, left()) + 5.0)
    print(json.dumps(results), flush=True)  # noqa: T201 - what the program is for
    os._exit(0)


if __name__ == "__main__":
    main()
