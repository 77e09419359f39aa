"""Answers of the Flask application: data, files, and what is wrong in the form of the path.

Nothing that Flask says of its own accord gets out: its errors are problems like any other.
"""

import json
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from scorer.http.feedback import CHALLENGE
from scorer.http.problems import (
    BROKEN,
    Problem,
    speaks_json,
    unknown_path,
    wrong_method,
)
from scorer.http.table import table


def add_errors(app: Flask) -> None:
    """Answer every error of ``app`` as a problem, and OPTIONS as any method nobody takes."""
    app.before_request(_refuse_options)
    app.register_error_handler(HTTPException, _error)


def success(data: object) -> Response:
    """Return the API's answer with ``data``."""
    return json_response({"status": "success", "data": data})


def failure(problem: Problem) -> Response:
    """Return the API's answer to a request that cannot be served."""
    response = Response(problem.json(), problem.status, content_type="application/json")
    if problem.status == 401:
        response.headers["WWW-Authenticate"] = CHALLENGE
    return _allowing(response, problem)


def plain(problem: Problem) -> Response:
    """Return a problem as plain text."""
    response = Response(problem.text(), problem.status, content_type="text/plain; charset=utf-8")
    return _allowing(response, problem)


def _allowing(response: Response, problem: Problem) -> Response:
    if problem.allow:
        response.headers["Allow"] = ", ".join(problem.allow)
    return response


def json_response(data: object) -> Response:
    """Return ``data`` as JSON."""
    body = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Response(body, content_type="application/json")


def csv_file(pools: list[dict[str, Any]]) -> Response:
    """Return the targets of pools as a file."""
    text = table(target for pool in pools for target in pool["targets"])
    disposition = 'attachment; filename="scorer-targets.csv"'
    headers = {"Content-Disposition": disposition, "Cache-Control": "no-store"}
    content_type = "text/csv; charset=utf-8; header=present"
    return Response(text.encode("utf-8", "replace"), headers=headers, content_type=content_type)


def _refuse_options() -> None:
    """Flask would answer it by itself, and only where the rest of the interface does not."""
    if request.method == "OPTIONS" and request.url_rule is not None:
        raise MethodNotAllowed(request.url_rule.methods)


def _error(error: HTTPException) -> Response:
    problem = _problem(error)
    return failure(problem) if speaks_json(request.path) else plain(problem)


def _problem(error: HTTPException) -> Problem:
    if isinstance(error, MethodNotAllowed):
        allowed = set(error.valid_methods or ()) - {"OPTIONS"}
        return wrong_method(request.path, request.method, allowed)
    if isinstance(error, NotFound):
        return unknown_path(request.path)
    status = error.code or 500
    return BROKEN if status >= 500 else Problem(status, "bad_data", f"request: {error.name}")
