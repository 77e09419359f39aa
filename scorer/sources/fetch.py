"""Fetching one target's page: whole, within a total deadline, or a failure with a reason.

No exception leaves: what can go wrong between here and a metrics port is expected.
"""

import http.cookiejar
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import requests

from scorer import __version__
from scorer.config.http_client import HttpClientConfig
from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.sources.content import decoded, refusal
from scorer.sources.deadline import Budget, DeadlineAdapter, spending
from scorer.sources.exposition import unhurried
from scorer.sources.failures import causes, explain, failed, without_userinfo
from scorer.sources.http_client import NO_CLIENT, HttpClient

MAX_BYTES = 16 * 1024 * 1024
"""Largest page, on the wire and unpacked."""

MAX_REDIRECTS = 3
KEPT_REQUESTS = 8
"""Prepared requests that a fetcher remembers: its page, and where that redirects to."""
_MAX_REDIRECT_BODY = 65_536
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_HEADERS = {
    "Accept": "text/plain;version=0.0.4, */*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": f"scorer/{__version__}",
}


@dataclass(frozen=True, slots=True)
class Fetched:
    """A body, unpacked. ``complete``: the framing of the answer proved it whole.

    ``check`` raises TimeoutError when the time for fetching and reading is up.
    """

    body: bytes
    content_type: str
    complete: bool
    status: int = 200
    check: Callable[[], object] = field(default=unhurried, compare=False)


class Fetcher:
    """Fetches ``url`` within ``timeout`` seconds in total, over one kept connection.

    ``client`` says who we are and whom to trust; ``headers`` add to those sent or replace
    them; ``statuses`` are those of answers whose body is wanted. Not for use by two
    threads at once.
    """

    def __init__(
        self,
        url: str,
        timeout: float,
        *,
        client: HttpClientConfig = NO_CLIENT,
        headers: Mapping[str, str] = NO_HEADERS,
        statuses: Collection[int] = (200,),
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._client = HttpClient(client)
        self._timeout = timeout
        self._statuses = statuses
        self._max_bytes = max_bytes
        self._clock = clock
        self._kept = False
        self._received = 0
        self._session = requests.Session()
        self._prepared: dict[tuple[str, str | None], requests.PreparedRequest] = {}
        self._session.trust_env = False
        self._session.headers = requests.structures.CaseInsensitiveDict({**_HEADERS, **headers})
        self._session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, DeadlineAdapter())

    def close(self) -> None:
        """Close the kept connection."""
        self._session.close()

    def fetch(self, timeout: float | None = None, url: str | None = None) -> Fetched | ScrapeFailed:
        """Fetch the page once, within ``timeout`` seconds and from ``url`` if they are given.

        A kept connection that the server closed before any byte of an answer is no failure of
        the target: the fetch starts over on a fresh one, within the same deadline.
        """
        budget = Budget(self._timeout if timeout is None else timeout, self._clock)
        if unprepared := self._client.prepare(self._session):
            return unprepared
        with spending(budget):
            result = self._attempt(url or self._url, budget)
            if isinstance(result, Exception) and self._was_stale(result, budget):
                self._session.close()
                self._kept = False
                result = self._attempt(url or self._url, budget)
        self._kept = isinstance(result, Fetched)
        if isinstance(result, Exception):
            self._session.close()
            return explain(result, urlsplit(without_userinfo(self._url)).netloc, budget)
        return result

    def _was_stale(self, error: Exception, budget: Budget) -> bool:
        dropped = (ConnectionResetError, BrokenPipeError)
        return (
            self._kept
            and budget.received == self._received
            and any(isinstance(cause, dropped) for cause in causes(error))
        )

    def _attempt(self, url: str, budget: Budget) -> Fetched | ScrapeFailed | Exception:
        try:
            result = self._follow(url, budget)
        except Exception as error:  # noqa: BLE001 - there is no list of what bad bytes make the libraries raise
            return error
        if isinstance(result, ScrapeFailed):
            self._session.close()  # some of the answer may not have been read
        return result

    def _follow(self, url: str, budget: Budget) -> Fetched | ScrapeFailed:
        for _ in range(MAX_REDIRECTS + 1):
            self._received = budget.received
            response = self._asked(url)
            with closing(response.raw):
                if not response.is_redirect:
                    return self._page(response, budget)
                target = _redirected(url, response.headers["location"])
                if isinstance(target, ScrapeFailed):
                    return target
                body = self._body(response, budget, _MAX_REDIRECT_BODY)
                self._kept = not isinstance(body, ScrapeFailed)
                if not self._kept:
                    self._session.close()
            url = target
        detail = f"more than {MAX_REDIRECTS} redirects, last to {without_userinfo(url)}: a loop?"
        return failed(ScrapeFailure.HTTP_STATUS, detail)

    def _asked(self, url: str) -> requests.Response:
        """Return the answer to a request, which is prepared once and sent ever after."""
        key = (url, str(self._session.headers.get("Authorization")))
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._session.prepare_request(requests.Request("GET", url))
            if len(self._prepared) >= KEPT_REQUESTS:
                self._prepared.clear()
            self._prepared[key] = prepared
        # Past the session, which would look for proxies, cookies and hooks each time.
        return self._session.get_adapter(url).send(prepared)

    def _page(self, response: requests.Response, budget: Budget) -> Fetched | ScrapeFailed:
        if response.status_code not in self._statuses:
            status = f"status {response.status_code} {response.reason or ''}"
            denied = response.status_code in (401, 403)
            return failed(ScrapeFailure.AUTH if denied else ScrapeFailure.HTTP_STATUS, status)
        wire = self._body(response, budget, self._max_bytes)
        if isinstance(wire, ScrapeFailed):
            return wire
        encoding = response.headers.get("content-encoding", "")
        body = decoded(wire, encoding, self._max_bytes)
        if isinstance(body, ScrapeFailed):
            return body
        kind = response.headers.get("content-type", "")
        framed = bool(response.raw.chunked) or "content-length" in response.headers
        return refusal(body, kind) or Fetched(body, kind, framed, response.status_code, budget.left)

    def _body(
        self, response: requests.Response, budget: Budget, limit: int
    ) -> bytes | ScrapeFailed:
        """Read the body as it came over the wire, at most ``limit`` bytes of it."""
        raw: Any = response.raw
        length = getattr(raw, "length", None)
        body: bytes = raw.read() if length is not None and length <= limit else raw.read(limit + 1)
        budget.left()
        if len(body) > limit:
            return failed(ScrapeFailure.TOO_LARGE, f"more than {limit} bytes")
        return body


def _redirected(url: str, location: str) -> str | ScrapeFailed:
    """Return where to go on; another scheme, host or port is not this target."""
    try:
        target = urljoin(url, location)
        same = _site(urlsplit(target)) == _site(urlsplit(url))
    except ValueError:
        return failed(ScrapeFailure.HTTP_STATUS, "redirected to what is no URL")
    if not same:
        detail = f"redirected to another host: {without_userinfo(target)}"
        return failed(ScrapeFailure.HTTP_STATUS, detail)
    return target


def _site(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port or {"http": 80, "https": 443}.get(url.scheme)
