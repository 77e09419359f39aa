"""``scorer doctor``: scrape an engine once and say what can be read, what not, and why.

Exit codes: 0 readable, 1 not, 3 readable but without one of the signals that
:data:`scorer.sources.diagnosis.NEEDED` names.
"""

import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

import click

from scorer.addresses import parse_address
from scorer.core.samples import ScrapeFailed
from scorer.sources.advice import on_failure, on_samples, on_unknown
from scorer.sources.diagnosis import Diagnosis, as_json, as_text
from scorer.sources.failures import without_userinfo
from scorer.sources.fetch import MAX_BYTES, Fetched, Fetcher
from scorer.sources.mapping import read_page
from scorer.sources.schema import load_mappings

READABLE, UNREADABLE, PARTLY = 0, 1, 3


def run_doctor(targets: list[str], output: str, timeout: float) -> int:
    """Diagnose each target, print as ``output`` (table or json), return the worst exit code."""
    diagnoses = [diagnose(target, timeout) for target in targets]
    if output == "json":
        found = [as_json(diagnosis) for diagnosis in diagnoses]
        click.echo(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    else:
        click.echo("\n\n".join("\n".join(as_text(diagnosis)) for diagnosis in diagnoses))
    worse = (READABLE, PARTLY, UNREADABLE)
    return max((exit_code(diagnosis) for diagnosis in diagnoses), key=worse.index)


def exit_code(diagnosis: Diagnosis) -> int:
    """Return 0 for readable, 1 for not, 3 for readable with a needed signal missing."""
    if diagnosis.samples is None:
        return UNREADABLE
    return PARTLY if diagnosis.missing else READABLE


def diagnose(target: str, timeout: float) -> Diagnosis:
    """Scrape ``target`` once within ``timeout`` seconds and say what it yields.

    ``target`` is an http(s) URL or ``host:port`` (both with /metrics unless they have
    a path), a saved page, or ``-`` for a page on standard input.
    """
    shown = without_userinfo(target)
    try:
        got = _obtained(target, timeout)
    except (OSError, ValueError) as error:
        detail = getattr(error, "strerror", None) or str(error)
        return Diagnosis(shown, reason="target", detail=detail)
    if isinstance(got, ScrapeFailed):
        return _failed(shown, got)
    page = read_page(got.body, got.content_type, got.complete, load_mappings())
    if isinstance(page, ScrapeFailed):
        return _failed(shown, page)
    if page.samples is None:
        return Diagnosis.unknown(shown, tuple(on_unknown(got.body)))
    return Diagnosis(shown, page.samples, hints=tuple(on_samples(got.body, page.samples)))


def _failed(target: str, failure: ScrapeFailed) -> Diagnosis:
    hints = tuple(on_failure(failure))
    return Diagnosis(target, None, failure.reason.value, failure.detail, hints)


def _obtained(target: str, timeout: float) -> Fetched | ScrapeFailed:
    """Fetch a URL or read a file; OSError and ValueError say what is wrong with ``target``."""
    if target == "-":
        return _saved(sys.stdin.buffer.read(MAX_BYTES + 1))
    if "://" not in target and Path(target).exists():
        with Path(target).open("rb") as file:
            return _saved(file.read(MAX_BYTES + 1))
    fetcher = Fetcher(_metrics_url(target), timeout)
    try:
        return fetcher.fetch()
    finally:
        fetcher.close()


def _saved(body: bytes) -> Fetched:
    """Take a saved page; nothing but its last line feed tells whether it is whole."""
    if len(body) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    openmetrics = body.rstrip().endswith(b"\n# EOF")
    kind = "application/openmetrics-text" if openmetrics else ""
    return Fetched(body, kind, complete=False)


def _metrics_url(target: str) -> str:
    if "://" in target:
        parts = urlsplit(target)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("neither an http nor an https URL")
        return parts._replace(path="/metrics").geturl() if parts.path in ("", "/") else target
    try:
        address = parse_address(target)
    except ValueError as error:
        raise ValueError(f"no such file, and as an address it {error}") from error
    return address.url if address.prefix else f"{address.url}/metrics"
