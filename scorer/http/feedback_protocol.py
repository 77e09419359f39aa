"""A short way for ``POST /feedback``, beside the one for picks.

Every request causes a pick and a report of its end, so both are spared what an ASGI
server spends on a request. A body that is announced to be short is collected and
answered where it ends, in one write; anything else goes to uvicorn as if it had never
been looked at.
"""

from scorer.http.answers import Answer
from scorer.http.feedback import ACCEPTED, FeedbackEndpoint, Reply
from scorer.http.guard import Guard
from scorer.http.pick import PickEndpoint
from scorer.http.protocol import MOST_CONNECTIONS, Connection, connections_for, monotonic
from scorer.http_stats import FEEDBACK as HANDLER

PATH = b"/feedback"
SHORT = 65_536
"""Bytes of a body that is collected here."""
JSON_LINES = b"content-type: application/json\r\ncontent-length: %d\r\n"


class FeedbackConnection(Connection):
    """One connection; ``body`` collects the body of a short report, None outside of one."""

    reports: FeedbackEndpoint
    body: bytearray | None = None

    def _not_a_pick(self) -> None:
        """Begin to collect a short report; leave what else there is to uvicorn."""
        if self._is_short_report():
            self.body = bytearray()
        else:
            super()._not_a_pick()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        if self.body is None:
            super().on_body(body)
        else:
            self.quiet = 0
            self.body += body

    def _whole(self) -> None:
        """Answer a report that is whole."""
        if self.body is None:
            super()._whole()
            return
        body, self.body = bytes(self.body), None
        started = monotonic()
        query = self.url.partition(b"?")[2]
        headers = self.guard.passed_on(self.headers)
        reply = self.reports.at_once(headers, self.client, query, body)
        if reply is None:
            self._hand_over()
            super().on_body(body)
            super()._whole()
            return
        self._send(TAKEN if reply is ACCEPTED else answer_of(reply), HANDLER)
        self.picks.served.took(HANDLER, monotonic() - started)

    @property
    def collecting(self) -> bool:
        """Whether what came of the last request is still kept."""
        return self.body is not None or super().collecting

    def _is_short_report(self) -> bool:
        """Whether the request is a report with a short body that can be answered here."""
        if self.url != PATH and not self.url.startswith(PATH + b"?"):
            return False
        if self.answering or self.expect_100_continue or self.parser.get_method() != b"POST":
            return False
        if not self.guard.knows(self.headers):
            return False
        for name, value in self.headers:
            if name == b"content-length":
                return value.isdigit() and len(value) < 6 and int(value) <= SHORT
        return False


def answer_of(reply: Reply) -> Answer:
    """Return a reply as the bytes that go over the wire."""
    lines = b"".join(b"%b: %b\r\n" % header for header in reply.headers)
    return Answer(reply.status, JSON_LINES % len(reply.body) + lines, reply.body, "")


TAKEN = answer_of(ACCEPTED)
"""The answer that nearly every report gets."""


def connections_with(
    picks: PickEndpoint,
    reports: FeedbackEndpoint,
    most: int = MOST_CONNECTIONS,
    guard: Guard | None = None,
) -> type[FeedbackConnection]:
    """Return the protocol class whose connections, at most ``most``, these endpoints answer.

    ``guard`` says who is let in.
    """
    return type(
        "ShortConnection",
        (FeedbackConnection, connections_for(picks)),
        {"reports": reports, "most": most, "guard": guard or Guard()},
    )
