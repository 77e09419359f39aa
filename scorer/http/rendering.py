"""Pages for people: a template filled in, with headers that let it load nothing from elsewhere.

No script runs, whatever a template or a name in it may bring; forms go to this daemon only.
"""

from flask import Response, render_template

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def html(
    template: str, page: object, version: str, refresh: int = 0, status: int = 200
) -> Response:
    """Return a page that reloads itself every ``refresh`` seconds, 0 for never."""
    text = render_template(template, page=page, refresh=refresh, version=version)
    return Response(text.encode("utf-8", "replace"), status, headers=HEADERS)
