"""No bytes whatever make reading a page raise, and no gauge is ever read as a wrong number."""

import math

from hypothesis import given
from hypothesis import strategies as st

from scorer.core.samples import Page, ScrapeFailed
from scorer.mappings.shipped import engine_mappings
from scorer.sources.mapping import PageReader

MAPPINGS = engine_mappings()
FAMILIES = sorted(frozenset().union(*(mapping.names for mapping in MAPPINGS)))
KINDS = ("", "text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0")

pieces = st.sampled_from(
    [*'{}",=#\\ \t\r_-+', "\n", "\\n", "# TYPE ", "# EOF", "NaN", "1", "0.5", "le", "engine", "é"]
)
lines = st.builds(
    lambda family, rest: family + "".join(rest), st.sampled_from(FAMILIES), st.lists(pieces)
)
pages = st.lists(st.one_of(lines, st.text())).map("\n".join).map(str.encode)


@given(
    body=st.one_of(st.binary(), pages),
    kind=st.one_of(st.sampled_from(KINDS), st.text()),
    complete=st.booleans(),
    models=st.lists(st.text(), max_size=2),
)
def test_no_body_makes_reading_raise(body, kind, complete, models):
    """Every body is a page or a failure with a reason."""
    got = PageReader(MAPPINGS, models).read(body, kind, complete=complete)
    assert isinstance(got, Page | ScrapeFailed)


@given(value=st.one_of(st.floats(), st.floats(0, 1.1)), other=st.floats())
def test_gauges_are_their_values_or_missing(value, other):
    """A ratio is within 0-1 and a count is the sum of its series, or there is a reason."""
    page = (
        f'vllm:kv_cache_usage_perc{{engine="0"}} {value!r}\n'
        f'vllm:num_requests_waiting{{engine="0"}} {value!r}\n'
        f'vllm:num_requests_waiting{{engine="1"}} {other!r}\n'
    )
    samples = PageReader(MAPPINGS).read(page.encode(), "", complete=True).samples
    for reading in (samples.kv_cache, samples.waiting):
        assert (reading.value is None) == (reading.gap is not None)
    if samples.kv_cache.value is not None:
        assert 0 <= samples.kv_cache.value == min(1, value) <= 1
    if samples.waiting.value is not None:
        assert samples.waiting.value == value + other
        assert math.isfinite(samples.waiting.value)
