"""B23: metrics behind a key or TLS, and where the key must never be seen."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.discovery.conftest import Authority, Server
from tests.system.conftest import DaemonProcess, free_port

pytestmark = pytest.mark.system

CASE = Path(__file__).parent.parent / "data" / "cases" / "B23"
SELF_SIGNED = Path(__file__).parent.parent / "data" / "tls" / "server.pem"
SECRET = "s3cret-token"

Daemons = Callable[..., DaemonProcess]
Serve = Callable[..., Server]


class Engines:
    """The engines of the case: behind a key, on a TLS port, redirecting, and two with TLS."""

    def __init__(self, serve: Serve, authority: Authority) -> None:
        self.page = (CASE / "ok.prom").read_bytes()
        self.locked = self._engine(serve)
        self.locked.answer = self._behind_a_key
        self.confused = self._engine(serve)
        self.confused.status, self.confused.body = 400, (CASE / "tls_port.html").read_bytes()
        self.confused.headers = {"Content-Type": "text/html"}
        self.other = self._engine(serve)
        self.moved = self._engine(serve)
        self.moved.status = 302
        self.moved.headers["Location"] = f"http://localhost:{self.other.port}/metrics"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(SELF_SIGNED)
        self.self_signed = self._engine(serve, context)
        self.named = self._engine(serve, authority.server("engine.internal"))

    def _engine(self, serve: Serve, context: ssl.SSLContext | None = None) -> Server:
        found = serve(context)
        found.body = self.page
        found.headers = {"Content-Type": "text/plain; version=0.0.4"}
        return found

    def _behind_a_key(self, handler: Any) -> None:
        allowed = handler.headers.get("Authorization") == f"Bearer {SECRET}"
        self.locked.status = 200 if allowed else 401
        self.locked.body = self.page if allowed else b"Unauthorized"
        self.locked._send(handler)


@pytest.fixture
def engines(serve: Serve, authority: Authority) -> Engines:
    return Engines(serve, authority)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(SECRET)
    return path


def pool_at(name: str, port: int, **keys: Any) -> dict[str, Any]:
    return {"name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}], **keys}


def scrapes(running: DaemonProcess) -> dict[str, dict[str, Any]]:
    """Return the last scrape in each pool; every pool has one target."""
    data = running.get("/api/v1/targets").json()["data"]
    return {each["pool"]: each["last_scrape"] or {} for each in data}


def failures(running: DaemonProcess) -> float:
    """Return how many scrapes have failed."""
    lines = running.get("/metrics").text.splitlines()
    rows = [line for line in lines if line.startswith("scorer_scrape_failures_total{")]
    return sum(float(row.rpartition(" ")[2]) for row in rows)


def everything(running: DaemonProcess) -> str:
    """Return all that the daemon shows anywhere."""
    paths = ["/", "/?format=json", "/metrics", "/api/v1/targets", "/api/v1/pools"]
    paths += [f"/api/v1/targets/{each['target']}" for each in
              running.get("/api/v1/targets").json()["data"]]  # fmt: skip
    return running.log + "".join(running.get(path).text for path in paths)


def test_each_trouble_has_a_reason_of_its_own(
    engines: Engines, token: Path, daemon: Daemons
) -> None:
    """A wrong key, a missing one, TLS, another host and a closed port are told apart."""
    wrong = token.with_name("wrong")
    wrong.write_text("another-token")
    https = {"scheme": "https"}
    pools = [
        pool_at("no_key", engines.locked.port),
        pool_at("wrong_key", engines.locked.port, authorization={"credentials_file": str(wrong)}),
        pool_at("no_file", engines.locked.port, authorization={"credentials_file": "none"}),
        pool_at("html", engines.confused.port),
        pool_at("moved", engines.moved.port, authorization={"credentials_file": str(token)}),
        pool_at("unknown_ca", engines.self_signed.port, **https),
        pool_at("no_tls", engines.locked.port, **https),
        pool_at("closed", free_port()),
    ]
    running = daemon({"pools": pools}, "--log.level", "debug").ready()
    found = {name: (scrape["ok"], scrape["reason"]) for name, scrape in scrapes(running).items()}
    assert found == {
        "no_key": (False, "auth"),
        "wrong_key": (False, "auth"),
        "no_file": (False, "auth"),
        "html": (False, "http_status"),
        "moved": (False, "http_status"),
        "unknown_ca": (False, "tls"),
        "no_tls": (False, "tls"),
        "closed": (False, "connect"),
    }
    assert engines.other.requests == []
    assert "scorer_target_kv_cache_usage_ratio{" not in running.get("/metrics").text
    shown = everything(running)
    assert SECRET not in shown
    assert "another-token" not in shown
    assert "credentials_file" in scrapes(running)["no_file"]["detail"]


def test_key_from_a_file_opens_and_is_read_again(
    engines: Engines, token: Path, daemon: Daemons
) -> None:
    """The file is looked at before every scrape: a new key needs no reload."""
    token.write_text("old-token\n")
    authorization = {"type": "Bearer", "credentials_file": str(token)}
    running = daemon({"pools": [pool_at("a", engines.locked.port, authorization=authorization)]})
    running.ready()
    assert scrapes(running)["a"]["reason"] == "auth"
    token.write_text(f"{SECRET}\n")
    running.until(lambda: scrapes(running)["a"]["ok"])
    token.unlink()
    running.until(lambda: not scrapes(running)["a"]["ok"])
    assert scrapes(running)["a"]["detail"] == (
        f"credentials_file {token} cannot be read: No such file or directory"
    )
    assert SECRET not in everything(running)


def test_tls_works_with_a_ca_file_a_server_name_or_loudly_without(
    engines: Engines, authority: Authority, daemon: Daemons
) -> None:
    """Self-signed needs its certificate as CA file; checks that are off are said at start."""
    pools = [
        pool_at("ca", engines.self_signed.port, scheme="https",
                tls_config={"ca_file": str(SELF_SIGNED)}),
        pool_at("name", engines.named.port, scheme="https",
                tls_config={"ca_file": str(authority.file), "server_name": "engine.internal"}),
        pool_at("other_name", engines.named.port, scheme="https",
                tls_config={"ca_file": str(authority.file)}),
        pool_at("off", engines.named.port, scheme="https",
                tls_config={"insecure_skip_verify": True}),
    ]  # fmt: skip
    running = daemon({"pools": pools}).ready()
    found = {name: (scrape["ok"], scrape["reason"]) for name, scrape in scrapes(running).items()}
    assert found == {
        "ca": (True, None), "name": (True, None), "other_name": (False, "tls"), "off": (True, None),
    }  # fmt: skip
    loud = "pools[3].tls_config.insecure_skip_verify: any server is trusted"
    running.until(lambda: loud in running.log)
    assert running.log.count(loud) == 1
    assert "InsecureRequestWarning" not in running.log


def test_client_certificate_is_shown_and_replaced(
    serve: Serve, authority: Authority, tmp_path: Path, daemon: Daemons
) -> None:
    """An engine that wants a certificate gets it; one that appears later is used at once."""
    engine = serve(authority.server("127.0.0.1", clients=True))
    engine.body = (CASE / "ok.prom").read_bytes()
    engine.headers = {"Content-Type": "text/plain; version=0.0.4"}
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    tls = {"ca_file": str(authority.file), "cert_file": str(certificate), "key_file": str(key)}
    running = daemon({"pools": [pool_at("a", engine.port, scheme="https", tls_config=tls)]})
    running.ready()
    assert scrapes(running)["a"]["detail"] == (
        f"cert_file {certificate} cannot be read: No such file or directory"
    )
    for source, file in zip(authority.client(), (certificate, key), strict=True):
        file.write_bytes(source.read_bytes())
    failed = failures(running)
    running.until(lambda: scrapes(running)["a"]["ok"])
    assert failures(running) <= failed + 1
