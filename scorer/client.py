"""Requests to a running daemon, for the command line.

Proxies and ``.netrc`` of the environment are not looked at: the daemon is asked
directly, with our own token or none.
"""

import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import requests

from scorer.config.files import read_file
from scorer.config.http_client import TlsConfig
from scorer.core.vocabulary import Verb
from scorer.sources.deadline import Budget
from scorer.sources.failures import causes, explain
from scorer.sources.http_client import UnusableFileError, context_of
from scorer.unix_adapter import SCHEME, UnixAdapter

TIMEOUT = 10.0
"""Seconds that the daemon may keep silent."""


class ClientError(Exception):
    """The daemon did not do what it was asked; the message is one line."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where a daemon is, and how to get in; ``url`` may be ``unix:/path``.

    The files hold a bearer token, the password of ``user``, certificates to trust, and our
    own certificate and its key.
    """

    url: str
    token_file: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


class _TrustingAdapter(requests.adapters.HTTPAdapter):
    """Trusts as the daemon does, whatever the Python release would make of a certificate."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, *args: Any, **pool: Any) -> None:  # noqa: ANN401 - as requests has them
        super().init_poolmanager(*args, **pool, ssl_context=self._context)


def ask(
    method: str,
    access: Access,
    path: str,
    *,
    params: Mapping[str, str] | None = None,
    body: Mapping[str, str] | None = None,
) -> Any:  # noqa: ANN401 - any JSON
    """Return the data of an answer of the API; ClientError says why there is none."""
    url, headers = access.url, _headers(access)
    try:
        with requests.Session() as session:
            session.trust_env = False
            _use_certificates(session, access)
            site = url.rstrip("/")
            if url.startswith(SCHEME):
                site = "http://localhost"
                session.mount(site, UnixAdapter(url.removeprefix(SCHEME)))
            answer = session.request(
                method, site + path, params=params, json=body, headers=headers,
                timeout=TIMEOUT, allow_redirects=False,
            )  # fmt: skip
    except requests.RequestException as error:
        raise ClientError(_why(error, url)) from None
    except OSError as error:  # requests' words for a certificate that is not there
        raise ClientError(str(error)) from None
    if answer.status_code == 401 and "basic" in answer.headers.get("WWW-Authenticate", "").lower():
        raise ClientError(f"{_host(url)} wants the name and password of a user that it knows")
    try:
        document = answer.json()
        if answer.ok and document["status"] == "success":
            return document["data"]
        message = " ".join(str(document["error"]).split())
    except (ValueError, LookupError, TypeError):
        message = f"{url} answered {answer.status_code}, and not as scorer does"
    raise ClientError(message)


def order(
    verb: Verb, target: str, body: Mapping[str, str], *, pool: str | None, access: Access
) -> Any:  # noqa: ANN401 - any JSON
    """Give an operator's order about a target; return what then applies in each pool."""
    path = f"/api/v1/targets/{quote(target, safe='/:')}/{verb}"
    params = {"pool": pool} if pool else {}
    return ask("POST", access, path, params=params, body=body)


def _use_certificates(session: requests.Session, access: Access) -> None:
    if access.ca_file:
        session.verify = str(access.ca_file)
        try:
            context = context_of(TlsConfig(ca_file=session.verify), ())
        except UnusableFileError as error:
            raise ClientError(error.failure.detail) from None
        session.mount("https://", _TrustingAdapter(context))
    if access.cert_file:
        cert = str(access.cert_file)
        session.cert = (cert, str(access.key_file)) if access.key_file else cert
    elif access.key_file:
        raise ClientError(f"{access.key_file}: a key needs its certificate beside it")


def _why(error: requests.RequestException, url: str) -> str:
    """Return one line about a request that got no answer.

    What the system says is at the bottom; urllib3 calls every failed connection a timeout.
    """
    if isinstance(error, ValueError):  # requests says so of a URL that it cannot use
        shown = url.rpartition("@")[2]
        return f"the URL must be one such as http://127.0.0.1:9808 or unix:/path, got {shown}"
    system = [
        each for each in causes(error)
        if isinstance(each, OSError) and not isinstance(each, requests.RequestException)
    ]  # fmt: skip
    budget = Budget(TIMEOUT, time.monotonic)
    cause = system[-1] if system else error
    detail = explain(cause, _host(url), budget).detail
    if url.startswith("http://") and isinstance(cause, RemoteDisconnected):
        return f"{detail}; where TLS is wanted the URL begins with https://"
    return detail


def _host(url: str) -> str:
    if url.startswith(SCHEME):
        return url
    return urlsplit(url).netloc.rpartition("@")[2]


def _headers(access: Access) -> dict[str, str]:
    """Return what tells who we are; ClientError, without a secret, when it cannot be sent.

    There is one ``Authorization`` header: beside a password the token has its own.
    """
    if bool(access.user) != bool(access.password_file):
        raise ClientError("a user and a password file need each other")
    headers = {}
    if access.token_file:
        token = _secret(access.token_file, "a token")
        if access.user:
            headers["X-Scorer-Token"] = token.decode("latin-1")
        else:
            headers["Authorization"] = f"Bearer {token.decode('latin-1')}"
    if access.user and access.password_file:
        password = _secret(access.password_file, "a password")
        encoded = b64encode(access.user.encode() + b":" + password).decode()
        headers["Authorization"] = f"Basic {encoded}"
    return headers


def _secret(file: Path, what: str) -> bytes:
    try:
        secret = read_file(file).strip()
    except OSError as error:
        raise ClientError(f"{file}: cannot be read: {error.strerror}") from None
    if not secret or any(byte < 0x20 or byte == 0x7F for byte in secret):
        raise ClientError(f"{file}: must hold {what}, on one line")
    return secret
