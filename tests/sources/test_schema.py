"""Mappings as data: checked strictly, and complete enough for the parser to find their rows."""

import pytest
from pydantic import ValidationError

from scorer.sources.schema import Mapping, load_mappings

MINIMAL = {
    "name": "engine_x",
    "engine": "vllm",
    "title": "Engine X",
    "detect": [{"family": "x_running"}],
    "versions": [],
    "signals": {
        "running": [{"family": "x_running", "aggregate": "sum"}],
        "waiting": [{"family": "x_waiting", "aggregate": "sum"}],
        "kv_cache": [],
    },
}


def test_shipped_mappings_are_tried_newest_first():
    """V1 claims its pages before V0, whose conditions are weaker."""
    assert [mapping.name for mapping in load_mappings()] == ["vllm_v1", "vllm_v0"]


def test_names_cover_every_family_that_is_read():
    """A histogram is found by its sum and count, everything else by its own name."""
    mapping = Mapping.model_validate(MINIMAL | {"ttft": [{"family": "x_ttft"}]})
    assert mapping.names == {"x_running", "x_waiting", "x_ttft", "x_ttft_sum", "x_ttft_count"}


def test_one_text_is_a_list_of_one():
    """A selector may name one value without brackets."""
    source = {"family": "x", "where": {"status": "5xx"}}
    mapping = Mapping.model_validate(MINIMAL | {"progress": [source]})
    assert mapping.progress[0].where == {"status": ("5xx",)}


@pytest.mark.parametrize(
    "broken",
    [
        {"engin": "vllm"},
        {"engine": "abacus"},
        {"detect": []},
        {"detect": [{"family": "not a name"}]},
        {"signals": {"running": [], "waiting": []}},
        {"signals": MINIMAL["signals"] | {"running": [{"family": "x", "aggregate": "mean"}]}},
        {"progress": [{"family": "x", "were": {"a": "b"}}]},
        {"progress": [{"family": "x", "where": {"a": []}}]},
    ],
)
def test_mapping_with_a_mistake_is_refused(broken):
    """A misspelt or missing key is an error, never a signal that is silently missing."""
    with pytest.raises(ValidationError):
        Mapping.model_validate(MINIMAL | broken)
