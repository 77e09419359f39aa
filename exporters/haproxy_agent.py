"""HAProxy's agent-check: one line for each connection, a full sentence every time.

    HAProxy connects, sends ``10.0.0.7:8000`` or ``chat/10.0.0.7:8000`` and a line end
    → ``up ready 63%``, ``drain`` or ``down #connection_refused``, and the connection ends

Only ``up`` takes back a ``down`` and only ``ready`` takes back a ``drain``, so both are
said each time. Where nothing can be said the connection ends without a word, and HAProxy
goes by the last one: a daemon that knows nothing yet takes nobody out.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import structlog

from scorer.core.snapshot import EMPTY, PoolView, Snapshot, TargetView
from scorer.core.vocabulary import State
from scorer.output_stats import Output, OutputStats

LONGEST_NAME = 512
"""Bytes of a question; more is none."""
PATIENCE = 1.0
"""Seconds in which a question must have come, and its answer must have been read."""
MOST_CONNECTIONS = 4096
"""Connections at once; others are closed unheard, and HAProxy goes by the last word."""
REMEMBERED = 10_000
"""Names of targets that may have left."""
LOG_INTERVAL = 10.0
"""Seconds between two log lines about names that are not known."""
SILENCE = b""

logger = structlog.stdlib.get_logger(__name__)


def sentence(view: TargetView, pool: PoolView) -> str:
    """Return what HAProxy is told of a target, "" for nothing.

    A target that picks would only probe gets the least weight there is: a trickle of
    requests leads back from everything that requests have shown. In panic the pool's
    candidates get it too, because HAProxy without any server answers 503.
    """
    if view.state is State.DRAINING:
        return "drain"
    if view.score is None:
        return ""
    if view.eligible:
        return f"up ready {max(1, round(100 * view.weight))}%"
    if view.probe_only or (pool.panic and view in pool.candidates):
        return "up ready 1%"
    if view.state is State.UNREACHABLE:
        return f"down #{view.state_reason}"
    return "up ready 0%"


class Agent:
    """Answers by the latest snapshot; runs on one event loop."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        known: Callable[[str], bool],
        outputs: OutputStats,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Answer from ``snapshot``; ``known`` says whether a target is in any pool.

        What was answered is counted in ``outputs``, silence is not.
        """
        self._snapshot = snapshot
        self._known = known
        self._outputs = outputs
        self._clock = clock
        self._logged_at = -LOG_INTERVAL
        self._of = EMPTY
        self._lines: Mapping[str, bytes] = MappingProxyType({})
        self._seen: dict[str, bool] = {}
        self.connections = 0

    def answer(self, name: str) -> bytes:
        """Return :meth:`line`, and count it unless it is silence."""
        line = self.line(name)
        if line is not SILENCE:
            self._outputs.answered(Output.HAPROXY_AGENT)
        return line

    def line(self, name: str) -> bytes:
        """Return the line for ``target`` or ``pool/target``, with its end; empty for silence.

        A target that was known and is no more is drained. One that never was is no
        business of ours, as it may be a slip of the pen: HAProxy is left alone with it.
        """
        if (snapshot := self._snapshot()) is not self._of:
            self._of, self._lines = snapshot, _lines(snapshot)
        if (line := self._lines.get(name)) is not None:
            self._remember(name, was=True)
            return line
        if self._known(name.rpartition("/")[2]):
            return SILENCE
        if self._seen.get(name):
            return b"drain\n"
        if name not in self._seen and self._clock() - self._logged_at >= LOG_INTERVAL:
            self._remember(name, was=False)
            self._logged_at = self._clock()
            logger.warning("HAProxy asks about a target that is not known", target=name)
        return SILENCE

    def _remember(self, name: str, *, was: bool) -> None:
        if name not in self._seen and len(self._seen) >= REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._seen[name] = was


def _lines(snapshot: Snapshot) -> dict[str, bytes]:
    """Return every answer by its question; of a target in several pools the first counts."""
    lines: dict[str, bytes] = {}
    for pool in snapshot.pools.values():
        for view in pool.targets:
            said = sentence(view, pool)
            line = f"{said}\n".encode() if said else SILENCE
            lines[f"{pool.name}/{view.target}"] = line
            lines.setdefault(view.target, line)
    return lines


class Asked(NamedTuple):
    """What came so far, and whether that is all."""

    name: str
    whole: bool


def asked(data: bytes) -> Asked:
    """Return the target that a question names: its first line without blanks."""
    line, end, _ = data.partition(b"\n")
    return Asked(line.decode("utf-8", "replace").strip(), bool(end))


class AgentConnection(asyncio.Protocol):
    """One question and its answer; whoever is slow at either is cut off."""

    def __init__(self, agent: Agent) -> None:
        """Let ``agent`` answer."""
        self._agent = agent
        self._data = b""
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the question, unless there are too many waiting already."""
        self._transport = transport
        self._agent.connections += 1
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(PATIENCE, transport.abort)
        if self._agent.connections > MOST_CONNECTIONS:
            transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        """Forget it."""
        self._agent.connections -= 1
        if self._deadline is not None:
            self._deadline.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer as soon as the question is whole."""
        self._data += data[:LONGEST_NAME]
        question = asked(self._data)
        if question.whole or len(self._data) > LONGEST_NAME:
            self._answer(question)

    def eof_received(self) -> bool:
        """Answer a question that ends with the connection; there is none after it."""
        if self._data:
            self._answer(asked(self._data))
        return False

    def _answer(self, question: Asked) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if 0 < len(question.name) <= LONGEST_NAME:
            transport.write(self._agent.answer(question.name))
        transport.close()
