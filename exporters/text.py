"""Metric families as text: format 0.0.4, or OpenMetrics 1.0.0.

The same text as ``prometheus_client`` writes (a test compares them), in a fifth of its
time: names and labels come from the catalogue and are valid, so nothing checks and
escapes them anew for each of the twenty thousand samples of a large fleet. What would
be rendered longer holds the interpreter while picks wait.
"""

import math
from collections.abc import Iterable, Mapping

from prometheus_client import Metric as Family

from scorer.codings import refused

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OPENMETRICS_VERSIONS = {"", "0.0.1", "1.0.0"}

SUFFIXES = {"counter": "_total", "info": "_info"}
TEXT_TYPES = {"info": "gauge", "unknown": "untyped"}


def negotiated(accept: str) -> str:
    """Return the content type for an ``Accept`` header: OpenMetrics for who names it."""
    for item in accept.lower().split(","):
        media, *options = (part.strip() for part in item.split(";"))
        if media == "application/openmetrics-text":
            given = dict(option.partition("=")[::2] for option in options)
            if given.get("version", "") in OPENMETRICS_VERSIONS and not refused(given.get("q", "")):
                return OPENMETRICS
    return TEXT


def encode(families: Iterable[Family], content_type: str) -> bytes:
    """Return the page of ``families`` in the format of ``content_type``."""
    openmetrics = content_type == OPENMETRICS
    lines: list[str] = []
    for family in families:
        lines += header(family, openmetrics=openmetrics)
        for sample in family.samples:
            name, labels, value = sample[:3]
            shown = repr(float(value)) if math.isfinite(value) else not_finite(value)
            series = f"{name}{{{label_text(labels)}}}" if labels else name
            lines.append(f"{series} {shown}\n")
    if openmetrics:
        lines.append("# EOF\n")
    return "".join(lines).encode("utf-8")


def header(family: Family, *, openmetrics: bool) -> tuple[str, str]:
    """Return the HELP and TYPE lines of a family."""
    text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
    name, kind = family.name, family.type
    if openmetrics:
        text = text.replace('"', r"\"")
    else:
        name += SUFFIXES.get(kind, "")
        kind = TEXT_TYPES.get(kind, kind)
    return f"# HELP {name} {text}\n", f"# TYPE {name} {kind}\n"


def label_text(labels: Mapping[str, str]) -> str:
    """Return labels as they stand between the braces."""
    return ",".join([f'{name}="{escaped(value)}"' for name, value in labels.items()])


def escaped(value: str) -> str:
    """Return a label value with backslash, quote and line feed escaped."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return value


def not_finite(value: float) -> str:
    """Return NaN and the infinities as Prometheus spells them."""
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"
