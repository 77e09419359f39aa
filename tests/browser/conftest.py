"""One browser for all tests of pages, and pictures of what it saw."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scorer.http.ports import Ports
from tests.browser.chromium import Browser, chromium
from tests.http.serving import serving


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return a browser, the same for all tests."""
    with chromium(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[[Ports], str]]:
    """Return what serves an interface until the end and returns its address."""
    with contextlib.ExitStack() as stack:
        yield lambda given: f"http://127.0.0.1:{stack.enter_context(serving(given))}"


@pytest.fixture
def keep(browser: Browser, request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave a picture of what the test saw last, where pictures are wanted."""
    yield
    if folder := os.environ.get("SCORER_SCREENSHOTS"):
        name = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
        browser.save(Path(folder) / f"{name}.png")
