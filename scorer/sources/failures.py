"""Exceptions of a fetch as values: which reason of the closed set, and a sentence for people."""

import errno
import http.client
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import requests
import urllib3.exceptions

from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.sources.deadline import Budget

_LONGEST = 200
_OURS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of a process or host that has run out of something: no fault of the target."""
_OURS_RESOLVING = (socket.EAI_SYSTEM, socket.EAI_MEMORY)


def without_userinfo(url: str) -> str:
    """Return ``url`` without user and password, which must not reach logs and pages."""
    try:
        parts = urlsplit(url)
    except ValueError:  # such as http://[::1, which is no URL
        return url.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def failed(reason: ScrapeFailure, detail: str, *, refused: bool = False) -> ScrapeFailed:
    """Return a failure whose detail is one line of at most 200 characters."""
    line = " ".join(detail.split())
    if len(line) > _LONGEST:
        line = line[: _LONGEST - 1] + "…"
    return ScrapeFailed(reason, line, refused)


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield ``error`` and everything it stands for, outermost first.

    requests and urllib3 wrap by cause, by argument and by a ``reason`` attribute.
    """
    pending: list[object] = [error]
    seen: set[int] = set()
    while pending:
        found = pending.pop(0)
        if not isinstance(found, BaseException) or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        pending += [found.__cause__, found.__context__, getattr(found, "reason", None)]
        pending += found.args


def explain(error: BaseException, where: str, budget: Budget) -> ScrapeFailed:
    """Return the failure that ``error`` means; ``where`` is the ``host:port`` asked."""
    asked = budget.received == 0 or isinstance(error, requests.RequestException)
    if asked and isinstance(error, ValueError) and not isinstance(error, ssl.SSLError):
        # requests says so of a URL that it cannot use; some errors of TLS are both.
        return failed(ScrapeFailure.CONNECT, f"not a URL that can be fetched, at {where!r}")
    if ours := next((c for c in causes(error) if _is_ours(c)), None):
        return failed(ScrapeFailure.LOCAL, f"scorer itself cannot connect: {_text(ours)}")
    found = [c for c in causes(error) if not isinstance(c, requests.RequestException)][::-1]
    for kinds, explanation in _EXPLANATIONS:
        for cause in found:
            if isinstance(cause, kinds):
                return explanation(cause, where, budget)
    return _strange(found[0] if found else error, where, budget)


def _is_ours(cause: BaseException) -> bool:
    if isinstance(cause, socket.gaierror):
        return cause.errno in _OURS_RESOLVING
    return isinstance(cause, MemoryError) or (
        isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and cause.errno in _OURS
    )


def _text(cause: BaseException) -> str:
    return getattr(cause, "strerror", None) or str(cause) or "out of memory"


def _timeout(_: BaseException, where: str, budget: Budget) -> ScrapeFailed:
    limit = f"{budget.seconds:g}s"
    if not budget.received:
        return failed(ScrapeFailure.TIMEOUT, f"no answer from {where} within {limit}")
    detail = f"no complete answer within {limit} ({budget.received} bytes received)"
    return failed(ScrapeFailure.TIMEOUT, detail)


def _refused(_: BaseException, where: str, __: Budget) -> ScrapeFailed:
    detail = f"connection refused by {where}: nothing listens there"
    return failed(ScrapeFailure.CONNECT, detail, refused=True)


def _unresolved(cause: BaseException, where: str, _: Budget) -> ScrapeFailed:
    text = getattr(cause, "strerror", None) or str(cause)
    return failed(ScrapeFailure.CONNECT, f"cannot resolve the host of {where}: {text}")


def _tls(cause: BaseException, where: str, _: Budget) -> ScrapeFailed:
    text = getattr(cause, "verify_message", None) or getattr(cause, "reason", None) or str(cause)
    if text == "WRONG_VERSION_NUMBER":
        text = "the port does not speak TLS"
    return failed(ScrapeFailure.TLS, f"TLS with {where} failed: {text}")


def _cut(cause: BaseException, where: str, budget: Budget) -> ScrapeFailed:
    if isinstance(cause, OSError) and not budget.received:
        text = cause.strerror or "closed without an answer"
        return failed(ScrapeFailure.CONNECT, f"no answer from {where}: {text}")
    detail = f"the answer ends early or is broken after {budget.received} bytes"
    return failed(ScrapeFailure.TRUNCATED, detail)


def _strange(cause: BaseException, where: str, _: Budget) -> ScrapeFailed:
    return failed(ScrapeFailure.WRONG_CONTENT, f"no valid HTTP answer from {where}: {cause}")


_EXPLANATIONS = (
    ((TimeoutError, urllib3.exceptions.TimeoutError), _timeout),
    ((ssl.SSLError,), _tls),
    ((urllib3.exceptions.SSLError,), _tls),
    ((ConnectionRefusedError,), _refused),
    ((socket.gaierror,), _unresolved),
    ((http.client.IncompleteRead, urllib3.exceptions.InvalidChunkLength), _cut),
    ((OSError,), _cut),
    ((http.client.HTTPException,), _strange),
    ((urllib3.exceptions.ProtocolError,), _cut),
)
"""By precedence; of several causes of one kind the innermost says most."""
