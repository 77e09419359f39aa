"""Authorization and TLS: what is sent, whom is trusted, and that no secret is shown."""

import base64
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scorer import client
from scorer.config.http_client import HttpClientConfig
from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.sources.fetch import Fetched, Fetcher
from tests.discovery.conftest import COMPANY_CA, Authority, Server, company_server

Serve = Callable[..., Server]
SELF_SIGNED = Path(__file__).parent.parent / "data" / "tls" / "server.pem"
SECRET = "s3cret-token"


def fetcher(server: Server, **config: Any) -> Fetcher:
    return Fetcher(server.url, 5.0, client=HttpClientConfig.model_validate(config))


def failure(found: Fetched | ScrapeFailed) -> tuple[ScrapeFailure, str]:
    assert isinstance(found, ScrapeFailed)
    return found.reason, found.detail


def fetched(server: Server, **config: Any) -> Fetched | ScrapeFailed:
    """Fetch once and close."""
    one = fetcher(server, **config)
    try:
        return one.fetch()
    finally:
        one.close()


@pytest.fixture
def server(serve: Serve) -> Server:
    """Return a plain server with a page."""
    found = serve()
    found.body = b"page"
    return found


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """Return a file with a token and a line feed."""
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    return path


def sent(server: Server) -> str | None:
    return server.requests[-1][1].get("Authorization")


def test_nothing_is_sent_unless_configured(server: Server) -> None:
    """Without configuration a request carries no authorization."""
    assert isinstance(fetched(server), Fetched)
    assert sent(server) is None


def test_bearer_token_comes_from_its_file(server: Server, token: Path) -> None:
    """The file's content is sent without its line feed, as Bearer unless told otherwise."""
    fetched(server, authorization={"credentials_file": str(token)})
    assert sent(server) == f"Bearer {SECRET}"
    fetched(server, authorization={"type": "Token", "credentials_file": str(token)})
    assert sent(server) == f"Token {SECRET}"


def test_basic_auth_is_user_and_password(server: Server, token: Path) -> None:
    """Both may be more than ASCII."""
    token.write_text("pässwort")
    fetched(server, basic_auth={"username": "jürgen", "password_file": str(token)})
    kind, _, encoded = (sent(server) or "").partition(" ")
    assert (kind, base64.b64decode(encoded).decode()) == ("Basic", "jürgen:pässwort")


def test_token_is_read_again_when_it_changes(server: Server, token: Path) -> None:
    """A token that was rotated is used from the next request on, on the kept connection."""
    one = fetcher(server, authorization={"credentials_file": str(token)})
    one.fetch()
    token.write_text("another")
    one.fetch()
    one.close()
    assert [headers["Authorization"] for _, headers in server.requests] == [
        f"Bearer {SECRET}", "Bearer another",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"s3cret\ntoken", "must hold one line of printable characters"),
        (b"\xff\xfe", "is not UTF-8 text"),
        ("tökên".encode(), "must hold ASCII only"),
    ],
)
def test_unusable_token_names_the_file_only(
    server: Server, token: Path, content: bytes, problem: str
) -> None:
    """The failure is one of authorization; nothing is sent, and nothing of the file shown."""
    token.write_bytes(content)
    found = fetched(server, authorization={"credentials_file": str(token)})
    assert failure(found) == (ScrapeFailure.AUTH, f"credentials_file {token} {problem}")
    assert server.requests == []


def test_missing_secret_says_which_file(server: Server, tmp_path: Path) -> None:
    """A file that is not there is a failure of authorization, and is looked for again."""
    path = tmp_path / "password"
    one = fetcher(server, basic_auth={"username": "u", "password_file": str(path)})
    assert failure(one.fetch()) == (
        ScrapeFailure.AUTH, f"password_file {path} cannot be read: No such file or directory",
    )  # fmt: skip
    path.write_text("p")
    assert isinstance(one.fetch(), Fetched)
    one.close()


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_told_from_other_statuses(server: Server, status: int) -> None:
    """401 and 403 have a reason of their own."""
    server.status = status
    assert failure(fetched(server))[0] is ScrapeFailure.AUTH


def test_token_does_not_follow_a_redirect_to_another_host(
    serve: Serve, server: Server, token: Path
) -> None:
    """The host that the token is for is the only one that sees it."""
    other = serve()
    server.status, server.headers = 302, {"Location": other.url}
    found = fetched(server, authorization={"credentials_file": str(token)})
    assert failure(found)[0] is ScrapeFailure.HTTP_STATUS
    assert other.requests == []


def secure(serve: Serve, context: Any) -> Server:
    found = serve(context)
    found.body = b"page"
    return found


def test_server_of_an_unknown_authority_is_refused(serve: Serve, authority: Authority) -> None:
    """Without a CA file only public authorities are trusted."""
    found = fetched(secure(serve, authority.server("127.0.0.1")))
    reason, detail = failure(found)
    assert reason is ScrapeFailure.TLS
    assert "unable to get local issuer certificate" in detail


def test_server_of_our_authority_is_trusted(serve: Serve, authority: Authority) -> None:
    """``ca_file`` names whom to trust."""
    server = secure(serve, authority.server("127.0.0.1"))
    assert isinstance(fetched(server, tls_config={"ca_file": str(authority.file)}), Fetched)


def test_ca_file_replaces_the_public_authorities(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    """An authority that is not in the file is not trusted, whoever else trusts it."""
    server = secure(serve, authority.server("127.0.0.1"))
    other = Authority(tmp_path / "other")
    found = fetched(server, tls_config={"ca_file": str(other.file)})
    assert failure(found)[0] is ScrapeFailure.TLS


def test_self_signed_certificate_may_be_the_ca_file(serve: Serve, authority: Authority) -> None:
    """A server's own certificate in the CA file is enough."""
    context = authority.server("127.0.0.1")
    context.load_cert_chain(SELF_SIGNED)
    server = secure(serve, context)
    assert isinstance(fetched(server, tls_config={"ca_file": str(SELF_SIGNED)}), Fetched)


def test_authority_without_key_identifiers_is_trusted(serve: Serve) -> None:
    """Company authorities often lack them; strict checks of newer Python releases want them."""
    server = secure(serve, company_server())
    assert isinstance(fetched(server, tls_config={"ca_file": str(COMPANY_CA)}), Fetched)


def test_our_own_commands_trust_as_the_daemon_does(serve: Serve, authority: Authority) -> None:
    """``--ca-file`` takes the same files: such an authority, or the server's own certificate."""
    certificate, key = authority.issued("127.0.0.1")
    signed = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    signed.load_cert_chain(certificate, key)
    company, own = serve(company_server()), serve(signed)
    company.body = own.body = {"status": "success", "data": "well"}
    assert client.ask("GET", client.Access(company.url, ca_file=COMPANY_CA), "/") == "well"
    assert client.ask("GET", client.Access(own.url, ca_file=certificate), "/") == "well"
    with pytest.raises(client.ClientError, match="unable to get local issuer certificate"):
        client.ask("GET", client.Access(own.url, ca_file=COMPANY_CA), "/")


def test_name_of_the_certificate_must_be_that_of_the_host(
    serve: Serve, authority: Authority
) -> None:
    """A certificate for another name is refused."""
    server = secure(serve, authority.server("engine.test"))
    reason, detail = failure(fetched(server, tls_config={"ca_file": str(authority.file)}))
    assert reason is ScrapeFailure.TLS
    assert "127.0.0.1" in detail


def test_server_name_is_asked_for_and_looked_for(serve: Serve, authority: Authority) -> None:
    """``server_name`` replaces the host in the handshake, and must be in the certificate."""
    context = authority.server("engine.test")
    asked: list[str | None] = []
    context.sni_callback = lambda _, name, __: asked.append(name)
    server = secure(serve, context)
    tls = {"ca_file": str(authority.file)}
    assert isinstance(fetched(server, tls_config={**tls, "server_name": "engine.test"}), Fetched)
    assert asked == ["engine.test"]
    wrong = fetched(server, tls_config={**tls, "server_name": "other.test"})
    assert failure(wrong)[0] is ScrapeFailure.TLS


def test_verification_can_be_turned_off(serve: Serve, authority: Authority) -> None:
    """``insecure_skip_verify`` trusts any server, without a warning per request."""
    server = secure(serve, authority.server("engine.test"))
    assert isinstance(fetched(server, tls_config={"insecure_skip_verify": True}), Fetched)


def test_client_shows_its_certificate(serve: Serve, authority: Authority) -> None:
    """A server that asks for a certificate gets ours, and refuses us without one."""
    server = secure(serve, authority.server("127.0.0.1", clients=True))
    certificate, key = authority.client()
    tls = {"ca_file": str(authority.file)}
    shown = {**tls, "cert_file": str(certificate), "key_file": str(key)}
    assert isinstance(fetched(server, tls_config=shown), Fetched)
    assert isinstance(fetched(server, tls_config=tls), ScrapeFailed)


def test_certificate_and_key_may_be_one_file(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    """``cert_file`` alone holds both."""
    server = secure(serve, authority.server("127.0.0.1", clients=True))
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join(path.read_bytes() for path in authority.client()))
    tls = {"ca_file": str(authority.file), "cert_file": str(both)}
    assert isinstance(fetched(server, tls_config=tls), Fetched)


def test_changed_ca_file_is_used_from_the_next_request_on(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    """An authority that was replaced is trusted no more, kept connection or not."""
    server = secure(serve, authority.server("127.0.0.1"))
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.file.read_bytes())
    one = fetcher(server, tls_config={"ca_file": str(trusted)})
    assert isinstance(one.fetch(), Fetched)
    trusted.write_bytes(Authority(tmp_path / "other").file.read_bytes())
    assert failure(one.fetch())[0] is ScrapeFailure.TLS
    trusted.write_bytes(authority.file.read_bytes())
    assert isinstance(one.fetch(), Fetched)
    one.close()


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read: No such file or directory"), ("no certificate", "cannot be used")],
)
def test_unusable_ca_file_is_named(
    serve: Serve, authority: Authority, tmp_path: Path, content: str | None, problem: str
) -> None:
    """A file that is missing or holds no certificate is a failure of TLS."""
    server = secure(serve, authority.server("127.0.0.1"))
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    reason, detail = failure(fetched(server, tls_config={"ca_file": str(path)}))
    assert reason is ScrapeFailure.TLS
    assert f"ca_file {path} {problem}" in detail


def test_key_of_another_certificate_is_told(serve: Serve, authority: Authority) -> None:
    """Files that do not belong together are both named."""
    server = secure(serve, authority.server("127.0.0.1"))
    (certificate, _), (_, key) = authority.client("one"), authority.client("other")
    tls = {"cert_file": str(certificate), "key_file": str(key)}
    reason, detail = failure(fetched(server, tls_config=tls))
    assert reason is ScrapeFailure.TLS
    assert detail.startswith("KEY_VALUES_MISMATCH: cert_file ")
    assert f"cert_file {certificate}, key_file {key} cannot be used".startswith(
        detail.removeprefix("KEY_VALUES_MISMATCH: ").removesuffix("…")
    )


def test_file_that_may_not_be_read_is_told(server: Server, token: Path) -> None:
    """A folder in place of a secret cannot be read, and says so."""
    token.unlink()
    token.mkdir()
    found = fetched(server, authorization={"credentials_file": str(token)})
    assert failure(found) == (
        ScrapeFailure.AUTH, f"credentials_file {token} cannot be read: Is a directory",
    )  # fmt: skip
