"""The file of TLS and basic auth: what it may say, and how mistakes are named."""

import ssl
from pathlib import Path

import pytest
import trustme

from scorer.config.errors import ConfigError
from scorer.config.web_file import load_web_file
from scorer.http.tls import WebFileKeeper, server_context

HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
BOTH = "tls_server_config: {cert_file: cert.pem, key_file: key.pem"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    issued = trustme.CA().issue_cert("scorer.test")
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    other = trustme.CA()
    other.issue_cert("x.test").private_key_pem.write_to_path(str(tmp_path / "other.pem"))
    other.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "empty.pem").write_text("")
    return tmp_path


def problems(folder: Path, text: str) -> str:
    path = folder / "web.yml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        WebFileKeeper(path)
    return "\n".join(caught.value.problems)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tls_server_config: {key_file: key.pem}", "tls_server_config.cert_file: is required"),
        (BOTH + ", min_version: TLS10}", "min_version: must be 'TLS12' or 'TLS13', got TLS10"),
        (BOTH + ", min_version: TLS13, max_version: TLS12}", "must not be below min_version"),
        (BOTH + ", client_auth_type: RequireAnyClientCert}", "client_auth_type: must be "),
        (BOTH + ", client_auth_type: RequireAndVerifyClientCert}", "client_ca_file and a"),
        (BOTH + ", client_ca_file: ca.pem}", "client_ca_file and a client_auth_type"),
        (BOTH + ", cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]}", "cipher_suites[0]: must be"),
        (BOTH + ", cert: x}", "tls_server_config.cert: is not a known key"),
        ("tls_server_config: {cert_file: no.pem, key_file: key.pem}", "cannot be read: No such"),
        ("tls_server_config: {cert_file: cert.pem, key_file: other.pem}", "does not belong to"),
        ("tls_server_config: {cert_file: empty.pem, key_file: key.pem}", "must hold a certificate"),
        (
            BOTH + ", client_ca_file: empty.pem, client_auth_type: VerifyClientCertIfGiven}",
            "client_ca_file: holds no certificate",
        ),
        ("basic_auth_users: {'a:b': " + HASH + "}", "must be a name without ':'"),
        ("http_server_config: {http2: true}", "http_server_config: is not a known key"),
        ("[]", "must be a mapping"),
        ("a: [", "is not valid YAML"),
    ],
)
def test_mistakes_are_named(folder: Path, text: str, said: str) -> None:
    """Path and rule, as in the configuration."""
    assert said in problems(folder, text)


@pytest.mark.parametrize("value", ["hunter2", HASH.replace("$10$", "$31$"), HASH[:-1]])
def test_what_is_no_hash_is_not_shown(folder: Path, value: str) -> None:
    """It may be the very password."""
    said = problems(folder, f"basic_auth_users: {{ops: {value!r}}}")
    assert said.startswith("basic_auth_users.ops: must be a bcrypt hash of cost 4 to 16")
    assert value not in said


def test_an_encrypted_key_is_refused_and_not_asked_for(folder: Path) -> None:
    """OpenSSL would ask the terminal for its password."""
    key = (folder / "key.pem").read_text()
    encrypted = key.replace("\n", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n", 1)
    (folder / "key.pem").write_text(encrypted)
    assert "must hold a certificate and its key" in problems(folder, BOTH + "}")


def test_an_empty_file_asks_nobody_for_anything(folder: Path) -> None:
    """As exporter-toolkit takes it."""
    (folder / "web.yml").write_text("\n")
    keeper = WebFileKeeper(folder / "web.yml")
    assert keeper.context is None
    assert keeper.guard.knows([])


def test_a_context_is_as_the_file_says(folder: Path) -> None:
    """Versions, suites by OpenSSL's names, and whether clients need a certificate."""
    more = (
        ", min_version: TLS12, max_version: TLS12, client_ca_file: ca.pem,"
        " client_auth_type: RequireAndVerifyClientCert, prefer_server_cipher_suites: false,"
        " cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,"
        " TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256]}"
    )
    (folder / "web.yml").write_text(BOTH + more)
    tls = load_web_file(folder / "web.yml").tls_server_config
    assert tls is not None
    context = server_context(tls)
    assert context.maximum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_REQUIRED
    names = {cipher["name"] for cipher in context.get_ciphers()}
    assert {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"} <= names
    assert "ECDHE-RSA-AES256-GCM-SHA384" not in names


def test_users_come_and_go_with_the_file(folder: Path) -> None:
    """A file that is broken meanwhile changes nothing."""
    path = folder / "web.yml"
    path.write_text(f"basic_auth_users: {{ops: {HASH}}}\n")
    keeper = WebFileKeeper(path)
    assert not keeper.guard.knows([])
    path.write_text("basic_auth_users: 3\n")
    keeper.look()
    assert not keeper.guard.knows([])
    path.write_text("{}\n")
    keeper.look()
    assert keeper.guard.knows([])
