"""The simulator benchmark: scenarios × seeds × policies, then tables and plots.

    make bench-sim          S1–S5 on five development seeds
    make bench-sim-full     everything on ten seeds that nothing was tuned on

``--traces`` names a folder with the public traces (docs/benchmarks.md says which); without
it requests are generated. ``--keep`` names a folder where each finished run is kept and found
again, so that a run of an hour can be stopped and taken up; empty it when the code changes.
"""

import argparse
import json
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.pick.report import commit
from benchmarks.simulator.ablations import ablations
from benchmarks.simulator.figures import figures
from benchmarks.simulator.ours import Ours, patched, quiet
from benchmarks.simulator.report import markdown
from benchmarks.simulator.scenarios import Scenario, scenarios
from benchmarks.simulator.series import curve, over_time, watched
from benchmarks.simulator.workloads import TraceError, source
from benchmarks.simulator.world import Policy, World

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
QUICK_SEEDS, FULL_SEEDS = range(1, 6), range(100, 110)


class Work(NamedTuple):
    """One point of a scenario on one seed, all policies of it."""

    traces: Path | None
    key: str
    point: int
    seed: int
    keep: Path | None = None


def every_scenario() -> tuple[Scenario, ...]:
    """Return the scenarios and the ablations."""
    return (*scenarios(), *ablations())


def run_one(policy: Policy, world: World) -> dict[str, Any]:
    """Run a world to its end and return all that is kept of it."""
    with patched(**getattr(policy, "constants", {})):
        watch = watched(policy) if isinstance(policy, Ours) and world.setting.outage else None
        world.run()
    told: dict[str, Any] = {
        "figures": figures(world),
        "cdf": [written(each) for each in curve(world)],
        "shares": world.per_target,
    }
    if world.setting.outage:
        told["series"] = over_time(world, watch)
    return told


def run(work: Work) -> dict[str, dict[str, Any]]:
    """Return what each policy of a point comes to, by name; kept ones are not run again."""
    quiet()
    [scenario] = [each for each in every_scenario() if each.key == work.key]
    point = scenario.points[work.point]
    kept = Kept(work.keep, f"{work.key} {point.label} {work.seed} {source(work.traces).name[:5]}")
    requests = point.requests(source(work.traces), work.seed)
    told = {}
    for make in point.policies:
        policy = make()
        if policy.name not in kept.runs:
            with patched(**getattr(policy, "constants", {})):
                world = World(point.setting, requests, policy, work.seed)
            kept.add(policy.name, run_one(policy, world))
        told[policy.name] = kept.runs[policy.name]
    return told


class Kept:
    """The finished runs of one point on one seed, by policy; in a file if there is a folder."""

    def __init__(self, folder: Path | None, name: str) -> None:
        """Find what is kept."""
        self._path = folder and folder / f"{re.sub(r'[^A-Za-z0-9.]+', '_', name)}.json"
        found = self._path is not None and self._path.exists()
        self.runs: dict[str, dict[str, Any]] = (
            json.loads(self._path.read_text()) if self._path and found else {}
        )

    def add(self, policy: str, told: dict[str, Any]) -> None:
        """Keep a run; a stop in the middle of writing loses nothing that was kept before."""
        self.runs[policy] = told
        if self._path is not None:
            part = self._path.with_suffix(".part")
            part.write_text(json.dumps(self.runs))
            part.replace(self._path)


def gathered(
    chosen: list[Scenario], works: list[Work], results: Iterator[dict[str, dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the results by scenario and point: figures as lists over the seeds."""
    table = [
        {"key": each.key, "title": each.title, "points": [
            {"label": point.label, "policies": {}} for point in each.points
        ]}
        for each in chosen
    ]  # fmt: skip
    places = {each.key: index for index, each in enumerate(chosen)}
    for work, told in zip(works, results, strict=True):
        point = table[places[work.key]]["points"][work.point]
        print(f"{work.key} {point['label']} seed {work.seed}", flush=True)
        for name, one in told.items():
            lists = point["policies"].setdefault(name, {"figures": {}})
            for figure, value in one["figures"].items():
                lists["figures"].setdefault(figure, []).append(written(value))
            for extra in set(one) - {"figures"}:
                if _keeps(work.key, extra):
                    lists.setdefault(extra, one[extra])
    return table


def written(value: float) -> float | None:
    """Return a figure as JSON has it: rounded, null where it is infinite."""
    return round(value, 4) if isfinite(value) else None


def _keeps(key: str, extra: str) -> bool:
    """Whether an extra of the first seed is drawn, so that it belongs to the results."""
    return (key, extra) in {("S1", "cdf"), ("S2", "shares"), ("S6", "series")}


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what the command line asks for; leave with one error about what is wrong with it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="every scenario, seeds from 100 on")
    parser.add_argument("--only", help="scenarios, such as S1,S6; nothing is written then")
    parser.add_argument("--seeds", type=int, help="how many seeds")
    parser.add_argument("--traces", type=Path, help="folder with the public traces")
    parser.add_argument("--keep", type=Path, help="folder to keep finished runs in, and find them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    asked = parser.parse_args(arguments)
    seeds = FULL_SEEDS if asked.full else QUICK_SEEDS
    if asked.seeds is not None and not 1 <= asked.seeds <= len(seeds):
        parser.error(f"argument --seeds: must be from 1 to {len(seeds)}, not {asked.seeds}")
    if asked.jobs < 1:
        parser.error(f"argument --jobs: must be at least 1, not {asked.jobs}")
    asked.seeds = list(seeds)[: asked.seeds]
    known = {each.key: each for each in every_scenario()}
    asked.scenarios = [each for each in known.values() if asked.full or each.quick]
    if asked.only is not None:
        wanted = asked.only.split(",")
        if unknown := [key for key in wanted if key not in known]:
            parser.error(
                f"argument --only: there is no scenario {unknown[0]!r}, only {', '.join(known)}"
            )
        asked.scenarios = [known[key] for key in dict.fromkeys(wanted)]
    try:
        source(asked.traces)
        if asked.keep is not None:
            asked.keep.mkdir(parents=True, exist_ok=True)
    except TraceError as error:
        parser.error(f"argument --traces: {error}")
    except OSError as error:
        parser.error(f"argument --keep: {error}")
    return asked


def main() -> None:
    """Run, print the page, and write it with its numbers and plots."""
    asked = options()
    works = [
        Work(asked.traces, each.key, index, seed, asked.keep)
        for each in asked.scenarios for index in range(len(each.points)) for seed in asked.seeds
    ]  # fmt: skip
    with ProcessPoolExecutor(asked.jobs) as executor:
        results = executor.map(run, works) if asked.jobs > 1 else map(run, works)
        table = gathered(asked.scenarios, works, results)
    told = {
        "environment": {
            "command": f"make bench-sim{'-full' if asked.full else ''}",
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "commit": commit(ROOT),
            "seeds": asked.seeds,
            "workload": source(asked.traces).name,
        },
        "scenarios": table,
    }
    page = markdown(told)
    print(page)
    if asked.only is None:
        from benchmarks.simulator import plots  # noqa: PLC0415 - matplotlib is only needed to draw

        name = "simulator-full" if asked.full else "simulator"
        (RESULTS / f"{name}.json").write_text(dumped(told))
        (RESULTS / f"{name}.md").write_text(page)
        plots.draw(told, RESULTS, name)


def dumped(told: dict[str, Any]) -> str:
    """Return the numbers as JSON, a list on one line."""
    text = json.dumps(told, indent=1)
    lines, depth = [], 0
    for line in text.splitlines():
        if depth:
            lines[-1] += line.strip() if line.strip().startswith("]") else f" {line.strip()}"
        else:
            lines.append(line)
        depth += line.endswith("[") and not line.strip().endswith(('points": [', 'scenarios": ['))
        depth -= depth and line.strip() in ("]", "],")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
