"""TLS of the listener, and the file that configures it: new connections get what is there now.

The file and those it names are looked at every second. One that cannot be used changes
nothing: connections go on to get what was good before.
"""

import ssl
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import structlog

from scorer.config.errors import ConfigError
from scorer.config.files import FileName, values
from scorer.config.web_file import TlsServerConfig, WebFile, load_web_file
from scorer.http.guard import Guard
from scorer.sources.watched import signature

LOOK_EVERY = 1.0
"""Seconds between two looks at the files."""

logger = structlog.stdlib.get_logger(__name__)

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


def server_context(config: TlsServerConfig) -> ssl.SSLContext:
    """Return the context of a configuration; ConfigError names the file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.min_version]
    context.maximum_version = _VERSIONS[config.max_version]
    context.set_alpn_protocols(["http/1.1"])
    if not config.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if config.cipher_suites:
        context.set_ciphers(":".join(config.cipher_suites))
    try:
        context.load_cert_chain(config.cert_file, config.key_file, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError([f"tls_server_config: {_why(error, config)}"]) from None
    if config.client_ca_file:
        try:
            context.load_verify_locations(config.client_ca_file)
        except (ssl.SSLError, OSError) as error:
            what = f"holds no certificate ({_reason(error)}), got {config.client_ca_file}"
            raise ConfigError([f"tls_server_config.client_ca_file: {what}"]) from None
    context.verify_mode = _VERIFY[config.client_auth_type]
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _why(error: Exception, config: TlsServerConfig) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return f"key_file does not belong to cert_file, got {config.key_file}"
    rule = "cert_file and key_file must hold a certificate and its key"
    return f"{rule} ({_reason(error)}), got {config.cert_file} and {config.key_file}"


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return (reason or str(error)).lower().replace("_", " ")


class ChangingContext(ssl.SSLContext):
    """A context whose connections, each for itself, get the one that is current."""

    current: ssl.SSLContext

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:  # noqa: ANN401 - ssl's own
        """Begin a connection."""
        return self.current.wrap_bio(*args, **kwargs)


class WebFileKeeper:
    """TLS and basic auth as a file says; ``context`` is None without TLS."""

    def __init__(self, path: Path | None) -> None:
        """Read the file, if there is one; ConfigError when it cannot be used."""
        self.guard = Guard()
        self.context: ChangingContext | None = None
        self._path = path
        self._files: tuple[str, ...] = () if path is None else (str(path),)
        self._seen: object = None
        if path is not None:
            found, context = read(path)
            self._take(found)
            if context is not None:
                self.context = ChangingContext(ssl.PROTOCOL_TLS_SERVER)
                self.context.current = context
            self._seen = _looks(self._files)

    def watch(self) -> None:
        """Look at the files from here on, in a thread that ends with the process."""
        if self._path is not None:
            threading.Thread(target=self._watch, name="web-file", daemon=True).start()

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_EVERY):
            self.look()

    def look(self) -> None:
        """Read the files again if any of them changed."""
        seen = _looks(self._files)
        if self._path is None or seen == self._seen:
            return
        self._seen = seen
        try:
            found, context = read(self._path)
        except ConfigError as error:
            for problem in error.problems:
                logger.error(  # noqa: TRY400 - the problem says it all
                    "Web configuration not reloaded", file=str(self._path), problem=problem
                )
            return
        if (context is None) != (self.context is None):
            logger.warning("tls_server_config comes and goes with a restart only")
        elif self.context is not None and context is not None:
            self.context.current = context
        self._take(found)
        self._seen = _looks(self._files)
        logger.info("Web configuration reloaded", file=str(self._path))

    def _take(self, found: WebFile) -> None:
        self.guard.use(found.basic_auth_users)
        named = {str(value) for _, value in values(found) if isinstance(value, FileName)}
        self._files = (str(self._path), *sorted(named))


def read(path: Path) -> tuple[WebFile, ssl.SSLContext | None]:
    """Return a file and the context of its TLS; ConfigError when they cannot be used."""
    found = load_web_file(path)
    tls = found.tls_server_config
    return found, None if tls is None else server_context(tls)


def _looks(paths: Iterable[str]) -> tuple[object, ...]:
    return tuple(_look(path) for path in paths)


def _look(path: str) -> object:
    try:
        return signature(path)
    except OSError as error:
        return error.strerror
