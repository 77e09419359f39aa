"""What one scrape of one target tells, for people (a block of text) and scripts (JSON)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from scorer.core.samples import EngineSamples, Histogram, Outcomes, Reading
from scorer.core.vocabulary import Gap
from scorer.mappings.rows import Rows
from scorer.mappings.shipped import engine_mappings

NEEDED = ("running", "waiting", "kv_cache", "ttft")
"""Signals without which a target is readable only in part.

Error counters are not among them: an engine that does not count its failures is
scored all the same, and nobody can make an old version count them.
"""

_LISTED = (*NEEDED, "errors", "preemptions", "paused", "capacity")
_EXTRA = ("preemptions", "paused", "capacity")
"""Values that are told when an engine has them, and not missed when it never has."""

_IN_WORDS = {
    Gap.NOT_SCRAPED: "not scraped",
    Gap.FAMILY_ABSENT: "the page has no such metric",
    Gap.NO_SAMPLES: "the metric is known to the page but has no sample yet",
    Gap.NOT_A_NUMBER: "the value is not a number",
    Gap.NEGATIVE: "the value is negative, which engines print for unknown",
    Gap.OUT_OF_RANGE: "the value is above 1, so it is no ratio",
    Gap.NO_MAPPING: "the page is of no known engine",
    Gap.NOT_OFFERED: "the engine has no such metric",
    Gap.OTHER_ENGINE: "the page is of another engine",
    Gap.IDLE: "the engine has had nothing to report",
    Gap.DRAINED: "somebody else reads the engine's records",
    Gap.QUERY_FAILED: "Prometheus does not answer the query",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What ``target`` yields: samples, or none with ``reason`` and ``detail``."""

    target: str
    samples: EngineSamples | None = None
    reason: str = ""
    detail: str = ""
    hints: tuple[str, ...] = ()

    @classmethod
    def unknown(cls, target: str, hints: tuple[str, ...]) -> "Diagnosis":
        """Return the diagnosis of a good page of no known engine."""
        return cls(target, None, Gap.NO_MAPPING.value, _IN_WORDS[Gap.NO_MAPPING], hints)

    @property
    def unavailable(self) -> dict[str, Gap]:
        """The reason for every value that cannot be read, empty after a failed scrape."""
        if self.samples is None:
            unknown = self.reason == Gap.NO_MAPPING
            return dict.fromkeys((*NEEDED, "errors"), Gap.NO_MAPPING) if unknown else {}
        gaps = {name: part.gap for name, part in _shown(self.samples).items()}
        return {name: gap for name, gap in gaps.items() if gap is not None}

    @property
    def missing(self) -> tuple[str, ...]:
        """The needed signals that cannot be read."""
        return tuple(name for name in NEEDED if name in self.unavailable)


def _parts(samples: EngineSamples) -> dict[str, Reading | Histogram | Outcomes]:
    fields = {name: "outcomes" if name == "errors" else name for name in _LISTED}
    return {name: getattr(samples, field) for name, field in fields.items()}


def _shown(samples: EngineSamples) -> dict[str, Reading | Histogram | Outcomes]:
    """Return the parts that are worth telling."""
    return {
        name: part
        for name, part in _parts(samples).items()
        if name not in _EXTRA or part.gap is not Gap.NOT_OFFERED
    }


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as JSON values.

    ``failure`` only when there are no samples, ``looked_for`` only when families are absent.
    """
    samples = diagnosis.samples
    found: dict[str, Any] = {
        "target": diagnosis.target,
        "engine": samples.engine.value if samples else None,
        "mapping": samples.mapping if samples else None,
        "version": samples.version if samples else None,
        "model_names": list(samples.model_names) if samples else [],
        "signals": _json_signals(samples) if samples else {},
        "unavailable": {name: gap.value for name, gap in diagnosis.unavailable.items()},
        "hints": list(diagnosis.hints),
    }
    if samples is not None and Gap.FAMILY_ABSENT in diagnosis.unavailable.values():
        found["looked_for"] = {
            name: list(looked_for(samples, name))
            for name, gap in diagnosis.unavailable.items()
            if gap is Gap.FAMILY_ABSENT
        }
    if samples is None:
        found["failure"] = {"reason": diagnosis.reason, "detail": diagnosis.detail}
    return found


def _json_signals(samples: EngineSamples) -> dict[str, Any]:
    found = {name: _json_value(part) for name, part in _shown(samples).items() if part.gap is None}
    if samples.start_time is not None:
        found["start_time"] = _number(samples.start_time)
    if samples.asleep is not None:
        found["asleep"] = samples.asleep
    return found


def _json_value(part: Reading | Histogram | Outcomes) -> Any:  # noqa: ANN401
    if isinstance(part, Reading):
        return _number(part.value or 0.0)
    if isinstance(part, Histogram):
        return {"count": _number(part.count), "sum": _number(part.sum)}
    counted = zip(("failures", "successes", "refusals"), _counts(part), strict=True)
    return {name: _number(count) for name, count in counted}


def _counts(outcomes: Outcomes) -> tuple[float, float, float]:
    """Return failures, successes and refusals under load since the engine started."""
    failures = max((sum(way.values()) for way in outcomes.failures), default=0.0)
    return failures, sum(outcomes.successes.values()), sum(outcomes.saturations.values())


def _number(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def as_text(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the lines of the diagnosis for people."""
    samples = diagnosis.samples
    if samples is None:
        yield f"{diagnosis.target}: not readable"
        yield _line("reason", f"{diagnosis.reason}: {diagnosis.detail}")
    else:
        yield f"{diagnosis.target}: {_engine(samples)}"
        yield _line("models", ", ".join(samples.model_names) or "none named")
        for name, part in _shown(samples).items():
            yield _line(name, _in_words(name, part, samples))
        if samples.start_time is not None:
            yield _line("started", _date(samples.start_time))
        if samples.asleep is not None:
            yield _line("asleep", "yes" if samples.asleep else "no")
    for hint in diagnosis.hints:
        yield _line("hint", hint)


def _line(name: str, text: str) -> str:
    return f"  {name:<12}{text}"


def _date(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%FT%TZ}"
    except (OSError, OverflowError, ValueError):
        return f"{seconds:g} seconds since 1970"


def _engine(samples: EngineSamples) -> str:
    titles = {mapping.name: mapping.title for mapping in engine_mappings()}
    title = titles.get(samples.mapping, samples.engine.value)
    version = f", version {samples.version} by its metrics" if samples.version else ""
    return f"{title}{version} (mapping {samples.mapping})"


def looked_for(samples: EngineSamples, name: str) -> tuple[str, ...]:
    """Return the families that could have told a value, the preferred one first."""
    known = (mapping for mapping in engine_mappings() if mapping.name == samples.mapping)
    mapping = next(known, None)
    parts: tuple[Rows, ...] = ()
    if mapping is not None and name == "ttft":
        parts = mapping.ttft
    elif mapping is not None and name == "errors":
        parts = (*mapping.outcomes.failures, *mapping.outcomes.successes)
    elif mapping is not None:
        parts = getattr(mapping.signals, name)
    return tuple(dict.fromkeys(part.family for part in parts))


def absent(families: tuple[str, ...]) -> str:
    """Return in words that a page has none of ``families``."""
    if len(families) == 1:
        return f"the page has no {families[0]}"
    return f"the page has none of {', '.join(families)}"


def _in_words(name: str, part: Reading | Histogram | Outcomes, samples: EngineSamples) -> str:
    if part.gap is Gap.FAMILY_ABSENT and (families := looked_for(samples, name)):
        return f"unavailable: {absent(families)} ({part.gap})"
    if part.gap is not None:
        return f"unavailable: {_IN_WORDS[part.gap]} ({part.gap})"
    if isinstance(part, Histogram):
        mean = f", mean {part.sum / part.count:.3f} s" if part.count else ""
        return f"{part.count:.0f} observations, {part.sum:.3f} s in total{mean}"
    if isinstance(part, Outcomes):
        failures, successes, refusals = _counts(part)
        return f"{failures:.0f} failures, {successes:.0f} successes, {refusals:.0f} refusals"
    value = part.value or 0.0
    if name == "kv_cache":
        return f"{value:.4g} ({value:.1%} of the KV cache in use)"
    unit = {
        "running": "requests",
        "waiting": "requests",
        "paused": "requests",
        "capacity": "tokens of KV cache",
    }
    return f"{value:.0f} {unit.get(name, '')}".rstrip()
