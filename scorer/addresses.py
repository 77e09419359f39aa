"""Addresses of targets: ``host:port``, ``[IPv6]:port``, an optional path prefix.

One spelling per target, because the address is its name in picks, gauges and the
API. The port is required: nothing is sent to port 80 by accident.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import SplitResult, urlsplit

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~%+@=-]+)*/?")
MAX_PORT = 65_535
LONGEST_HOST = 253


def is_host(text: str) -> bool:
    """Whether ``text`` is written as a host name or an IPv4 address."""
    return len(text) <= LONGEST_HOST and _HOST.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Address:
    """A target's address: ``scheme``, ``netloc`` (``host:port``) and ``prefix`` ("" or "/path").

    ``name`` is what the target is called everywhere.
    """

    scheme: str
    netloc: str
    prefix: str = ""

    @property
    def name(self) -> str:
        """The target's name: ``host:port`` and the path prefix."""
        return self.netloc + self.prefix

    @property
    def host(self) -> str:
        """The host, an IPv6 address in brackets."""
        return self.netloc.rpartition(":")[0]

    @property
    def url(self) -> str:
        """The base URL that a gateway sends requests to."""
        return f"{self.scheme}://{self.netloc}{self.prefix}"


def parse_address(text: str, scheme: str = "http") -> Address:
    """Return the address that ``text`` names; ValueError says which rule it breaks.

    ``scheme`` is used when the text has none.
    """
    try:
        parts = urlsplit(text if "://" in text else f"{scheme}://{text}")
    except ValueError:
        _refuse("must put an IPv6 address in brackets, as [::1]:8000")
    if parts.scheme not in ("http", "https"):
        _refuse("must use the scheme http or https")
    if parts.username is not None or "?" in text or "#" in text:
        _refuse("must be host:port with an optional path, nothing else")
    if _unbracketed_ipv6(text):
        _refuse("must put an IPv6 address in brackets, as [::1]:8000")
    # urlsplit drops blanks, tabs and line feeds where they cannot stand.
    if not text.isprintable() or " " in text:
        _refuse("must not contain blanks or control characters")
    # The path is part of a name, which stands in lists, headers and the API's own paths.
    if not _PREFIX.fullmatch(parts.path):
        _refuse("must have a path of letters, digits and any of . _ ~ % + @ = -")
    if "[" in parts.netloc and ":" not in (parts.hostname or ""):
        _refuse("must put an IPv6 address in brackets, as [::1]:8000")
    return Address(parts.scheme, f"{_host(parts.hostname)}:{_port(parts)}", parts.path.rstrip("/"))


def _refuse(rule: str) -> NoReturn:
    raise ValueError(rule)


def _unbracketed_ipv6(text: str) -> bool:
    host = text.rsplit("://", maxsplit=1)[-1].split("/", maxsplit=1)[0]
    return host.count(":") > 1 and not host.startswith("[")


def _host(host: str | None) -> str:
    if host and ":" in host:
        if "%" in host:
            _refuse("must be an IPv6 address without a zone")
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            _refuse("must put an IPv6 address in brackets, as [::1]:8000")
        # Versions of Python differ in how they write it, and a name must not depend on them.
        mapped = address.ipv4_mapped
        return f"[::ffff:{mapped}]" if mapped else f"[{address.compressed}]"
    if not host or not is_host(host):
        _refuse("must name a host as host:port")
    return host


def _port(parts: SplitResult) -> int:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port is None:
        _refuse("must name the port, as host:port")
    if not 0 < port <= MAX_PORT:
        _refuse("must have a port from 1 to 65535")
    return port
