"""The simulator: repeatable, nobody lost, and its scorer is the daemon."""

import json
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.simulator.ablations import VARIANTS, ablations
from benchmarks.simulator.baselines import Clairvoyant, LeastConnections
from benchmarks.simulator.engine import SimEngine
from benchmarks.simulator.figures import figures, median, paired, quantile
from benchmarks.simulator.ours import (
    POOL,
    SCRAPE_TAKES,
    Brain,
    Keyed,
    Ours,
    Plain,
    Sharing,
    Ticket,
    patched,
    quiet,
)
from benchmarks.simulator.pages import BOOT, Sampler, read_page
from benchmarks.simulator.report import goals, markdown
from benchmarks.simulator.scenarios import A100_8B, ALL, asked, conversations, pool, scenarios
from benchmarks.simulator.workloads import (
    Request,
    mixed,
    shared_prefixes,
    source,
)
from benchmarks.simulator.world import Flow, Outage, Policy, Setting, World
from scorer import pool_jobs
from scorer.config import load_config
from scorer.core import pick as core_pick
from scorer.core import prefill as core_prefill
from scorer.core.prefill import work
from scorer.core.snapshot import PoolView
from scorer.daemon import Daemon
from scorer.demo.exposition import EnginePage
from scorer.sources.engine import EngineSource
from scorer.sources.places import ScrapeTarget

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
THREE = pool((3, A100_8B))


@pytest.fixture(autouse=True)
def _quiet(_logs_as_before):
    """Let the scorer log little here."""
    quiet()


def world(policy: Policy, *, seconds: float = 90.0, seed: int = 1, **setting) -> World:
    """Return a world of three engines and a lively load that has come to its end."""
    requests = asked(lambda each: each.conv, source(None), seed, 8.0, 0.02, seconds)
    made = World(Setting(THREE, seconds=seconds, **setting), requests, policy, seed)
    made.run()
    return made


@pytest.mark.parametrize("make", [Ours, Plain, LeastConnections, partial(Sharing, 2)])
def test_same_seed_same_result(make):
    """Every moment of every request is the same in a second run."""
    first, second = ([(f.target, f.first, f.end) for f in world(make()).flows] for _ in range(2))
    assert first == second


def test_same_seed_same_result_in_pools_that_are_sampled():
    """More targets than a pick looks at are shuffled, by the seed alone."""
    requests = asked(lambda each: each.conv, source(None), 1, 20.0, seconds=20.0)
    placed = []
    for _ in range(2):
        done = World(Setting(pool((12, A100_8B)), seconds=20.0), requests, Ours(), 1)
        done.run()
        placed.append([flow.target for flow in done.flows])
    assert placed[0] == placed[1]


@pytest.mark.parametrize(
    ("policy", "knows"), [(Sharing(2), 1.0), (Ours(pickers=2), 0.5)], ids=["shared", "apart"]
)
def test_daemons_know_the_picks_that_they_share(policy, knows):
    """Each has counted all picks, or about its half; none has a lease left at the end."""
    done = world(policy, seconds=60.0)
    for brain in policy.brains:
        loads = brain.inflight.pool(POOL).loads.values()
        assert sum(load.picks for load in loads) == pytest.approx(len(done.flows) * knows, rel=0.2)
        assert sum(load.in_flight for load in loads) <= 1


def test_prompts_that_begin_alike_go_to_one_target():
    """With a key for the beginning a conversation stays where it was, unlike without."""
    requests = [Request(15.0 + 3 * at, 2000, 5, (0, 1, 2 + at)) for at in range(20)]
    places = []
    for policy in (Keyed(), Ours()):
        done = World(Setting(THREE, seconds=80.0), requests, policy, 1)
        done.run()
        places.append(max(done.per_target))
    assert places[0] >= 18 > places[1]


def test_other_seed_other_result():
    """The seed decides what is asked."""
    one, other = (asked(lambda each: each.conv, source(None), seed, 8.0) for seed in (1, 2))
    assert one != other


@pytest.mark.parametrize("make", ALL)
def test_every_policy_serves_every_request(make):
    """Nobody is lost, and no engine is left with work."""
    done = world(make(), seconds=30.0)
    assert all(flow.request.at < flow.first <= flow.end < 1e6 for flow in done.flows)
    assert sum(done.per_target) == len(done.flows)


@pytest.mark.parametrize("make", [Ours, Plain, LeastConnections, Clairvoyant])
def test_requests_of_an_engine_that_dies_are_served_elsewhere(make):
    """All are answered, those under way on another engine, and the dead one is spared."""
    outage = Outage(1, 30.0, 50.0, 60.0)
    done = world(make(), outage=outage)
    assert all(flow.end < 1e6 for flow in done.flows)
    while_dead = [f for f in done.flows if 31.0 < f.request.at < 50.0]
    assert not any(flow.target == 1 and flow.end < 50.0 for flow in while_dead)
    assert 0 < done.refused < 60


def test_impatient_clients_leave_and_come_back():
    """With two seconds of patience some leave, and each leaves three times at most."""
    done = world(LeastConnections(), patience=2.0)
    assert done.timeouts > 0
    assert max(flow.tries for flow in done.flows) <= 3
    assert sum(engine.tally.aborted for engine in done.engines) == done.timeouts


def test_direct_samples_are_those_of_the_page():
    """What the simulator gives the scorer is what the daemon reads from the engine's page."""
    engine = A100_8B()
    sampler = Sampler(engine)
    for number, prompt in enumerate((3000, 300, 30_000, 500)):
        engine.submit(number, prompt, 40 + 100 * number, 0.0)
    for now in (0.0, 0.5, 3.0, 30.0):
        engine.advance(now)
        assert sampler().samples == read_page(engine)


class Page(BaseHTTPRequestHandler):
    """Answers with what its server holds; answering takes time on the virtual clock."""

    def do_GET(self) -> None:
        self.server.now += SCRAPE_TAKES
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """Return a server of metrics pages, for all engines in turn."""
    made = ThreadingHTTPServer(("", 0), Page)
    made.now, made.body, made.daemon_threads = 0.0, b"", True
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


class Twin(Ours):
    """The simulated scorer, and beside it a daemon that scrapes the same engines over HTTP.

    The daemon's scheduler is not started: its jobs are run when the simulation scrapes
    and judges, on the simulation's time.
    """

    def __init__(self, daemon: Daemon, server: ThreadingHTTPServer, names: list[str]) -> None:
        super().__init__()
        self.daemon, self.server, self.aliases = daemon, server, names
        self.series: list[tuple[list, list]] = []

    def _run(self, job: str, now: float) -> None:
        self.server.now = now
        self.daemon.scheduler._jobs[job].run()

    def _scrape(self, brain: Brain, index: int, now: float) -> None:
        super()._scrape(brain, index, now)
        engine: SimEngine = self.world.engines[index]
        self.server.body = EnginePage(engine, "m", BOOT + engine.started_at, {}).render()
        self._run(f"scrape {POOL} {self.aliases[index]}", now)

    def _judge(self, brain: Brain, now: float) -> None:
        super()._judge(brain, now)
        self._run(f"score {POOL}", now)
        theirs = self.daemon.registry.snapshot.pools[POOL]
        self.series.append((told(brain.view()), told(theirs)))

    def pick(self, flow: Flow, now: float) -> int:
        index, prompt = super().pick(flow, now), flow.request.prompt
        assert isinstance(flow.ticket, Ticket)
        view = self.daemon.registry.snapshot.pools[POOL].targets[index]
        self.daemon.inflight.open(POOL, view, flow.ticket.pick_id, work(prompt), prompt, now)
        return index

    def _report(self, flow: Flow, now: float, **what: object) -> None:
        super()._report(flow, now, **what)
        self.server.now = now
        target = self.aliases[flow.target]
        self.daemon.feedback.take({"pick_id": flow.ticket.pick_id, "target": target, **what})


def told(view: PoolView) -> list[tuple]:
    """Return score, state and what was lost of each target."""
    return [(each.score, each.state, dict(each.points_lost)) for each in view.targets]


@pytest.mark.slow
def test_simulated_scores_are_the_daemons(server, tmp_path, monkeypatch):
    """Both judge the same engines: equal scores, states and losses at every judgement."""

    def patient(target: ScrapeTarget) -> EngineSource:
        """Return a source that waits long: of all that is done, sockets alone take real time."""
        return EngineSource(replace(target, timeout=60.0))

    monkeypatch.setattr(pool_jobs, "EngineSource", patient)
    names = [f"127.0.0.{place}:{server.server_port}" for place in (1, 2, 3)]
    path = tmp_path / "scorer.yml"
    path.write_text(f"pools: [{{name: {POOL}, static_configs: [{{targets: {names}}}]}}]")
    daemon = Daemon(load_config(path), path)
    daemon.clocks.monotonic = lambda: server.now
    daemon.clocks.wall = lambda: BOOT + server.now
    daemon.scheduler.start = lambda: None
    daemon.start()
    policy = Twin(daemon, server, names)
    world(policy)
    daemon.jobs.stop()
    assert len(policy.series) > 180
    scores = [score for own, _ in policy.series[2:] for score, _, _ in own]
    assert min(scores) < 90.0
    for own, theirs in policy.series:
        assert own == theirs


def test_replay_has_the_asked_rate_and_the_share_of_documents():
    """34 requests a second for ten minutes within 15 %, of which a tenth are documents."""
    requests = conversations(source(None), 3, 34.0, 0.1)
    assert len(requests) / 600 == pytest.approx(34.0, rel=0.15)
    assert sum(each.prompt >= 16_000 for each in requests) / len(requests) == pytest.approx(
        0.1, abs=0.02
    )


def test_no_documents_leave_requests_as_they_are():
    """A share of 0 replaces nothing."""
    requests = [Request(0.0, 5, 5), Request(1.0, 6, 6)]
    assert mixed(requests, [(20_000, 1, ())], 0.0, random.Random(1)) == requests


@pytest.mark.parametrize("make", VARIANTS)
def test_every_variant_of_the_rule_serves_every_request(make):
    """What is left out leaves a scorer that works, and the shipped code as it was."""
    policy = make()
    before = (core_pick.COLD_SECONDS, core_prefill.UNDOUBTED)
    with patched(**getattr(policy, "constants", {})):
        done = world(policy, seconds=30.0)
    assert all(flow.end < 1e6 for flow in done.flows)
    assert before == (core_pick.COLD_SECONDS, core_prefill.UNDOUBTED)


def test_constant_that_is_no_more_is_an_error():
    """An ablation of something that was renamed must not pass for one that changes nothing."""
    with pytest.raises(AttributeError), patched(pick__GONE=1):
        pass


def test_shared_prefixes_are_mostly_shared():
    """Nine in ten prompts begin with one of five; new ones share no block."""
    requests = shared_prefixes(random.Random(1), 20.0)
    hot = [bool(each.prefix) and each.prefix[0] < 1000 for each in requests]
    new = [each for each, shared in zip(requests, hot, strict=True) if not shared]
    blocks = [block for each in new for block in each.prefix]
    assert sum(hot) / len(requests) == pytest.approx(0.9, abs=0.02)
    assert len(blocks) == len(set(blocks))


def test_quantile_is_the_smallest_value_that_so_many_do_not_exceed():
    """P99 of 1 to 100 is 99, the median of two is the smaller."""
    assert (quantile(range(1, 101), 0.99), quantile([2.0, 1.0], 0.5)) == (99, 1.0)


def test_ratios_are_taken_seed_by_seed():
    """The median of ratios, not the ratio of medians."""
    assert median(paired([1.0, 1.0, 9.0], [2.0, 1.0, 3.0])) == 1.0


def test_keys_of_scenarios_are_unique():
    """Results are found by their key."""
    keys = [each.key for each in (*scenarios(), *ablations())]
    assert len(keys) == len(set(keys))


def test_figures_leave_out_the_first_minute():
    """Requests of the first minute are in no figure."""
    done = world(LeastConnections())
    late = [flow for flow in done.flows if flow.request.at >= 60.0]
    assert figures(done)["requests"] == len(late) < len(done.flows)


@pytest.mark.parametrize("name", ["simulator", "simulator-full"])
def test_committed_page_shows_the_committed_numbers(name):
    """The page is generated from the numbers beside it, not edited; its aims were measured."""
    numbers = json.loads((RESULTS / f"{name}.json").read_text())
    assert (RESULTS / f"{name}.md").read_text() == markdown(numbers)
    assert len(list(goals(numbers))) >= 5
