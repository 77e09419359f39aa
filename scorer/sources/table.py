"""Many diagnoses as one table: a row per page, and per target of a gateway's page.

A cell holds a value or the reason why there is none, so the table can be kept and
compared.
"""

import csv
import io
from collections.abc import Iterable, Iterator

from scorer.core.samples import EngineSamples, Histogram, Reading
from scorer.sources.diagnosis import Diagnosis
from scorer.sources.gateway_diagnosis import GatewayDiagnosis

COLUMNS = (
    "page", "kind", "mapping", "version", "target", "running", "waiting", "kv_cache",
    "ttft_count", "ttft_sum", "failures", "successes", "refusals", "preemptions", "paused",
    "capacity", "asleep", "start_time", "models",
)  # fmt: skip

Row = dict[str, object]


def as_csv(diagnoses: Iterable[Diagnosis | GatewayDiagnosis]) -> str:
    """Return the table as CSV with a head."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for diagnosis in diagnoses:
        if isinstance(diagnosis, GatewayDiagnosis):
            writer.writerows(_gateway_rows(diagnosis))
        else:
            writer.writerow(_row(diagnosis))
    return text.getvalue()


def _row(diagnosis: Diagnosis) -> Row:
    samples = diagnosis.samples
    if samples is None:
        return {"page": diagnosis.target, "kind": "-", "mapping": diagnosis.reason}
    return {"page": diagnosis.target, "kind": samples.engine.value, **_values(samples)}


def _values(samples: EngineSamples) -> Row:
    outcomes = samples.outcomes
    told: Row = {"failures": outcomes.gap and outcomes.gap.value}
    if outcomes.gap is None:
        told = {
            "failures": _number(max(sum(way.values()) for way in outcomes.failures)),
            "successes": _number(sum(outcomes.successes.values())),
            "refusals": _number(sum(outcomes.saturations.values())),
        }
    return {
        "mapping": samples.mapping,
        "version": samples.version,
        "running": _cell(samples.running),
        "waiting": _cell(samples.waiting),
        "kv_cache": _cell(samples.kv_cache),
        **_ttft(samples.ttft),
        **told,
        "preemptions": _cell(samples.preemptions),
        "paused": _cell(samples.paused),
        "capacity": _cell(samples.capacity),
        "asleep": {None: "", True: "yes", False: "no"}[samples.asleep],
        "start_time": "" if samples.start_time is None else _number(samples.start_time),
        "models": " ".join(samples.model_names),
    }


def _gateway_rows(diagnosis: GatewayDiagnosis) -> Iterator[Row]:
    start: Row = {
        "page": diagnosis.target, "kind": "gateway", "mapping": diagnosis.preset.name,
    }  # fmt: skip
    for name, each in sorted(diagnosis.page.targets.items(), key=lambda pair: str(pair[0])):
        totals = {share: sum(counters.values()) for share, counters in each.requests.items()}
        row = {**start, "target": str(name), **_ttft(each.ttft)}
        if totals:
            row["failures"] = _number(sum(share * total for share, total in totals.items()))
            row["successes"] = _number(totals.get(0.0, 0.0))
        yield row
    if not diagnosis.page.targets:
        gap = diagnosis.page.gap
        yield {**start, "ttft_count": gap.value if gap else ""}


def _ttft(ttft: Histogram) -> Row:
    if ttft.gap is not None:
        return {"ttft_count": ttft.gap.value}
    return {"ttft_count": _number(ttft.count), "ttft_sum": _number(round(ttft.sum, 6))}


def _cell(reading: Reading) -> object:
    if reading.value is None:
        return reading.gap.value if reading.gap else ""
    return _number(round(reading.value, 9))


def _number(value: float) -> float:
    return int(value) if float(value).is_integer() else value
