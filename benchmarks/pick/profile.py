"""Profile of one pick: which function takes how many microseconds.

    python -m benchmarks.pick.profile [--targets 8] [--picks 20000] [--feedback]

With ``--feedback`` it is the report of a pick's end that is measured.

Picks go through the shipped connection code on a transport that writes nowhere, so the
table is what the daemon adds to uvloop and the kernel. A profiler makes every call dearer:
what it adds to a call is measured and taken off, and the rest is scaled to what a pick
takes without a profiler, which is the lowest of several batches.
"""

import argparse
import cProfile
import gc
import pstats
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.pick.inside import Inside, cost, done, get, pick_id_of
from scorer.serving import GC_THRESHOLDS

ROOT = Path(__file__).parents[2]
BATCHES = 10
LEAST = 0.05
"""Microseconds below which a function is not listed by itself."""


@dataclass(frozen=True, slots=True)
class Line:
    """One function: its place, calls a pick, and microseconds a pick without its callees."""

    name: str
    calls: float
    own: float


def profiled(inside: Inside, make: Callable[[], Sequence[bytes]]) -> list[Line]:
    """Return what each function took of one request, the dearest first, in true time.

    ``make`` returns the requests of one batch.
    """
    true = min(cost(inside, make()) for _ in range(BATCHES))
    requests = make()
    extra = overhead()
    profiler = cProfile.Profile(time.thread_time)
    gc.collect()
    receive = inside.receive
    profiler.enable()
    for request in requests:
        receive(request)
    profiler.disable()
    lines = [
        Line(
            place(*key), calls / len(requests), max(0.0, own - extra * calls) * 1e6 / len(requests)
        )
        for key, (_, calls, own, *_) in pstats.Stats(profiler).stats.items()  # type: ignore[attr-defined]
    ]
    scale = true / sum(line.own for line in lines)
    lines = [Line(line.name, line.calls, line.own * scale) for line in lines]
    return sorted(lines, key=lambda line: -line.own)


def overhead() -> float:
    """Return the seconds that the profiler adds to the own time of one call."""
    return max(0.0, (timed(profiled=True) - timed(profiled=False)) / CALLS)


CALLS = 100_000


def timed(*, profiled: bool) -> float:
    """Return the seconds that many calls of a function that does nothing take."""
    profiler = cProfile.Profile(time.thread_time)

    def nothing() -> None:
        pass

    def loop(call: Callable[[], None]) -> None:
        for _ in range(CALLS):
            call()

    if profiled:
        profiler.enable()
    began = time.thread_time()
    loop(nothing)
    seconds = time.thread_time() - began
    profiler.disable()
    return seconds


def place(path: str, line: int, name: str) -> str:
    """Return the name of a function as the table shows it."""
    if path == "~":
        return name.strip("<>")
    inside = Path(path).is_relative_to(ROOT)
    where = str(Path(path).relative_to(ROOT)) if inside else Path(path).name
    return f"{where}:{line} {name}"


def table(lines: Sequence[Line]) -> str:
    """Return the lines as a table, those below :data:`LEAST` as one."""
    total = sum(line.own for line in lines)
    shown = [line for line in lines if line.own >= LEAST]
    rest = Line("everything else", 0.0, total - sum(line.own for line in shown))
    rows = [
        f"| {line.own:5.2f} | {line.own / total:4.0%} | {line.calls:4.1f} | `{line.name}` |"
        for line in shown
    ]
    rows.append(f"| {rest.own:5.2f} | {rest.own / total:4.0%} |      | {rest.name} |")
    rows.append(f"| {total:5.2f} | 100% |      | one request |")
    return "\n".join(["| µs | share | calls | function |", "|--:|--:|--:|---|", *rows])


def main() -> None:
    """Print the profile of a pick."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pick.profile", description=__doc__)
    parser.add_argument("--targets", type=int, default=8)
    parser.add_argument("--picks", type=int, default=20_000)
    parser.add_argument("--path", default="/pick?prompt_tokens=500&format=headers")
    parser.add_argument("--feedback", action="store_true", help="profile reports, not picks")
    options = parser.parse_args()
    gc.set_threshold(*GC_THRESHOLDS)
    inside = Inside(options.targets)
    pick = get(options.path)

    def picks() -> list[bytes]:
        return [pick] * options.picks

    def reports() -> list[bytes]:
        inside.judge()  # Otherwise too many reports would wait to be learned from, and be refused.
        return [done(pick_id_of(inside.request(pick))) for _ in range(options.picks)]

    print(table(profiled(inside, reports if options.feedback else picks)))


if __name__ == "__main__":
    main()
