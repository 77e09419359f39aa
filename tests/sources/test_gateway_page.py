"""Gateway pages: which target a row is about, in which unit, and which rows do not count."""

from pathlib import Path

import pytest

from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import Gap, ScrapeFailure
from scorer.mappings.gateway import GatewayPreset
from scorer.mappings.shipped import preset_named
from scorer.sources.gateway_page import Named, parse_gateway, parse_named

PAGES = Path(__file__).parent.parent / "data" / "expositions" / "gateways"


def read(preset: GatewayPreset | str, body: bytes | str):
    """Read a page with a preset."""
    found = preset_named(preset) if isinstance(preset, str) else preset
    body = body.encode() if isinstance(body, str) else body
    return parse_gateway(body, "", found, complete=True)


def ttft(page) -> dict[str, tuple[float, float]]:
    """Return (count, mean in seconds) of each target whose TTFT the page tells."""
    return {
        str(name): (told.ttft.count, round(told.ttft.sum / told.ttft.count, 4))
        for name, told in page.targets.items()
        if told.ttft.gap is None
    }


@pytest.mark.parametrize(
    ("preset", "page", "expected"),
    [
        ("nginx", "nginx", {"engine-a:8000": (900, 0.3506), "[fd00::2]:8000": (610, 2.3004)}),
        ("haproxy", "nginx", {"engine-a:8000": (900, 0.3506), "[fd00::2]:8000": (610, 2.3004)}),
        ("apisix", "apisix", {"engine-a": (410, 0.4798), "engine-b": (390, 3.7051)}),
        ("litellm", "litellm", {"engine-a:8000": (6, 0.1237), "engine-b:8000": (4, 0.1226)}),
        ("higress", "higress", {"engine-a.internal:8000": (400, 0.51)}),
        ("envoy_ai_gateway", "envoy-ai-gateway", {"*": (488, 0.4798)}),
        ("llm_d_router", "llm-d-router", {"*": (80, 0.45)}),
        ("llm_d_router", "gie-epp", {"*": (9120, 0.4648)}),
    ],
)
def test_preset_reads_its_gateway(preset, page, expected):
    """Count and mean in seconds per target, whatever the gateway's units and labels."""
    assert ttft(read(preset, (PAGES / f"{page}.prom").read_bytes())) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1:8000", Named("10.0.0.1", 8000)),
        ("http://Engine-A:8000/v1", Named("engine-a", 8000, "/v1")),
        ("https://engine-a", Named("engine-a")),
        ("[fd00::2]:8000", Named("fd00::2", 8000)),
        ("fd00::2", Named("fd00::2")),
        ("engine-a", Named("engine-a")),
        ("engine-a:99999", Named("engine-a:99999")),
        ("", None),
    ],
)
def test_target_label_is_normalised(text, expected):
    """Scheme and path are cut, brackets kept, a missing port is no port."""
    assert parse_named(text) == expected


def test_answers_of_the_gateway_itself_are_nobodys():
    """APISIX tells its own refusals from those of an upstream."""
    page = read("apisix", (PAGES / "apisix.prom").read_bytes())
    requests = {
        str(name): {share: sum(counters.values()) for share, counters in told.requests.items()}
        for name, told in page.targets.items()
    }
    assert requests == {"engine-a": {0.0: 410}, "engine-b": {0.5: 14}}


def test_limits_of_client_keys_are_no_failures():
    """LiteLLM counts 429s among the failures of deployments; they count neither way."""
    page = read("litellm", (PAGES / "litellm.prom").read_bytes())
    shares = {share for told in page.targets.values() for share in told.requests}
    assert shares == {0.0, 0.5, 1.0}
    failures = sum(
        share * sum(counters.values())
        for told in page.targets.values()
        for share, counters in told.requests.items()
    )
    assert failures == 8


def test_rows_without_a_target_serve_where_all_are_so():
    """An older LiteLLM names no deployment: good for a pool of one."""
    rows = "\n".join(
        f'litellm_llm_api_time_to_first_token_metric_{end}{{model="m"}} {value}'
        for end, value in (("sum", 3), ("count", 6))
    )
    assert ttft(read("litellm", rows + "\n")) == {"*": (6, 0.5)}


CUSTOM = GatewayPreset.model_validate(
    {
        "name": "custom",
        "ttft": [{"family": "my_ttft", "scale": "microseconds"}],
        "target": {"label": "peer", "regex": r"^\w+\|(?P<host>[^|]+)\|(?P<port>\d+)"},
        "requests": [{"family": "my_requests", "status_label": "class"}],
    }
)


def test_custom_rules_cut_the_target_out_of_its_label():
    """Named groups give host and port; a label that does not fit names no target."""
    body = (
        'my_ttft_sum{peer="up|a.example|8000|x"} 4e6\nmy_ttft_count{peer="up|a.example|8000|x"} 8\n'
        'my_requests{peer="up|a.example|8000|x",class="2xx"} 8\n'
        'my_requests{peer="up|a.example|8000|x",class="5xx"} 2\n'
        'my_requests{peer="nothing",class="5xx"} 9\n'
    )
    page = read(CUSTOM, body)
    assert ttft(page) == {"a.example:8000": (8, 0.5)}
    (told,) = page.targets.values()
    assert {share: sum(found.values()) for share, found in told.requests.items()} == {
        0.0: 8,
        1.0: 2,
    }


@pytest.mark.parametrize(
    ("body", "gap"),
    [("up 1\n", Gap.FAMILY_ABSENT), ("# TYPE my_ttft histogram\n", Gap.NO_SAMPLES)],
)
def test_page_without_ttft_says_why(body, gap):
    """Absent until the first use, or declared and empty."""
    assert read(CUSTOM, body).gap is gap


def test_page_that_is_none_fails():
    """A login page is no gateway's metrics."""
    got = read("nginx", "<html>")
    assert isinstance(got, ScrapeFailed)
    assert got.reason is ScrapeFailure.WRONG_CONTENT
