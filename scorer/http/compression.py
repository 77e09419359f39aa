"""Answers of the Flask application, compressed for those who accept gzip.

It is done where pages are rendered, in a worker thread, so the event loop and with it picks
never pay for it. No page holds a secret, so the length of one that echoes what was searched
for tells nothing.
"""

from flask import Response, request

from scorer.codings import SMALLEST, accepts_gzip, packed

TYPES = ("application/json", "application/openmetrics-text", "image/svg+xml")
PART = 206
"""Status of an answer that is a range of the bytes of a page, and stays one."""


def compressed(response: Response) -> Response:
    """Return the answer to Flask's current request, compressed where that is of use.

    An entity tag becomes a weak one: it stands for both forms of the page.
    """
    kind = response.mimetype or ""
    if not (kind.startswith("text/") or kind in TYPES) or response.status_code == PART:
        return response
    response.vary.add("Accept-Encoding")
    tag, _ = response.get_etag()
    if tag is not None:
        response.set_etag(tag, weak=True)
    if (response.content_length or 0) < SMALLEST:
        return response
    if "Content-Encoding" in response.headers or not accepts_gzip(
        request.headers.get("Accept-Encoding", "")
    ):
        return response
    response.direct_passthrough = False  # A file: it is read here, and closed with the answer.
    response.set_data(packed(response.get_data()))
    response.headers["Content-Encoding"] = "gzip"
    return response
