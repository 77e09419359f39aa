"""The results as a page: what was measured, where, with which versions, and two tables."""

from collections.abc import Mapping
from typing import Any

from benchmarks.scrape.live import PICKS
from benchmarks.scrape.parts import BATCHES

HEAD = """\
# Scrape benchmark

`make bench-scrape` on {date}, commit {commit}.

{cpu}, {cores} cores, Linux {kernel}, Python {python}.
{packages}.

## One scrape

CPU in milliseconds: *read* is a page in memory to samples, *whole* is a scrape over a kept
connection on loopback, fetching and reading. Medians of {batches} batches.

| page | KiB | mapping | read | whole |
|---|--:|---|--:|--:|
"""
PAGE = "| {page} | {kib:.0f} | {mapping} | {read:.2f} | {whole:.2f} |\n"
DAEMON = """
## A daemon

One process on one core, for {seconds:g} s each, every target scraped once a second: a vLLM page of
{page_kib} KiB each, parsed, scored and published. The stand-in for the engines and
{picks} picks a second are on another core. *none* scrapes practically nothing. As the engines saw
it, *longest* is the longest time between two scrapes of a target, and *late* how many times it was
above one and a half intervals.

| targets | scrapes/s | share of a core | missed | longest | late | pick p50 | pick p99 |
|--:|--:|--:|--:|--:|--:|--:|--:|
"""
LOAD = (
    "| {name} | {scrapes:.0f} | {cpu:.0%} | {missed:.0f} | {longest:.2f} s | {late} "
    "| {pick_p50:.2f} ms | {pick_p99:.2f} ms |\n"
)


def markdown(told: Mapping[str, Any]) -> str:
    """Return the page."""
    facts = told["environment"]
    listed = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    text = HEAD.format_map({**facts, "packages": listed, "batches": BATCHES})
    text += "".join(PAGE.format_map(each) for each in told["pages"])
    text += DAEMON.format_map({**facts, "picks": PICKS})
    for each in told["daemons"]:
        scraped = each["interval"] > 0
        name = f"{each['targets']:,}" if scraped else f"{each['targets']:,} (none)"
        text += LOAD.format_map({**each, "name": name})
    return text
