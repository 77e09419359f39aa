"""Who we are to an HTTP server, and whom we trust: authorization and TLS of a session.

Secrets and certificates are read from their files when they change and never leave this
module but as a request header: a failure names the file, never its content.
"""

import base64
import functools
import ssl
from dataclasses import dataclass

import requests
import urllib3
from requests.adapters import DEFAULT_CA_BUNDLE_PATH
from urllib3.exceptions import InsecureRequestWarning

from scorer.config.http_client import HttpClientConfig, TlsConfig
from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.sources.deadline import DeadlineAdapter
from scorer.sources.failures import failed
from scorer.sources.watched import Signature, WatchedFile, signature

NO_CLIENT = HttpClientConfig()


class UnusableFileError(Exception):
    """A file that a request needs and cannot have; ``failure`` says which and why."""

    def __init__(self, reason: ScrapeFailure, detail: str) -> None:
        """Keep the failure as a value."""
        super().__init__(detail)
        self.failure = failed(reason, detail)


@dataclass(frozen=True, slots=True)
class Tls:
    """A context ready for handshakes; ``server_name`` empty means the host that is asked."""

    context: ssl.SSLContext
    server_name: str


class HttpClient:
    """Authorization and TLS of one session, after ``config``; not for two threads at once."""

    def __init__(self, config: HttpClientConfig = NO_CLIENT) -> None:
        """Read nothing yet: files are looked at before each request."""
        self._authorization = config.authorization
        self._basic = config.basic_auth
        self._tls = config.tls_config
        self._secret = _secret_of(config)
        self._seen: tuple[Signature, ...] | None = None
        if self._tls.insecure_skip_verify:
            # Said once where the configuration is loaded, not with every request.
            urllib3.disable_warnings(InsecureRequestWarning)

    def prepare(self, session: requests.Session) -> ScrapeFailed | None:
        """Bring ``session`` up to date with the files; return why that is not possible.

        Changed certificates cost the session its connections.
        """
        try:
            header = self.authorization()
            tls = self.changed_tls()
        except UnusableFileError as error:
            return error.failure
        if header is not None:
            session.headers["Authorization"] = header
        if tls is not None:
            session.close()
            session.mount("https://", DeadlineAdapter(tls.context, tls.server_name))
        return None

    def authorization(self) -> str | None:
        """Return the value of the ``Authorization`` header, None for none.

        UnusableFileError when its secret cannot be had.
        """
        if self._secret is None:
            return None
        key, file = self._secret
        if self._basic is not None:
            pair = f"{self._basic.username}:{_text_of(key, file)}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        kind = self._authorization.type if self._authorization else ""
        credentials = _text_of(key, file)
        if not credentials.isascii():
            raise UnusableFileError(ScrapeFailure.AUTH, f"{key} {file.path} must hold ASCII only")
        return f"{kind} {credentials}"

    def changed_tls(self) -> Tls | None:
        """Return the TLS settings if they are not the default and changed since the last call.

        UnusableFileError when a file cannot be read or holds no certificate or key.
        """
        if self._tls == NO_CLIENT.tls_config:
            return None
        seen = tuple(_signature(key, path) for key, path in _files(self._tls))
        if seen == self._seen:
            return None
        tls = Tls(context_of(self._tls, seen), self._tls.server_name)
        self._seen = seen
        return tls


@functools.lru_cache(maxsize=32)
def context_of(config: TlsConfig, seen: tuple[Signature, ...]) -> ssl.SSLContext:  # noqa: ARG001 - a key of the cache
    """Return the context for ``config`` while its files look like ``seen``, shared by all.

    UnusableFileError when a file holds no certificate or key. A thousand targets of a
    pool share one, for each that trusts the public authorities holds all of them.
    """
    try:
        context = ssl.create_default_context(cafile=config.ca_file or DEFAULT_CA_BUNDLE_PATH)
        if config.cert_file:
            context.load_cert_chain(config.cert_file, config.key_file, password=_no_password)
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        names = ", ".join(f"{key} {path}" for key, path in _files(config))
        detail = f"{why}: {names} cannot be used"
        raise UnusableFileError(ScrapeFailure.TLS, detail) from None
    if config.ca_file:
        # Company CAs often lack the extensions that strict checks want, and a file
        # may hold a server's own certificate instead of its CA's.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if config.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _signature(key: str, path: str) -> Signature:
    try:
        return signature(path)
    except OSError as error:
        detail = f"{key} {path} cannot be read: {error.strerror}"
        raise UnusableFileError(ScrapeFailure.TLS, detail) from None


def _no_password() -> str:
    """Answer OpenSSL, which would ask the terminal for the password of an encrypted key."""
    raise ValueError("the key is encrypted")


def _files(tls: TlsConfig) -> list[tuple[str, str]]:
    named = {"ca_file": tls.ca_file, "cert_file": tls.cert_file, "key_file": tls.key_file}
    return [(key, path) for key, path in named.items() if path]


def _secret_of(config: HttpClientConfig) -> tuple[str, WatchedFile] | None:
    if config.authorization:
        return "credentials_file", WatchedFile(config.authorization.credentials_file)
    if config.basic_auth:
        return "password_file", WatchedFile(config.basic_auth.password_file)
    return None


def _text_of(key: str, file: WatchedFile) -> str:
    """Return the secret in a file without the line feed at its end."""
    try:
        text = file.read().decode().strip()
    except OSError as error:
        detail = f"{key} {file.path} cannot be read: {error.strerror}"
        raise UnusableFileError(ScrapeFailure.AUTH, detail) from None
    except UnicodeDecodeError:
        raise UnusableFileError(
            ScrapeFailure.AUTH, f"{key} {file.path} is not UTF-8 text"
        ) from None
    if not text or not text.isprintable():
        rule = "is empty" if not text else "must hold one line of printable characters"
        raise UnusableFileError(ScrapeFailure.AUTH, f"{key} {file.path} {rule}")
    return text
