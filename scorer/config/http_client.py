"""How to talk to an HTTP server that wants to know who asks: authorization and TLS.

Secrets are never written in the configuration file: it names the files that hold them.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from scorer.config.files import FilePath, values
from scorer.config.types import Strict

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HOST = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:-]*")


def _scheme(text: str) -> str:
    if text.lower() == "basic":
        rule = "must not be Basic: use basic_auth"
        raise ValueError(rule)
    if not _TOKEN.fullmatch(text):
        rule = "must be one word, as Bearer"
        raise ValueError(rule)
    return text


def _username(text: str) -> str:
    if ":" in text:
        rule = "must not contain ':'"
        raise ValueError(rule)
    return text


def _server_name(text: str) -> str:
    if text and not _HOST.fullmatch(text):
        rule = "must be a host name or an IP address, without a port"
        raise ValueError(rule)
    return text


class Authorization(Strict):
    """``Authorization: <type> <content of the file>``."""

    type: Annotated[str, AfterValidator(_scheme)] = "Bearer"
    credentials_file: FilePath


class BasicAuth(Strict):
    """User name and the file that holds the password."""

    username: Annotated[str, AfterValidator(_username)]
    password_file: FilePath


class TlsConfig(Strict):
    """Whom to trust, who we are, and the name that the server's certificate must carry.

    ``server_name`` empty means the host that is asked. ``cert_file`` may hold the key too.
    """

    ca_file: FilePath | None = None
    cert_file: FilePath | None = None
    key_file: FilePath | None = None
    server_name: Annotated[str, AfterValidator(_server_name)] = ""
    insecure_skip_verify: bool = False

    @model_validator(mode="after")
    def _key_has_certificate(self) -> Self:
        if self.key_file and not self.cert_file:
            raise PydanticCustomError("whole", "key_file needs cert_file beside it")
        return self


class HttpClientConfig(Strict):
    """The keys of whatever is asked over HTTP."""

    authorization: Authorization | None = None
    basic_auth: BasicAuth | None = None
    tls_config: TlsConfig = Field(default=TlsConfig())

    @model_validator(mode="after")
    def _one_authorization(self) -> Self:
        if self.authorization and self.basic_auth:
            raise PydanticCustomError(
                "whole", "authorization and basic_auth must not both be given"
            )
        return self

    def http_client(self) -> "HttpClientConfig":
        """Return these keys alone, so that a change of others is not a change of them."""
        return HttpClientConfig(
            authorization=self.authorization,
            basic_auth=self.basic_auth,
            tls_config=self.tls_config,
        )


def unverified(part: object) -> Iterator[str]:
    """Yield one line for each place in ``part`` where certificates are not looked at."""
    for path, value in values(part):
        if value is True and path.endswith("insecure_skip_verify"):
            yield f"{path}: any server is trusted, its certificate is not looked at"
