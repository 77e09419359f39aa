"""HAProxy does not start with a setting of its Lua that cannot be used."""

import re
from pathlib import Path

import pytest

from tests.integrations.haproxy import EXAMPLES, Haproxy

pytestmark = pytest.mark.system

ADDRESS = "an IP address and a port, or unix:/path"


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("SCORER_ADDRESS", "localhost:9808", ADDRESS),
        ("SCORER_ADDRESS", "unix:run/s", ADDRESS),
        ("SCORER_PICK_TIMEOUT_MS", "20ms", "a number"),
    ],
)
def test_setting_that_cannot_be_used_is_named(tmp_path: Path, name: str, value: str, rule: str):
    """With the rule that it breaks."""
    [shipped] = re.findall(rf"setenv {name} .*", (EXAMPLES / "lua.cfg").read_text())
    with pytest.raises(AssertionError, match=f"{name} must be {rule}, got {value}"):
        Haproxy(tmp_path, "lua.cfg", {}, changes=((shipped, f"setenv {name} {value}"),))
