"""What is wrong with a request, and the answer that says so.

Programs get the API's JSON, people and probes a line of text, by the path alone: nobody has
to ask for the form of an error. Every message names what is wrong, the rule and the value.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from scorer.http.answers import JSON_TYPE, quoted
from scorer.http.ports import Scope, Send

SHOWN = 80
"""Characters of a path or a method that a message repeats."""
TEXT_TYPE = (b"content-type", b"text/plain; charset=utf-8")
READ = ("GET", "HEAD")

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request cannot be answered: HTTP ``status``, kind and sentence.

    ``allow`` are the methods that the path takes, where another one is the problem.
    """

    status: int
    kind: str
    message: str
    allow: Sequence[str] = ()

    def json(self) -> bytes:
        """Return the body of the API's answer."""
        text = f'{{"status":"error","errorType":"{self.kind}","error":{quoted(self.message)}}}'
        return text.encode("utf-8", "backslashreplace")

    def text(self) -> bytes:
        """Return the body of an answer in plain text."""
        return f"{self.message}\n".encode("utf-8", "backslashreplace")


def speaks_json(path: str) -> bool:
    """Return whether what is wrong with a request for ``path`` is said in JSON."""
    return path.startswith(("/api/", "/pick/")) or path in ("/api", "/pick", "/feedback")


def wrong_method(path: str, method: str, allowed: Collection[str]) -> Problem:
    """Return the problem of a method that a path does not take."""
    *most, last = sorted(allowed)
    rule = f"{', '.join(most)} or {last}" if most else last
    message = f'method: must be {rule} for {shown(path)}, got "{shown(method)}"'
    return Problem(405, "method_not_allowed", message, (*most, last))


def unknown_path(path: str) -> Problem:
    """Return the problem of a path that nobody answers."""
    return Problem(404, "not_found", f'path: no such path, got "{shown(path)}"')


def too_large(most: int) -> Problem:
    """Return the problem of a body of more than ``most`` bytes."""
    return Problem(413, "too_large", f"the body must have at most {most} bytes")


BROKEN = Problem(500, "internal", "the request failed, see the log")


def shown(text: str) -> str:
    """Return what a message repeats of a text that a client made up."""
    return printable(text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…")


def printable(text: str) -> str:
    """Return ``text`` with what would not show, or break a line, written as escapes."""
    if text.isprintable():
        return text
    visible = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return "".join(visible)


async def refuse(scope: Scope, send: Send, problem: Problem, headers: Headers = ()) -> None:
    """Answer that a request cannot be served, in the form that its path has."""
    as_json = speaks_json(scope["path"])
    kind, body = (JSON_TYPE, problem.json()) if as_json else (TEXT_TYPE, problem.text())
    if problem.allow:
        headers = [*headers, (b"allow", ", ".join(problem.allow).encode())]
    await send_whole(scope, send, problem.status, [kind, *headers], body)


async def send_text(scope: Scope, send: Send, status: int, text: str) -> None:
    """Send a short answer in plain text."""
    await send_whole(scope, send, status, [TEXT_TYPE], text.encode())


async def send_whole(scope: Scope, send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send an answer in one piece; to HEAD without its body."""
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
