"""What docs/engines.md and docs/gateways.md show works as it says there."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from scorer.config import parse_config
from scorer.config.engines import AUTO, EngineName
from scorer.core.samples import Page
from scorer.mappings.engine import Mapping
from scorer.mappings.rows import SignalSource
from scorer.mappings.shipped import gateway_presets
from scorer.sources.mapping import PageReader

DOCS = Path(__file__).parents[2] / "docs"
ENGINES = (DOCS / "engines.md").read_text()
GATEWAYS = (DOCS / "gateways.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    """Return the blocks of code in that language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


EXAMPLES = [block for text in (ENGINES, GATEWAYS) for block in blocks(text, "yaml")]
WHOLE = [block for block in EXAMPLES if "pools:" in block]


@pytest.mark.parametrize("block", WHOLE, ids=range(len(WHOLE)))
def test_example_is_a_configuration(block):
    """It can be copied as it stands."""
    assert parse_config(block).pools


def test_options_of_an_engine_are_yaml():
    """The one block that is no configuration of ours is of trtllm-serve."""
    (block,) = [each for each in EXAMPLES if each not in WHOLE]
    assert yaml.safe_load(block) == {"return_perf_metrics": True, "enable_iter_perf_stats": True}


def test_own_mapping_reads_its_page_as_told():
    """7 running, 3 waiting, a KV cache that is 87 % full, a mean TTFT of 0.53 s."""
    (text,) = [block for block in WHOLE if "acme" in block]
    (page,) = blocks(ENGINES, "text")
    config = parse_config(text)
    reader = PageReader(config.pools[0].known_mappings(config.mappings))
    found = reader.read(page.encode(), "text/plain", complete=True)
    assert isinstance(found, Page)
    samples = found.samples
    assert samples.mapping == "acme"
    assert (samples.running.value, samples.waiting.value, samples.kv_cache.value) == (7, 3, 0.87)
    assert samples.ttft.sum / samples.ttft.count == pytest.approx(0.53)
    assert sum(samples.progress.values()) == 48211
    (failures,) = samples.outcomes.failures
    assert (sum(failures.values()), sum(samples.outcomes.successes.values())) == (4, 90)
    said = "7 running, 3 waiting, a KV cache that is 87 % full, and a mean TTFT of 0.53 s"
    assert said in ENGINES


def test_every_engine_and_every_preset_is_documented():
    """One that the configuration may name and nobody explains would be guesswork."""
    engines = set(get_args(EngineName)) - {AUTO}
    assert {name for name in engines if f"`{name}`" not in ENGINES} == set()
    presets = {preset.name for preset in gateway_presets()}
    assert {name for name in presets if f"`{name}`" not in GATEWAYS} == set()


@pytest.mark.parametrize("model", [Mapping, SignalSource])
def test_every_key_of_a_mapping_is_documented(model):
    """Keys that explain themselves aside: the name, a title, versions, what JSON pages need."""
    obvious = {"name", "title", "versions", "format", "idle_zero", "loras", "switch_on"}
    keys = set(model.model_fields) - obvious
    assert {key for key in keys if not re.search(rf"`{key}\b", ENGINES)} == set()
