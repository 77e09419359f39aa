"""A real DNS server on loopback with records of a zone ``test``."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import pytest

from tests.system.conftest import free_port

RECORDS = """
srv-host=_vllm._tcp.llm.test,engine-1.llm.test,8000
srv-host=_vllm._tcp.llm.test,engine-2.llm.test,8001
srv-host=_none._tcp.llm.test
host-record=engine-1.llm.test,10.0.0.1,fd00::1
host-record=engine-2.llm.test,10.0.0.2
host-record=pool.llm.test,10.0.0.2
host-record=pool.llm.test,10.0.0.1
host-record=only4.llm.test,10.0.0.4
host-record=local.llm.test,127.0.0.1
"""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run a DNS server that knows the records above; yield its address."""
    dnsmasq = shutil.which("dnsmasq", path=f"{os.environ['PATH']}:/usr/sbin")
    assert dnsmasq, "the package `dnsmasq-base` is part of the set-up"
    port = free_port()
    config = folder / "dnsmasq.conf"
    many = "".join(f"host-record=many.llm.test,10.1.{n // 250}.{n % 250 + 1}\n" for n in range(600))
    config.write_text(
        f"port={port}\nlisten-address=127.0.0.1\nbind-interfaces\nno-resolv\nno-hosts\n"
        f"local=/test/\nuser=\npid-file=\n{RECORDS}{many}"
    )
    with subprocess.Popen([dnsmasq, "--keep-in-foreground", f"--conf-file={config}"]) as server:
        _until_it_answers(port)
        yield f"127.0.0.1:{port}"
        server.kill()


def _until_it_answers(port: int) -> None:
    query = dns.message.make_query("engine-1.llm.test", "A")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            dns.query.udp(query, "127.0.0.1", timeout=1.0, port=port)
        except (dns.exception.Timeout, OSError):
            continue
        return
    pytest.fail("the DNS server does not answer")
