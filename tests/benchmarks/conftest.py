"""Shared by the tests of the benchmarks."""

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_as_before():
    """Let a benchmark that logs little log as before elsewhere."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
