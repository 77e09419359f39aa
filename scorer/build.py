"""What is running: version, the commit it was installed from, and on what."""

import importlib.metadata
import json
import platform
from functools import cache

from scorer import __version__

UNKNOWN = "unknown"


@cache
def revision() -> str:
    """Return the commit that pip installed from, ``unknown`` when it was no repository."""
    try:
        text = importlib.metadata.distribution("scorer").read_text("direct_url.json")
        return str(json.loads(text or "{}")["vcs_info"]["commit_id"])
    except (importlib.metadata.PackageNotFoundError, LookupError, TypeError, ValueError):
        return UNKNOWN


def build_info() -> dict[str, str]:
    """Return all of it by name."""
    return {
        "version": __version__,
        "revision": revision(),
        "pythonVersion": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def version_text() -> str:
    """Return what ``--version`` prints."""
    facts = build_info()
    return (
        f"scorer, version {facts['version']} (revision: {facts['revision']})\n"
        f"  python version: {facts['pythonVersion']}\n"
        f"  platform:       {facts['platform']}"
    )
