"""What one read of a gateway's page tells, for people and for scripts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scorer.core.samples import ScrapeFailed
from scorer.core.vocabulary import Gap
from scorer.mappings.gateway import GatewayPreset
from scorer.mappings.shipped import gateway_presets
from scorer.sources.diagnosis import absent
from scorer.sources.exposition import parse_exposition
from scorer.sources.fetch import Fetched
from scorer.sources.gateway_page import ANY, Counted, GatewayPage, read_gateway
from scorer.sources.view import View

_NO_TARGET = "it names no instance: it can serve a pool of one target only"


@dataclass(frozen=True, slots=True)
class GatewayDiagnosis:
    """What the page of ``target`` yields, read by ``preset``; ``configured``: as a file says."""

    target: str
    preset: GatewayPreset
    page: GatewayPage
    configured: bool = False

    @property
    def told(self) -> dict[str, Counted]:
        """The targets whose TTFT the page tells, by name."""
        found = self.page.targets.items()
        return {str(name): counted for name, counted in found if counted.ttft.gap is None}

    @property
    def hints(self) -> tuple[str, ...]:
        """What to do about what is missing."""
        return tuple(_hints(self))


def recognised(target: str, got: Fetched) -> GatewayDiagnosis | None:
    """Return the diagnosis of a gateway's page, None when it is no known gateway's."""
    for preset in gateway_presets():
        page = parse_exposition(got.body, got.content_type, preset.names, complete=got.complete)
        if isinstance(page, ScrapeFailed):
            return None
        view = View(page.rows, page)
        if any(map(view.shows, preset.detect)):
            return GatewayDiagnosis(target, preset, read_gateway(view, preset))
    return None


def _hints(diagnosis: GatewayDiagnosis) -> Iterator[str]:
    preset = diagnosis.preset
    if preset.pool_of_one or any(name == ANY for name in diagnosis.page.targets):
        yield _NO_TARGET
    families = tuple(dict.fromkeys(source.family for source in preset.ttft))
    if not diagnosis.told and diagnosis.page.gap is Gap.FAMILY_ABSENT and families:
        yield f"{absent(families)} yet: send a streamed request through the gateway, and read again"
    elif not diagnosis.told:
        yield "no TTFT yet: send a streamed request through the gateway, and read again"
    if not diagnosis.configured:
        yield f"name it under gateways: in the configuration, preset {preset.name}"


def gateway_json(diagnosis: GatewayDiagnosis) -> dict[str, Any]:
    """Return the diagnosis as JSON values."""
    told = diagnosis.told
    ttft: dict[str, Any] = {
        name: {"count": each.ttft.count, "sum": round(each.ttft.sum, 9)}
        for name, each in told.items()
    }
    return {
        "target": diagnosis.target,
        "gateway": diagnosis.preset.name,
        "ttft": ttft or {"unavailable": (diagnosis.page.gap or Gap.NO_SAMPLES).value},
        "requests": {
            str(name): _outcomes(each)
            for name, each in diagnosis.page.targets.items()
            if each.requests
        },
        "hints": list(diagnosis.hints),
    }


def _outcomes(counted: Counted) -> dict[str, float]:
    totals = {share: sum(counters.values()) for share, counters in counted.requests.items()}
    failures = sum(share * total for share, total in totals.items())
    return {"failures": failures, "successes": totals.get(0.0, 0.0)}


def gateway_text(diagnosis: GatewayDiagnosis) -> Iterator[str]:
    """Yield the lines of the diagnosis for people."""
    preset = diagnosis.preset
    yield f"{diagnosis.target}: a gateway, {preset.title or preset.name} (preset {preset.name})"
    for name, each in diagnosis.told.items():
        mean = f", mean {each.ttft.sum / each.ttft.count:.3f} s" if each.ttft.count else ""
        yield f"  ttft        {name}: {each.ttft.count:.0f} observations{mean}"
    if not diagnosis.told:
        yield f"  ttft        unavailable: {diagnosis.page.gap or Gap.NO_SAMPLES}"
    for named, each in diagnosis.page.targets.items():
        if each.requests:
            counts = _outcomes(each)
            yield (
                f"  requests    {named}: {counts['failures']:g} failures, "
                f"{counts['successes']:.0f} successes"
            )
    for hint in diagnosis.hints:
        yield f"  hint        {hint}"
