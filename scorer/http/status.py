"""``/api/v1/status/…``: the configuration that is in use, and what is running."""

import re
from collections.abc import Callable
from typing import Any

import yaml
from flask import Flask, Response

from scorer.build import build_info

SECRET = "<secret>"  # noqa: S105 - what stands in its place
_TELLING = r"[\w.-]*(?:passw|secret|token|credential|signature|api[_-]?key|access[_-]?key)[\w.-]*"
_KEY = re.compile(_TELLING, re.IGNORECASE)
_IN_QUERY = re.compile(rf"([?&](?:{_TELLING}|key|sig)=)[^&#\s]+", re.IGNORECASE)
_USER = re.compile(r"(\w://)[^/@\s]+@")


def add_status_routes(
    app: Flask, document: Callable[[], dict[str, Any]], success: Callable[[object], Response]
) -> None:
    """Add the routes; ``document`` returns the configuration as its file has it."""

    def config() -> Response:
        shown = without_secrets(document())
        text = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)
        return success({"yaml": text})

    app.add_url_rule("/api/v1/status/config", view_func=config)
    app.add_url_rule("/api/v1/status/buildinfo", view_func=lambda: success(build_info()))


def without_secrets(value: Any, key: str = "") -> Any:  # noqa: ANN401 - any YAML
    """Return a value of a configuration with everything that may be secret replaced.

    What files hold is not in it; a URL or a label may hold a secret all the same.
    """
    if isinstance(value, dict):
        return {name: without_secrets(each, str(name)) for name, each in value.items()}
    if isinstance(value, list):
        return [without_secrets(each, key) for each in value]
    if not isinstance(value, str):
        return value
    if _KEY.fullmatch(key) and not key.endswith(("_file", "_tokens")):
        return SECRET
    return _IN_QUERY.sub(rf"\g<1>{SECRET}", _USER.sub(rf"\g<1>{SECRET}@", value))
