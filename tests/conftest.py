"""Settings shared by all tests; markers are declared in pyproject.toml."""

from hypothesis import settings

# How long one example takes says nothing on a machine that also runs engines and browsers.
settings.register_profile("scorer", parent=settings(), deadline=None)
settings.load_profile("scorer")
