"""Turns what the daemon publishes and what the client saw into lines to read.

Everything but :class:`Narrator` is pure: documents and numbers in, text out.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scorer.demo.client import Window
from scorer.demo.wire import KeepAlive

BAR_WIDTH = 10
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """One target as ``/api/v1/targets`` tells it; ``ttft`` in seconds, ``kv`` 0-1.

    ``lost`` are the points lost, by cause.
    """

    name: str
    target: str
    score: float | None
    state: str
    reason: str
    running: float | None
    waiting: float | None
    kv: float | None
    ttft: float | None
    lost: Mapping[str, float]


def read_rows(document: bytes, names: Mapping[str, str]) -> list[Row]:
    """Return the rows of a ``/api/v1/targets`` answer in the order of ``names``."""
    targets = {target["target"]: target for target in json.loads(document)["data"]}
    return [_row(name, targets[address]) for address, name in names.items() if address in targets]


def _row(name: str, target: Mapping[str, Any]) -> Row:
    # What an engine said before it went away is not what it is doing.
    gone = target["state"] == "unreachable"
    signals = {} if gone else target["signals"]
    return Row(
        name=name,
        target=target["target"],
        score=target["score"],
        state=target["state"],
        reason=target["state_reason"],
        running=None if gone else target["running"],
        waiting=signals.get("queue", {}).get("value"),
        kv=signals.get("kv_cache", {}).get("value"),
        ttft=signals.get("ttft", {}).get("value"),
        lost=target["points_lost"],
    )


def table(elapsed: float, rows: Sequence[Row], window: Window, seconds: float) -> list[str]:
    """Return the lines of one report: the client in the first, then one per engine."""
    head = (
        f"{clock(elapsed)}  client: {window.picks.total() / seconds:.1f} requests/s,"
        f" TTFT p50 {_number(window.ttft(0.5), '.2f', ' s')}"
        f" p95 {_number(window.ttft(0.95), '.2f', ' s')}{_troubles(window)}"
    )
    width = max((len(row.name) for row in rows), default=0)
    return [head, *(_line(row, width, window.share(row.target)) for row in rows)]


def clock(elapsed: float) -> str:
    """Return ``elapsed`` seconds as minutes and seconds."""
    minutes, seconds = divmod(int(elapsed), 60)
    return f"{minutes}:{seconds:02}"


def _troubles(window: Window) -> str:
    counts = {
        "retried on the alternate": window.retried,
        "broken off": window.broken,
        "failed": window.failed,
        "without a pick": window.unpicked,
        "not sent": window.unsent,
    }
    return "".join(f", {count} {what}" for what, count in counts.items() if count)


def _line(row: Row, width: int, share: float | None) -> str:
    return (
        f"  {row.name:<{width}}  {_number(row.score, '5.1f', '')} {_bar(row.score)} {row.state:<11}"
        f" run {_number(row.running, '2.0f', '')}  wait {_number(row.waiting, '2.0f', '')}"
        f"  kv {_number(row.kv, '4.0%', '')}  ttft {_number(row.ttft, '5.2f', ' s')}"
        f"  picks {_number(share, '4.0%', '')}{_losses(row.lost)}"
    )


def _losses(lost: Mapping[str, float]) -> str:
    """Return what a score lost at least one point to, the most costly cause first."""
    causes = sorted(lost, key=lambda cause: lost[cause], reverse=True)
    return "".join(f"  -{lost[cause]:.0f} {cause}" for cause in causes if lost[cause] >= 1)


def _number(value: float | None, spec: str, unit: str) -> str:
    if value is None:
        return NOTHING.rjust(len(format(0.0, spec)) + len(unit))
    return format(value, spec) + unit


def _bar(score: float | None) -> str:
    return ("█" * round((score or 0.0) / 100 * BAR_WIDTH)).ljust(BAR_WIDTH, "·")


def changes(before: Sequence[Row], after: Sequence[Row]) -> list[str]:
    """Return a sentence for each target whose state changed between two reports.

    It gives the address too, which is the target's name on the status page.
    """
    states = {row.target: row.state for row in before}
    return [
        f"{row.name} ({row.target}): {states[row.target]} -> {row.state}"
        + (f" ({row.reason})" if row.reason not in ("", "none") else "")
        for row in after
        if states.get(row.target, row.state) != row.state
    ]


class Narrator:
    """Prints a report every ``interval`` seconds, read from ``daemon``.

    ``names`` maps the address of each target to what it is called; ``take`` returns what
    the client saw since the last report.
    """

    def __init__(
        self,
        daemon: KeepAlive,
        names: Mapping[str, str],
        take: Callable[[], Window],
        write: Callable[[str], None],
        interval: float = 2.0,
    ) -> None:
        self._daemon = daemon
        self._names = names
        self._take = take
        self._write = write
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        self._started = self._reported = self._loop.time()
        self._rows: list[Row] = []

    def say(self, event: str) -> None:
        """Print an event at once."""
        self._write(f"{clock(self._loop.time() - self._started)}  * {event}")

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            await self.report()

    async def report(self) -> None:
        """Print state changes since the last report and the table."""
        try:
            _, document = await self._daemon.get("/api/v1/targets")
        except OSError as error:
            self.say(f"the daemon does not answer: {error}")
            return
        rows = read_rows(document, self._names)
        for change in changes(self._rows, rows):
            self.say(change)
        now = self._loop.time()
        for line in table(now - self._started, rows, self._take(), now - self._reported):
            self._write(line)
        self._rows, self._reported = rows, now
