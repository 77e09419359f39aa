"""Requests to a running daemon, for the command line.

Proxies and ``.netrc`` of the environment are not looked at: the daemon is asked
directly.
"""

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import requests

from scorer.sources.deadline import Budget
from scorer.sources.failures import causes, explain

TIMEOUT = 10.0
"""Seconds that the daemon may keep silent."""


class ClientError(Exception):
    """The daemon did not do what it was asked; the message is one line."""


def ask(method: str, url: str, path: str, *, params: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - any JSON
    """Return the data of an answer of the API at ``url``; ClientError says why there is none."""
    address = url.rstrip("/") + path
    try:
        with requests.Session() as session:
            session.trust_env = False
            answer = session.request(
                method, address, params=params, timeout=TIMEOUT, allow_redirects=False
            )
    except requests.RequestException as error:
        raise ClientError(_why(error, url)) from None
    try:
        document = answer.json()
        if answer.ok and document["status"] == "success":
            return document["data"]
        message = " ".join(str(document["error"]).split())
    except (ValueError, LookupError, TypeError):
        message = f"{url} answered {answer.status_code}, and not as scorer does"
    raise ClientError(message)


def _why(error: requests.RequestException, url: str) -> str:
    """Return one line about a request that got no answer.

    What the system says is at the bottom; urllib3 calls every failed connection a timeout.
    """
    system = [
        each for each in causes(error)
        if isinstance(each, OSError) and not isinstance(each, requests.RequestException)
    ]  # fmt: skip
    where = urlsplit(url).netloc.rpartition("@")[2] or url
    return explain(system[-1] if system else error, where, Budget(TIMEOUT, time.monotonic)).detail
