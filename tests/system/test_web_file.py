"""TLS and basic auth of the listener: real certificates, curl, and our own commands."""

import json
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import requests
import trustme
import yaml

from tests.invoked import invoked
from tests.system.conftest import DaemonProcess, FakeEngine, pool_of
from tests.waited import waited_to_end

pytestmark = pytest.mark.system

PASSWORD, TOKEN = "correct horse", "t0ken"
HASH = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()


@dataclass
class Site:
    """A daemon behind TLS and basic auth, and the files that it reads."""

    daemon: DaemonProcess
    engine: FakeEngine
    folder: Path
    ca: trustme.CA

    @property
    def url(self) -> str:
        return self.daemon.url.replace("http:", "https:")

    def write(self, **tls: str) -> None:
        """Write the web configuration."""
        files = {"cert_file": "server.pem", "key_file": "server.key", **tls}
        document = {"tls_server_config": files, "basic_auth_users": {"ops": HASH}}
        (self.folder / "web.yml").write_text(yaml.safe_dump(document))

    def certify(self) -> None:
        """Put a new certificate of the same authority in place, one file after the other."""
        issued = self.ca.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(str(self.folder / "server.key"))
        for index, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(str(self.folder / "server.pem"), append=index > 0)

    def serial(self) -> str:
        """Return what tells the served certificate from others."""
        port = int(self.url.rpartition(":")[2])
        return ssl.get_server_certificate(("127.0.0.1", port))

    def curl(self, path: str, *more: str, user: str | None = f"ops:{PASSWORD}") -> Any:
        """Return status and body of an answer to curl."""
        who = ["--user", user] if user else []
        done = subprocess.run(
            ["curl", "-sS", "--noproxy", "*", "--cacert", str(self.folder / "ca.pem"), *who,
             "-w", "\n%{http_code}", *more, self.url + path],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if done.returncode:
            return done.returncode, done.stderr
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body

    def scorer(self, *arguments: str, **files: str) -> subprocess.CompletedProcess[str]:
        """Run a command of ours against it."""
        flags = [part for name, value in files.items() for part in (f"--{name}", value)]
        named = (flag.replace("_", "-") if flag[:2] == "--" else flag for flag in flags)
        return invoked(*arguments, "--url", self.url, *named, folder=self.folder)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    ca, engine = trustme.CA(), FakeEngine()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name, text in {"password": PASSWORD, "token": TOKEN, "wrong": "wrong"}.items():
        (folder / name).write_text(f"{text}\n")
    made = Site(None, engine, folder, ca)  # type: ignore[arg-type]
    made.certify()
    made.write()
    config = pool_of(engine) | {
        "web": {"admin_token_file": "token"},
        "feedback": {"token_file": "token"},
    }
    made.daemon = DaemonProcess(
        folder, config, "--web.config.file", str(folder / "web.yml"), "--web.enable-lifecycle"
    )
    made.daemon.until(lambda: made.curl("/-/ready")[0] == 200)
    yield made
    made.daemon.process.kill()
    made.daemon.process.wait(5)
    engine.close()


PATHS = ("/metrics", "/pick", "/pick/v1/x", "/", "/-/healthy", "/-/ready",
         "/api/v1/targets", "/api/v1/snapshot", "/feedback", "/-/reload",
         "/static/status.css", "/nowhere")  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_without_a_password_nothing_is_answered(site: Site, path: str) -> None:
    """Every path is 401 with a challenge, whether it exists or not."""
    for user in (None, "ops:wrong", "nobody:x", "ops:"):
        status, body = site.curl(path, user=user)
        assert (status, "a known user and password" in body) == (401, True)
    assert "www-authenticate: Basic" in site.curl(path, "-i", user=None)[1]


@pytest.mark.parametrize("path", ["/metrics", "/pick?format=text", "/", "/-/healthy"])
def test_with_the_password_everything_is(site: Site, path: str) -> None:
    """The certificate is checked against the authority, the password against its hash."""
    status, body = site.curl(path)
    assert status == 200
    assert body


def test_a_wrong_password_on_a_kept_connection_is_refused(site: Site) -> None:
    """What one request of a connection proved does not help the next."""
    with requests.Session() as session:
        session.trust_env, session.verify = False, str(site.folder / "ca.pem")
        right, wrong = ("ops", PASSWORD), ("ops", "wrong")
        for path in ("/pick", "/metrics"):
            statuses = [
                session.get(site.url + path, auth=auth, timeout=9).status_code
                for auth in (right, wrong, None, right)
            ]
            assert statuses == [200, 401, 401, 200]


def test_plain_http_is_not_answered(site: Site) -> None:
    """Nothing is said in the clear."""
    with pytest.raises(requests.ConnectionError):
        site.daemon.get("/pick")


def test_an_unknown_authority_is_the_clients_error(site: Site) -> None:
    """Curl without our authority does not get to say who it is."""
    code, error = site.curl("/metrics", "--cacert", "/etc/ssl/certs/ca-certificates.crt")
    assert code in (60, 77), error


def test_versions_below_the_minimum_are_refused(site: Site) -> None:
    """TLS 1.2 is the default minimum; TLS 1.3 can be asked for while the daemon runs."""
    older = ("--tls-max", "1.2")
    assert site.curl("/-/healthy", *older)[0] == 200
    site.write(min_version="TLS13")
    site.daemon.until(lambda: site.curl("/-/healthy", *older)[0] != 200)
    assert site.curl("/-/healthy", "--tlsv1.3")[0] == 200
    site.write()
    site.daemon.until(lambda: site.curl("/-/healthy", *older)[0] == 200)


def test_feedback_brings_its_token_beside_the_password(site: Site) -> None:
    """There is one Authorization header, so the token has its own."""
    body = json.dumps({"target": site.engine.target, "status": 200})
    said = ("-d", body, "-H", "Content-Type: application/json")
    assert site.curl("/feedback", *said)[0] == 401
    assert site.curl("/feedback", *said, "-H", "X-Scorer-Token: wrong")[0] == 401
    assert site.curl("/feedback", *said, "-H", f"X-Scorer-Token: {TOKEN}")[0] == 202
    bearer = ("-H", f"Authorization: Bearer {TOKEN}")
    assert site.curl("/feedback", *said, *bearer, user=None)[0] == 401


def test_form_of_an_order_brings_its_token_in_its_body(site: Site) -> None:
    """Beside the password, which a browser sends by itself."""
    path = f"/targets/{site.engine.target}"
    for order in ("cooldown", "end-cooldown"):
        form = ("-d", f"order={order}", "-d", "pool=chat", "--data-urlencode")
        assert site.curl(path, *form, "token=wrong")[0] == 401
        assert site.curl(path, *form, f"token={TOKEN}")[0] == 303
        assert site.curl(path, *form, f"token={TOKEN}", user=None) == (
            401,
            "Authorization: must be basic, with a known user and password\n",
        )


def test_our_own_commands_get_in(site: Site) -> None:
    """Explain and drain, with the authority, the password and the token in files."""
    target, known = site.engine.target, {"ca_file": "ca.pem", "user": "ops"}
    shown = site.scorer("explain", target, password_file="password", **known)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert target in shown.stdout
    drained = site.scorer("drain", target, password_file="password", token_file="token", **known)
    assert (drained.returncode, drained.stderr) == (0, "")
    assert site.curl("/pick")[0] == 503
    back = site.scorer("undrain", target, password_file="password", token_file="token", **known)
    assert back.returncode == 0
    assert site.curl("/pick")[0] == 200


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "certificate"),
        ({"ca_file": "ca.pem"}, "wants the name and password of a user that it knows"),
        ({"ca_file": "ca.pem", "user": "ops", "password_file": "wrong"}, "wants the name and"),
        ({"ca_file": "ca.pem", "user": "ops"}, "need each other"),
        ({"ca_file": "nowhere.pem"}, "nowhere.pem"),
    ],
)
def test_our_own_commands_say_why_they_do_not(site: Site, files: dict[str, str], said: str) -> None:
    """One line, exit code 1."""
    done = site.scorer("explain", site.engine.target, **files)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_new_certificate_is_served_within_seconds(site: Site) -> None:
    """Without a signal; broken files in between cost nothing."""
    before = site.serial()
    (site.folder / "server.key").write_text("no key\n")
    site.daemon.until(lambda: "Web configuration not reloaded" in site.daemon.log)
    assert site.serial() == before
    assert site.curl("/-/healthy")[0] == 200
    site.certify()
    site.daemon.until(lambda: site.serial() != before)
    assert site.curl("/-/healthy")[0] == 200


def test_clients_can_be_asked_for_certificates(site: Site) -> None:
    """Changed while it runs, both ways; a client without one does not get as far as HTTP."""
    site.ca.issue_cert("client.test").private_key_and_cert_chain_pem.write_to_path(
        str(site.folder / "client.pem")
    )
    site.write(client_auth_type="RequireAndVerifyClientCert", client_ca_file="ca.pem")
    site.daemon.until(lambda: site.curl("/-/healthy")[0] != 200)
    assert site.curl("/-/healthy", "--cert", str(site.folder / "client.pem"))[0] == 200
    known = {"ca_file": "ca.pem", "user": "ops", "password_file": "password"}
    assert site.scorer("explain", site.engine.target, **known).returncode == 1
    shown = site.scorer("explain", site.engine.target, cert_file="client.pem", **known)
    assert shown.returncode == 0
    site.write()
    site.daemon.until(lambda: site.curl("/-/healthy")[0] == 200)


def test_reload_is_behind_the_password_too(site: Site) -> None:
    """POST and PUT reload, GET is 405, a broken file is 500 and changes nothing."""
    assert site.curl("/-/reload", "-X", "POST") == (200, "The configuration was reloaded.\n")
    assert site.curl("/-/reload", "-X", "PUT")[0] == 200
    assert site.curl("/-/reload")[0] == 405
    good = site.daemon.path.read_text()
    site.daemon.path.write_text("pools: []\n")
    assert site.curl("/-/reload", "-X", "POST")[0] == 500
    assert "scorer_config_last_reload_successful 0" in site.curl("/metrics")[1]
    site.daemon.path.write_text(good)
    assert site.curl("/-/reload", "-X", "POST")[0] == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000, b"431"),
    ],
)
def test_what_is_refused_is_told_over_tls_too(site: Site, request_: bytes, status: bytes) -> None:
    """The answer is there before the connection ends."""
    context = ssl.create_default_context(cafile=str(site.folder / "ca.pem"))
    port = int(site.url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as sock,
    ):
        sock.sendall(request_)
        assert sock.recv(4096).startswith(b"HTTP/1.1 " + status)


def test_it_stops_as_without_tls(site: Site) -> None:
    """Open connections, one of them in the middle of its handshake, do not hold it up."""
    port = int(site.url.rpartition(":")[2])
    with requests.Session() as session, socket.create_connection(("127.0.0.1", port)) as mute:
        session.trust_env, session.verify = False, str(site.folder / "ca.pem")
        assert session.get(f"{site.url}/pick", auth=("ops", PASSWORD), timeout=9).ok
        mute.send(b"\x16\x03\x01")
        site.daemon.signal(signal.SIGTERM)
        assert waited_to_end(site.daemon.process) < 10
        assert site.daemon.process.returncode == 0
    assert "Traceback" not in site.daemon.log
    assert PASSWORD not in site.daemon.log
    assert HASH not in site.daemon.log
