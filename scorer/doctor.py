"""``scorer doctor``: read an engine or a gateway once; say what can be read, what not, and why.

Exit codes: 0 readable, 1 not, 3 readable but without one of the signals that
:data:`scorer.sources.diagnosis.NEEDED` names, or a gateway without TTFT.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import click

from scorer.addresses import parse_address
from scorer.config import Config
from scorer.config.files import read_file
from scorer.config.gateways import GatewayConfig
from scorer.config.pool import PoolConfig
from scorer.config.prometheus import PrometheusConfig
from scorer.core.samples import Page, ScrapeFailed
from scorer.mappings.engine import Mapping
from scorer.mappings.shipped import engine_mappings
from scorer.sources.advice import on_failure, on_samples, on_unknown
from scorer.sources.configured import (
    gateway_reader,
    pool_question,
    resolved,
    scrape_target,
    static_label_sets,
)
from scorer.sources.diagnosis import Diagnosis, as_json, as_text
from scorer.sources.discovery.groups import ADDRESS, LabelSet
from scorer.sources.engine import EngineSource
from scorer.sources.failures import without_userinfo
from scorer.sources.fetch import MAX_BYTES, Fetched
from scorer.sources.gateway_diagnosis import (
    GatewayDiagnosis,
    gateway_json,
    gateway_text,
    recognised,
)
from scorer.sources.mapping import PageReader
from scorer.sources.places import ScrapeTarget
from scorer.sources.prometheus_diagnosis import diagnose_round
from scorer.sources.table import as_csv

READABLE, UNREADABLE, PARTLY = 0, 1, 3
PAGES = (".prom", ".json", ".txt")
"""Ends of the names of saved pages, which are looked for in a folder."""

Found = Diagnosis | GatewayDiagnosis


class NothingNamedError(Exception):
    """A configuration that leaves it to discovery who its targets are."""


def run_doctor(targets: Sequence[str], output: str, timeout: float) -> int:
    """Diagnose each target, print as ``output`` (table, json, csv), return the worst exit code."""
    return _told([each for target in targets for each in diagnose_all(target, timeout)], output)


def run_configured(
    config: Config, pool: str, targets: Sequence[str], output: str, timeout: float | None
) -> int:
    """As :func:`run_doctor`, with the settings that the daemon has for what it reads.

    Looks at ``targets`` of ``pool``, or if none is given at all that the file names: the
    static targets of that pool, or without ``pool`` those of every pool, and the gateways.
    A pool whose source is Prometheus is read from there.
    A ``timeout`` in seconds replaces those of the file. NothingNamedError when that is nothing.
    """
    found = list(_configured(config, pool, targets, timeout))
    if not found:
        raise NothingNamedError("names no target and no gateway itself: name targets as arguments")
    return _told(found, output)


def _told(diagnoses: Sequence[Found], output: str) -> int:
    if output == "csv":
        click.echo(as_csv(diagnoses), nl=False)
    elif output == "json":
        found = [_json(diagnosis) for diagnosis in diagnoses]
        click.echo(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    else:
        click.echo("\n\n".join("\n".join(_text(diagnosis)) for diagnosis in diagnoses))
    worse = (READABLE, PARTLY, UNREADABLE)
    return max((exit_code(diagnosis) for diagnosis in diagnoses), key=worse.index)


def _json(diagnosis: Found) -> dict[str, object]:
    return as_json(diagnosis) if isinstance(diagnosis, Diagnosis) else gateway_json(diagnosis)


def _text(diagnosis: Found) -> Iterator[str]:
    return as_text(diagnosis) if isinstance(diagnosis, Diagnosis) else gateway_text(diagnosis)


def exit_code(diagnosis: Found) -> int:
    """Return 0 for readable, 1 for not, 3 for readable with a needed signal missing."""
    if isinstance(diagnosis, GatewayDiagnosis):
        return READABLE if diagnosis.told else PARTLY
    if diagnosis.samples is None:
        return UNREADABLE
    return PARTLY if diagnosis.missing else READABLE


def diagnose_all(target: str, timeout: float) -> Iterator[Found]:
    """Diagnose ``target``, or if it is a folder every saved page in it, in order of names."""
    folder = Path(target)
    pages = []
    # Not Path.is_dir(), which raises for a name that is too long or in a closed folder.
    if "://" not in target and os.path.isdir(target):  # noqa: PTH112
        found = (path for path in folder.rglob("*") if path.suffix in PAGES)
        pages = sorted(path for path in found if path.is_file())
    if not pages:
        yield diagnose(target, timeout)
    for path in pages:
        yield diagnose(str(path), timeout, path.relative_to(folder).as_posix())


def _configured(
    config: Config, pool: str, targets: Sequence[str], timeout: float | None
) -> Iterator[Found]:
    for each in config.pools:
        if pool in ("", each.name):
            static = {labels[ADDRESS]: labels for labels in static_label_sets(each)}
            given = [static.get(target, {ADDRESS: target}) for target in targets]
            wanted = given or list(static.values())
            if each.source == "prometheus" and config.prometheus is not None:
                yield from _asked(wanted, each, config, config.prometheus, timeout)
            else:
                yield from (_of_pool(labels, each, config, timeout) for labels in wanted)
    if not pool:
        for gateway in config.gateways:
            yield _of_gateway(gateway, config)


def _of_pool(labels: LabelSet, pool: PoolConfig, config: Config, timeout: float | None) -> Found:
    shown = f"{pool.name} {without_userinfo(labels[ADDRESS])}"
    try:
        target = scrape_target(resolved(labels, pool), pool, config)
    except ValueError as error:
        return Diagnosis(shown, reason="target", detail=str(error))
    return _diagnosis(shown, _scraped(replace(target, timeout=timeout or target.timeout)))


def _asked(
    wanted: Sequence[LabelSet],
    pool: PoolConfig,
    config: Config,
    server: PrometheusConfig,
    timeout: float | None,
) -> Iterator[Found]:
    """Yield what Prometheus, the pool's source, tells of targets."""
    targets: dict[str, tuple[str, str]] = {}
    for labels in wanted:
        shown = f"{pool.name} {without_userinfo(labels[ADDRESS])}"
        try:
            found = resolved(labels, pool)
        except ValueError as error:
            yield Diagnosis(shown, reason="target", detail=str(error))
        else:
            targets[found.address.name] = f"{shown} by Prometheus", found.metrics_netloc()
    if targets:
        question = pool_question(pool, config, server)
        clocks = time.monotonic, time.time
        yield from diagnose_round(question, server, targets, timeout or server.timeout, clocks)


def _of_gateway(gateway: GatewayConfig, config: Config) -> Found:
    read, close = gateway_reader(gateway, config)
    shown = f"gateway {gateway.name}"
    try:
        page = read()
    finally:
        close()
    if isinstance(page, ScrapeFailed):
        return _failure(shown, page)
    return GatewayDiagnosis(shown, gateway.rules(), page, configured=True)


def diagnose(target: str, timeout: float, shown: str = "") -> Found:
    """Read ``target`` once within ``timeout`` seconds and say what it yields.

    ``target`` is an http(s) URL or ``host:port`` (both with the engine's usual path
    unless they have one), a saved page, or ``-`` for a page on standard input.
    ``shown`` is what it is called.
    """
    shown = shown or without_userinfo(target)
    try:
        obtained = _obtained(target, timeout)
    except (OSError, ValueError) as error:
        detail = getattr(error, "strerror", None) or str(error)
        return Diagnosis(shown, reason="target", detail=detail)
    return _diagnosis(shown, obtained)


def _failure(shown: str, failed: ScrapeFailed) -> Diagnosis:
    hints = tuple(on_failure(failed))
    return Diagnosis(shown, None, failed.reason.value, failed.detail, hints)


Obtained = tuple[Page | ScrapeFailed, Fetched | None, Mapping | None]


def _diagnosis(shown: str, obtained: Obtained) -> Found:
    result, got, mapping = obtained
    if isinstance(result, ScrapeFailed):
        return _failure(shown, result)
    body = got.body if got else b""
    if result.samples is not None:
        return Diagnosis(
            shown, result.samples, hints=tuple(on_samples(body, result.samples, mapping))
        )
    gateway = recognised(shown, got) if got else None
    return gateway or Diagnosis.unknown(shown, tuple(on_unknown(body)))


def _obtained(target: str, timeout: float) -> Obtained:
    """Fetch a URL or read a file; OSError and ValueError say what is wrong with ``target``."""
    if target == "-":
        return _read(_saved(_standard_input()))
    if "://" not in target and os.path.exists(target):  # noqa: PTH110 - as in diagnose_all()
        return _read(_saved(read_file(target, MAX_BYTES, patience=timeout)))
    return _scraped(_target_of(target, timeout))


def _scraped(target: ScrapeTarget) -> Obtained:
    source = EngineSource(target)
    try:
        result = source.scrape()
        return result, source.place.fetched, source.place.mapping
    finally:
        source.close()


def _standard_input() -> bytes:
    if sys.stdin is None:  # started with it closed
        raise ValueError("standard input is closed")
    content = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    return content


def _read(got: Fetched) -> Obtained:
    reader = PageReader(engine_mappings())
    result = reader.read(got.body, got.content_type, complete=got.complete)
    return result, got, reader.mapping


def _saved(body: bytes) -> Fetched:
    """Take a saved page; nothing but its last line feed tells whether it is whole."""
    openmetrics = body.rstrip().endswith(b"\n# EOF")
    kind = "application/openmetrics-text" if openmetrics else ""
    return Fetched(body, kind, complete=False)


def _target_of(target: str, timeout: float) -> ScrapeTarget:
    if "://" in target:
        parts = urlsplit(target)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("neither an http nor an https URL")
        path = "" if parts.path in ("", "/") else parts.path
        query = f"?{parts.query}" if parts.query else ""
        return ScrapeTarget(f"{parts.scheme}://{parts.netloc}", timeout, path and path + query)
    try:
        address = parse_address(target)
    except ValueError as error:
        raise ValueError(f"no such file, and as an address it {error}") from error
    return ScrapeTarget(f"{address.scheme}://{address.netloc}", timeout, address.prefix)
