"""The data files that ship, and how one file builds on another.

``extends: NAME`` starts from the shipped mapping of that name; the keys beside it
replace the inherited ones, within ``signals``, ``outcomes`` and ``switch_on`` one by
one; ``order`` is not inherited. ``rename: {"vllm:": "ray_vllm_"}`` gives inherited
families another prefix.
"""

from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

import yaml

from scorer.mappings.engine import Mapping
from scorer.mappings.gateway import GatewayPreset

_MERGED = ("signals", "outcomes", "switch_on")
_PACKAGE = "scorer.mappings"


@cache
def engine_mappings() -> tuple[Mapping, ...]:
    """Return the shipped mappings in the order in which they are tried."""
    found = [Mapping.model_validate(built(raw)) for raw in _files("engines").values()]
    return tuple(sorted(found, key=lambda mapping: mapping.order))


@cache
def gateway_presets() -> tuple[GatewayPreset, ...]:
    """Return the shipped gateway presets in the order of their names."""
    return tuple(GatewayPreset.model_validate(raw) for raw in _files("gateways").values())


def preset_named(name: str) -> GatewayPreset | None:
    """Return the gateway preset of that name, None when there is none."""
    return next((preset for preset in gateway_presets() if preset.name == name), None)


def built(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a mapping's data with ``extends`` and ``rename`` worked in.

    ValueError names what is wrong with them.
    """
    given = dict(raw)
    name, renames = given.pop("extends", None), given.pop("rename", {})
    if name is None:
        if renames:
            raise ValueError("rename needs extends beside it")
        return given
    shipped = _files("engines")
    if not isinstance(name, str) or name not in shipped:
        raise ValueError(f"extends must be one of {', '.join(shipped)}, got {str(name)[:60]}")
    if not _texts(renames):
        raise ValueError("rename must map prefixes to prefixes")
    base = _renamed(built(shipped[name]), renames)
    base.pop("order", None)
    merged = {
        key: {**base.get(key, {}), **given[key]}
        for key in _MERGED
        if isinstance(given.get(key), dict)
    }
    return {**base, **given, **merged}


def _texts(renames: object) -> bool:
    return isinstance(renames, dict) and all(
        isinstance(text, str) and text for pair in renames.items() for text in pair
    )


def _renamed(value: Any, renames: dict[str, str]) -> Any:  # noqa: ANN401 - any data
    if isinstance(value, dict):
        return {key: _renamed(part, renames) for key, part in value.items()}
    if isinstance(value, list):
        return [_renamed(part, renames) for part in value]
    if isinstance(value, str):
        for before, after in renames.items():
            if value.startswith(before):
                return after + value.removeprefix(before)
    return value


@cache
def _files(kind: str) -> dict[str, dict[str, Any]]:
    """Return the raw data of every file of ``kind`` by the name that it gives itself."""
    return {raw["name"]: raw for raw in _loaded(kind)}


def _loaded(kind: str) -> Iterator[dict[str, Any]]:
    folder = resources.files(_PACKAGE) / kind
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".yml"):
            yield yaml.safe_load(path.read_text("utf-8"))
