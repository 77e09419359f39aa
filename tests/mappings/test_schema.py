"""Mappings as data: checked strictly, and complete enough for the parser to find their rows."""

import pytest
from pydantic import ValidationError

from scorer.config.gateways import GatewayConfig
from scorer.core.vocabulary import Engine
from scorer.mappings.engine import Mapping
from scorer.mappings.rows import Rows
from scorer.mappings.shipped import built, engine_mappings, gateway_presets

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


def test_shipped_mappings_are_tried_in_their_order():
    """The more particular come first, names without a prefix last."""
    names = [mapping.name for mapping in engine_mappings()]
    assert names == [
        "ray_vllm", "dynamo_vllm", "vllm_v1", "vllm_v0", "tensorrt_llm", "tensorrt_llm_1_2",
        "tensorrt_llm_json", "triton", "sglang", "sglang_underscore", "tgi", "llamacpp",
        "lmdeploy", "nim",
    ]  # fmt: skip


def test_every_engine_has_a_mapping():
    """No engine that the configuration may name is without one, but that of the user's own."""
    assert {mapping.engine for mapping in engine_mappings()} == set(Engine) - {Engine.OTHER}


def test_every_advice_is_about_a_value_that_can_be_missing():
    """A hint under a name that nobody looks up would never be shown."""
    known = {"running", "waiting", "kv_cache", "ttft", "errors"}
    assert all(mapping.switch_on.keys() <= known for mapping in engine_mappings())


def test_every_preset_says_what_it_reads():
    """A preset without a histogram would be silence."""
    assert all(preset.ttft for preset in gateway_presets())


def test_names_cover_every_family_that_is_read():
    """A histogram is found by its sum and count, everything else by its own name."""
    signals = {"waiting": [{"family": "x_a", "aggregate": "sum", "plus": {"family": "x_b"}}]}
    counter = {"family": "x_done", "among": {"model": "x_models"}}
    mapping = Mapping.model_validate(
        MINIMAL | {"ttft": [{"family": "x_ttft"}], "signals": signals, "progress": [counter]}
    )
    assert mapping.names == {
        "x_running", "x_a", "x_b", "x_ttft", "x_ttft_sum", "x_ttft_count", "x_done", "x_models",
    }  # fmt: skip


def test_one_text_is_a_list_of_one():
    """A selector may name one value without brackets."""
    source = {"family": "x", "where": {"status": "5xx"}}
    mapping = Mapping.model_validate(MINIMAL | {"progress": [source]})
    assert mapping.progress[0].where == {"status": ("5xx",)}


@pytest.mark.parametrize(
    ("where", "labels", "chosen"),
    [
        ({"code": "5*"}, {"code": "503"}, True),
        ({"code": "5*"}, {"code": "450"}, False),
        ({"code": ["200", "5?3"]}, {"code": "503"}, True),
        ({"priority": ""}, {}, True),
        ({"priority": ""}, {"priority": "7"}, False),
        ({"priority": "?*"}, {}, False),
    ],
)
def test_labels_are_compared_with_patterns(where, labels, chosen):
    """Shell-style patterns; a label that is not there equals an empty one."""
    assert Rows(family="x", where=where).selects(labels) is chosen
    assert Rows(family="x", where_not=where).selects(labels) is not chosen


@pytest.mark.parametrize(
    "broken",
    [
        {"engin": "vllm"},
        {"engine": "abacus"},
        {"detect": []},
        {"detect": [{"family": "not a name"}]},
        {"signals": MINIMAL["signals"] | {"running": [{"family": "x", "aggregate": "mean"}]}},
        {"progress": [{"family": "x", "were": {"a": "b"}}]},
        {"progress": [{"family": "x", "where": {"a": []}}]},
        {"path": "metrics"},
        {"interval": 3},
        {"interval": "soon"},
    ],
)
def test_mapping_with_a_mistake_is_refused(broken):
    """A misspelt or missing key is an error, never a signal that is silently missing."""
    with pytest.raises(ValidationError):
        Mapping.model_validate(MINIMAL | broken)


def test_mapping_may_build_on_a_shipped_one():
    """Inherited families get another prefix; keys given replace inherited ones, one by one."""
    kv_cache = [{"family": "my_kv", "aggregate": "max", "unit": "ratio", "scale": "percent"}]
    mapping = Mapping.model_validate(
        built(
            {
                "name": "fork",
                "extends": "vllm_v1",
                "rename": {"vllm:": "fork_"},
                "signals": {"kv_cache": kv_cache},
            }
        )
    )
    assert mapping.signals.running[0].family == "fork_num_requests_running"
    assert [source.family for source in mapping.signals.kv_cache] == ["my_kv"]
    assert mapping.ttft[0].family == "fork_time_to_first_token_seconds"
    assert mapping.order == 0


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        ({"extends": "vlm"}, "extends must be one of .*, got vlm"),
        ({"rename": {"a": "b"}}, "rename needs extends"),
        ({"extends": "vllm_v1", "rename": ["a"]}, "rename must map prefixes"),
        ({"extends": "vllm_v1", "rename": {"a": ""}}, "rename must map prefixes"),
    ],
)
def test_building_on_nothing_is_refused(raw, rule):
    """What stands beside ``extends`` is checked before the mapping itself."""
    with pytest.raises(ValueError, match=rule):
        built({"name": "x", **raw})


def test_preset_that_was_used_can_still_be_configured():
    """What it remembers of its own names is no part of it."""
    shipped = next(preset for preset in gateway_presets() if preset.name == "nginx")
    assert shipped.names
    given = {"name": "edge", "preset": "nginx", "metrics_url": "http://a:1/metrics"}
    changed = GatewayConfig.model_validate({**given, "ttft_histogram": "own_seconds"}).rules()
    assert "own_seconds_sum" in changed.names
