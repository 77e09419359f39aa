"""Settings shared by all tests; markers are declared in pyproject.toml."""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# How long examples take says nothing on a machine that also runs engines and browsers.
settings.register_profile(
    "scorer", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("scorer")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that wait long first: beside the last of them there is always one that works."""
    waits = {"slow": 2, "system": 1}
    length: dict[object, int] = {}
    for item in items:
        mine = max((waits.get(mark.name, 0) for mark in item.iter_markers()), default=0)
        length[item.path] = max(mine, length.get(item.path, 0))
    items.sort(key=lambda item: -length[item.path])


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage is collected during a test: at the end of the stack finalizers fail.

    They would be those of other tests, and what they say would be laid at this one's door.
    """
    gc.collect()
    gc.disable()
    yield
    gc.enable()
