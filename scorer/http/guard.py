"""Basic auth in front of every path, as exporter-toolkit has it.

A bcrypt hash is made to take long, and a pick may not: what a user proved once is
remembered as a keyed digest, and only who has not proved it yet costs a hash, one at a
time and in a thread. There is one ``Authorization`` header, so behind basic auth the
tokens of operators and of feedback come as ``X-Scorer-Token``.
"""

import asyncio
import base64
import binascii
import hmac
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import bcrypt

from scorer.http.ports import ASGIApp, Receive, Scope, Send
from scorer.http.problems import Problem, refuse

AUTHORIZATION, TOKEN = b"authorization", b"x-scorer-token"
MOST_WAITING = 64
"""Requests that may wait for their password to be hashed."""
LONGEST_PASSWORD = 72
"""Bytes of a password that bcrypt looks at."""
STRANGER = (
    Problem(401, "unauthorized", "Authorization: must be basic, with a known user and password"),
    [(b"www-authenticate", b'Basic realm="scorer"')],
)
BUSY = (
    Problem(503, "overloaded", "too many wait for their password to be checked"),
    [(b"retry-after", b"1")],
)

Header = tuple[bytes, bytes]


class _Given(NamedTuple):
    user: str
    password: bytes


class Guard:
    """Who may ask for anything; any thread may call :meth:`use`, the rest is the loop's."""

    def __init__(self, users: Mapping[str, str] | None = None) -> None:
        """Ask nobody for a password unless there are ``users``, by name their hashes."""
        self._users: Mapping[str, str] = {}
        self._proved: dict[str, bytes] = {}
        self._secret = os.urandom(32)
        self._turn = asyncio.Lock()
        self._waiting = 0
        self.use(users or {})

    def use(self, users: Mapping[str, str]) -> None:
        """Let these users in from here on; what others proved is forgotten."""
        if users != self._users:
            self._users, self._proved = dict(users), {}

    def knows(self, headers: Iterable[Header]) -> bool:
        """Return whether a request may pass without anybody's password being hashed."""
        if not self._users:
            return True
        given = _given(headers)
        return given is not None and self._has_proved(given)

    async def admits(self, headers: Iterable[Header]) -> bool | None:
        """Return whether a request may pass, None when too many wait to be told."""
        users = self._users
        if not users:
            return True
        given = _given(headers)
        if given is None:
            return False
        if self._has_proved(given):
            return True
        if self._waiting >= MOST_WAITING:
            return None
        self._waiting += 1
        try:
            async with self._turn:
                return self._has_proved(given) or await self._prove(given)
        finally:
            self._waiting -= 1

    async def _prove(self, given: _Given) -> bool:
        users, proved = self._users, self._proved
        if not users:
            return True
        # A name that nobody has takes as long as one that somebody has.
        known = users.get(given.user, next(iter(users.values())))
        right = await asyncio.to_thread(_matches, given.password, known)
        if not right or given.user not in users:
            return False
        proved[given.user] = self._digest(given)
        return self._users is users

    def _has_proved(self, given: _Given) -> bool:
        proved = self._proved.get(given.user)
        return proved is not None and hmac.compare_digest(proved, self._digest(given))

    def _digest(self, given: _Given) -> bytes:
        return hmac.digest(self._secret, given.password, "sha256")

    def in_front_of(self, app: ASGIApp) -> ASGIApp:
        """Return an application that asks everybody for a password first."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                if not (admitted := await self.admits(scope["headers"])):
                    await refuse(scope, send, *(BUSY if admitted is None else STRANGER))
                    return
                scope["headers"] = self.passed_on(scope["headers"])
            await app(scope, receive, send)

        return guarded

    def passed_on(self, headers: list[Header]) -> list[Header]:
        """Return the headers behind the guard: a token in the place of the password."""
        if not self._users:
            return headers
        return [
            (AUTHORIZATION, b"Bearer " + value) if name == TOKEN else (name, value)
            for name, value in headers
            if name != AUTHORIZATION
        ]


def _given(headers: Iterable[Header]) -> _Given | None:
    """Return the name and password that a request came with, None without."""
    for name, value in headers:
        if name == AUTHORIZATION:
            scheme, _, encoded = value.partition(b" ")
            if scheme.lower() != b"basic":
                return None
            try:
                user, colon, password = base64.b64decode(encoded.strip()).partition(b":")
                return _Given(user.decode(), password) if colon else None
            except (binascii.Error, ValueError):
                return None
    return None


def _matches(password: bytes, known: str) -> bool:
    try:
        return bcrypt.checkpw(password[:LONGEST_PASSWORD], known.encode())
    except ValueError:  # such as a NUL in the password
        return False
