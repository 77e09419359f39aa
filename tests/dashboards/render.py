"""Draws the dashboards on two hours of the daemon's metrics; run by `make dashboards-render`.

`dashboards/render` does the drawing, with Grafana's own components in headless Chromium.
"""

import logging
import subprocess
import sys
import tempfile
from pathlib import Path

import structlog

from tests.dashboards.boards import FOLDER
from tests.dashboards.history import END, START, serving, write_history

IMAGES = FOLDER.parent / "docs" / "images"


def main() -> int:
    """Write an image of each dashboard; return how the drawing went."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_history(folder)
        with serving(folder) as server:
            command = [
                "node",
                "shoot.mjs",
                server.url,
                str(START + 300),
                str(int(END)),
                str(IMAGES),
            ]
            return subprocess.run(command, cwd=FOLDER / "render", check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
