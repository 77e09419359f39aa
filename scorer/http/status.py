"""``/api/v1/status/…`` and ``/config``: the configuration in use, and what is running."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml
from flask import Flask, Response

from scorer.build import build_info
from scorer.http.ports import Ports
from scorer.http.rendering import html

SECRET = "<secret>"  # noqa: S105 - what stands in its place
_TELLING = r"[\w.-]*(?:passw|secret|token|credential|signature|api[_-]?key|access[_-]?key)[\w.-]*"
_KEY = re.compile(_TELLING, re.IGNORECASE)
_IN_QUERY = re.compile(rf"([?&](?:{_TELLING}|key|sig)=)[^&#\s]+", re.IGNORECASE)
_USER = re.compile(r"(\w://)[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class ConfigPage:
    """The configuration for people; ``root`` leads to the page of all targets."""

    time: str
    yaml: str
    root: str = "./"


def add_status_routes(app: Flask, ports: Ports, success: Callable[[object], Response]) -> None:
    """Add the routes."""

    def text() -> str:
        shown = without_secrets(ports.document())
        return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)

    def page() -> Response:
        clocks = ports.clocks
        shown = ConfigPage(clocks.rfc3339(clocks.monotonic()), text())
        return html("config.html", shown, ports.version)

    app.add_url_rule("/config", endpoint="config", view_func=page)
    app.add_url_rule(
        "/api/v1/status/config",
        endpoint="status_config",
        view_func=lambda: success({"yaml": text()}),
    )
    app.add_url_rule(
        "/api/v1/status/buildinfo", endpoint="buildinfo", view_func=lambda: success(build_info())
    )


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
