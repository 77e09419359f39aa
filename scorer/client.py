"""Requests to a running daemon, for the command line.

Proxies and ``.netrc`` of the environment are not looked at: the daemon is asked
directly, with our own token or none.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import requests

from scorer.core.vocabulary import Verb
from scorer.sources.deadline import Budget
from scorer.sources.failures import causes, explain

TIMEOUT = 10.0
"""Seconds that the daemon may keep silent."""


class ClientError(Exception):
    """The daemon did not do what it was asked; the message is one line."""


def ask(
    method: str,
    url: str,
    path: str,
    *,
    params: Mapping[str, str] | None = None,
    body: Mapping[str, str] | None = None,
    token_file: Path | None = None,
) -> Any:  # noqa: ANN401 - any JSON
    """Return the data of an answer of the API at ``url``; ClientError says why there is none.

    ``token_file`` holds the bearer token to send.
    """
    headers = {"Authorization": _authorization(token_file)} if token_file else {}
    address = url.rstrip("/") + path
    try:
        with requests.Session() as session:
            session.trust_env = False
            answer = session.request(
                method, address, params=params, json=body, headers=headers,
                timeout=TIMEOUT, allow_redirects=False,
            )  # fmt: skip
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


def order(
    verb: Verb,
    target: str,
    body: Mapping[str, str],
    *,
    pool: str | None,
    url: str,
    token_file: Path | None,
) -> Any:  # noqa: ANN401 - any JSON
    """Give an operator's order about a target; return what then applies in each pool."""
    path = f"/api/v1/targets/{quote(target, safe='/:')}/{verb}"
    params = {"pool": pool} if pool else {}
    return ask("POST", url, path, params=params, body=body, token_file=token_file)


def _why(error: requests.RequestException, url: str) -> str:
    """Return one line about a request that got no answer.

    What the system says is at the bottom; urllib3 calls every failed connection a timeout.
    """
    if isinstance(error, ValueError):  # requests says so of a URL that it cannot use
        return f"the URL must be one such as http://127.0.0.1:9808, got {url.rpartition('@')[2]}"
    system = [
        each for each in causes(error)
        if isinstance(each, OSError) and not isinstance(each, requests.RequestException)
    ]  # fmt: skip
    where = urlsplit(url).netloc.rpartition("@")[2]
    return explain(system[-1] if system else error, where, Budget(TIMEOUT, time.monotonic)).detail


def _authorization(token_file: Path) -> str:
    """Return the header's value; ClientError, without the token, when there is none to send."""
    try:
        token = token_file.read_bytes().strip()
    except OSError as error:
        raise ClientError(f"{token_file}: cannot be read: {error.strerror}") from None
    if not token or any(byte < 0x20 or byte == 0x7F for byte in token):
        raise ClientError(f"{token_file}: must hold a token, on one line")
    return f"Bearer {token.decode('latin-1')}"
