"""Fetching one target's page: whole, within a total deadline, or a failure with a reason.

No exception leaves: what can go wrong between here and a metrics port is expected.
"""

import http.cookiejar
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import SplitResult, urljoin, urlsplit

import requests
import urllib3.exceptions

from scorer import __version__
from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import ScrapeFailure
from scorer.sources.content import decoded, refusal
from scorer.sources.deadline import Budget, DeadlineAdapter, spending
from scorer.sources.failures import causes, explain, failed, without_userinfo

MAX_BYTES = 16 * 1024 * 1024
"""Largest page, on the wire and unpacked."""

MAX_REDIRECTS = 3
_MAX_REDIRECT_BODY = 65_536
_CHUNK = 65_536
_HEADERS = {
    "Accept": "text/plain;version=0.0.4, */*;q=0.1",
    "Accept-Encoding": "gzip",
    "User-Agent": f"scorer/{__version__}",
}


@dataclass(frozen=True, slots=True)
class Fetched:
    """A body, unpacked. ``complete``: the framing of the answer proved it whole."""

    body: bytes
    content_type: str
    complete: bool


class _Session(requests.Session):
    """A session that leaves redirects alone: requests reads their bodies without a limit."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002
        return None


class Fetcher:
    """Fetches ``url`` within ``timeout`` seconds in total, over one kept connection.

    Not for use by two threads at once.
    """

    def __init__(
        self,
        url: str,
        timeout: float,
        *,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._clock = clock
        self._kept = False
        self._session = _Session()
        self._session.trust_env = False
        self._session.headers = requests.structures.CaseInsensitiveDict(_HEADERS)
        self._session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, DeadlineAdapter())

    def close(self) -> None:
        """Close the kept connection."""
        self._session.close()

    def fetch(self) -> Fetched | ScrapeFailed:
        """Fetch the page once.

        A kept connection that the server closed before any byte is no failure of the
        target: the fetch starts over on a fresh one, within the same deadline.
        """
        budget = Budget(self._timeout, self._clock)
        with spending(budget):
            result = self._attempt(budget)
            if isinstance(result, Exception) and self._was_stale(result, budget):
                self._session.close()
                self._kept = False
                result = self._attempt(budget)
        self._kept = not isinstance(result, Exception)
        if isinstance(result, Exception):
            self._session.close()
            return explain(result, urlsplit(without_userinfo(self._url)).netloc, budget)
        return result

    def _was_stale(self, error: Exception, budget: Budget) -> bool:
        dropped = (ConnectionResetError, BrokenPipeError)
        return (
            self._kept
            and not budget.received
            and any(isinstance(cause, dropped) for cause in causes(error))
        )

    def _attempt(self, budget: Budget) -> Fetched | ScrapeFailed | Exception:
        try:
            return self._follow(budget)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            return error

    def _follow(self, budget: Budget) -> Fetched | ScrapeFailed:
        url = self._url
        for _ in range(MAX_REDIRECTS + 1):
            with self._session.get(
                url, stream=True, allow_redirects=False, timeout=budget.left()
            ) as response:
                if not response.is_redirect:
                    return self._page(response, budget)
                target = _redirected(url, response.headers["location"])
                if isinstance(target, ScrapeFailed):
                    return target
                self._body(response, budget, _MAX_REDIRECT_BODY)
            url = target
        detail = f"more than {MAX_REDIRECTS} redirects, last to {without_userinfo(url)}: a loop?"
        return failed(ScrapeFailure.HTTP_STATUS, detail)

    def _page(self, response: requests.Response, budget: Budget) -> Fetched | ScrapeFailed:
        if response.status_code != requests.codes.ok:
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
        return refusal(body, kind) or Fetched(body, kind, framed)

    def _body(
        self, response: requests.Response, budget: Budget, limit: int
    ) -> bytes | ScrapeFailed:
        """Read the body as it came over the wire, at most ``limit`` bytes of it."""
        body = bytearray()
        for chunk in response.raw.stream(_CHUNK, decode_content=False):
            body += chunk
            if len(body) > limit:
                return failed(ScrapeFailure.TOO_LARGE, f"more than {limit} bytes")
            budget.left()
        return bytes(body)


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
