"""The file of ``--web.config.file``: TLS and basic auth of the listener.

Its format is the one that Prometheus' exporters share (exporter-toolkit), as far as OpenSSL
and HTTP/1.1 go.
"""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from scorer.config.document import load_yaml, where_and_what
from scorer.config.errors import ConfigError, problems_of
from scorer.config.files import FilePath, read_file, unreadable
from scorer.config.types import Strict

MOST_COST = 16
"""Of a bcrypt hash: one more doubles the time, and this one takes seconds."""

_HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
_SUITE = re.compile(
    r"TLS_(ECDHE)_(RSA|ECDSA)_WITH_"
    r"(?:(AES)_(128|256)_(GCM)_(SHA256|SHA384)|(CHACHA20)_(POLY1305)_SHA256)"
)

Version = Literal["TLS12", "TLS13"]
VERIFYING = ("VerifyClientCertIfGiven", "RequireAndVerifyClientCert")


def _cipher(name: str) -> str:
    """Return a cipher suite by the name that OpenSSL has for it."""
    match = _SUITE.fullmatch(name)
    if match is None:
        rule = (
            "must be one with ECDHE and GCM, as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, or POLY1305"
        )
        raise ValueError(rule)
    parts = [part for part in match.groups() if part]
    return "-".join(parts).replace("AES-", "AES")


def _hash(text: str) -> str:
    match = _HASH.fullmatch(text)
    if match is None or not 4 <= int(match[1]) <= MOST_COST:
        # The value is not shown: it may be the very password.
        rule = f"must be a bcrypt hash of cost 4 to {MOST_COST}, as htpasswd -nBC 10 prints"
        raise PydanticCustomError("whole", rule)
    return text


def _user(name: str) -> str:
    if not name or ":" in name:
        rule = "must be a name without ':'"
        raise ValueError(rule)
    return name


class TlsServerConfig(Strict):
    """Who we are, whom we let in, and how. ``cipher_suites`` are those up to TLS 1.2."""

    cert_file: FilePath
    key_file: FilePath
    client_ca_file: FilePath | None = None
    client_auth_type: Literal["NoClientCert", *VERIFYING] = "NoClientCert"  # type: ignore[valid-type]
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"
    cipher_suites: Annotated[
        tuple[Annotated[str, AfterValidator(_cipher)], ...], Field(strict=False)
    ] = ()
    prefer_server_cipher_suites: bool = True

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.client_auth_type in VERIFYING) != bool(self.client_ca_file):
            rule = "client_ca_file and a client_auth_type that verifies need each other"
            raise PydanticCustomError("whole", rule)
        if self.max_version < self.min_version:
            raise PydanticCustomError("whole", "max_version must not be below min_version")
        return self


class WebFile(Strict):
    """The whole file. Without users nobody is asked for a password."""

    tls_server_config: TlsServerConfig | None = None
    basic_auth_users: dict[
        Annotated[str, AfterValidator(_user)], Annotated[str, AfterValidator(_hash)]
    ] = Field(default={})


def load_web_file(path: str | Path) -> WebFile:
    """Return what a file says; ConfigError lists every problem, and shows no secret.

    Relative paths in it are relative to its folder.
    """
    try:
        text = read_file(path).decode()
        document = load_yaml(text) if text.strip() else {}
        found = WebFile.model_validate(document, context={"folder": Path(path).parent})
    except OSError as error:
        raise ConfigError([f"cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise ConfigError(["is not UTF-8 text"]) from None
    except yaml.YAMLError as error:
        raise ConfigError([f"is not valid YAML: {where_and_what(error)}"]) from None
    except ValidationError as error:
        raise ConfigError(problems_of(error, WebFile)) from None
    if problems := list(unreadable(found)):
        raise ConfigError(problems)
    return found
