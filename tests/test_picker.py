"""Picks from start to end: shares of a burst, leases, probes, decisions."""

import random
from collections import Counter

import pytest

from scorer.core.sample import Ask
from scorer.core.snapshot import PoolView, SignalView, TargetView
from scorer.core.vocabulary import Cause, SignalName, State
from scorer.decisions import Decisions
from scorer.inflight import InFlight
from scorer.picker import Picker
from tests.http.builders import NOW, losses, pool, target

ANY = Ask()
SCRAPE = 1.0
"""Seconds between two scrapes: a burst of picks falls between two of them."""


class Bench:
    """A picker with all it remembers."""

    def __init__(self, view: PoolView, seed: int = 1) -> None:
        self.view, self.inflight, self.decisions = view, InFlight(), Decisions()
        self.picker = Picker(self.inflight, self.decisions, random.Random(seed).random)
        self.now = NOW

    def burst(
        self, count: int, ask: Ask = ANY, over: float = SCRAPE, *, ends: bool = False
    ) -> Counter[str]:
        """Return who got each of ``count`` picks spread over some seconds.

        With ``ends`` each request is over at once, without it nothing is heard of any.
        """
        shares = Counter[str]()
        for _ in range(count):
            self.now += over / count
            choice, pick_id = self.picker.pick(self.view, ask, self.now)
            shares[choice.row.target] += 1
            if ends:
                self.inflight.done(pick_id, self.now, fault=False)
        return shares


def near(*scores: float) -> PoolView:
    """Return a pool of targets with these scores."""
    return pool(*(target(f"t{index}:1", score=score) for index, score in enumerate(scores)))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nearly_equal_targets_share_a_burst(seed: int) -> None:
    """Scores 100, 99.5, 99.5, 99: of N=400 picks within one scrape each gets 25 ± 10 %."""
    shares = Bench(near(100.0, 99.5, 99.5, 99.0), seed).burst(400)
    assert all(60 <= shares[f"t{index}:1"] <= 140 for index in range(4))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_point_does_not_take_all(seed: int) -> None:
    """Scores one point apart: of N=400 picks none gets above 70 %."""
    assert max(Bench(near(100.0, 99.0), seed).burst(400).values()) <= 280


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_identical_targets_have_no_order(seed: int) -> None:
    """Four identical targets in either order: of N=400 picks each gets 25 ± 7 %."""
    views = near(100.0, 100.0, 100.0, 100.0).targets
    for each in (views, views[::-1]):
        shares = Bench(pool(*each), seed).burst(400)
        assert all(72 <= shares[view.target] <= 128 for view in views)


def test_large_pool_is_shared() -> None:
    """100 identical targets, N=10,000 picks over 10 views, seed 1: each gets 1 ± 0.4 %."""
    bench = Bench(near(*[100.0] * 100))
    shares = Counter[str]()
    for _ in range(10):
        bench.inflight.prepare(bench.view, bench.now)
        shares += bench.burst(1000)
    assert len(shares) == 100
    assert all(60 <= count <= 140 for count in shares.values())


def test_blocked_target_gets_no_short_prompt() -> None:
    """Once a 32K prompt went to a target, short ones go elsewhere: N=100 over half a second."""
    bench = Bench(near(100.0, 100.0, 100.0, 100.0))
    [blocked] = bench.burst(1, Ask(32_768))
    assert bench.burst(100, Ask(200), over=0.5)[blocked] == 0


def test_sick_target_gets_next_to_nothing() -> None:
    """60 points against 100: none of N=100 picks while the good one is not busy."""
    assert Bench(near(60.0, 100.0)).burst(100, Ask(100), ends=True)["t0:1"] == 0


def test_least_bad_is_picked_in_panic() -> None:
    """When all are out, the least bad of two gets every pick, marked panic."""
    bad = [
        target(f"t{index}:1", score=score, eligible=False)
        for index, score in enumerate((5.0, 20.0))
    ]
    bench = Bench(pool(*bad, panic=True))
    assert bench.burst(50, Ask(100), ends=True) == {"t1:1": 50}
    assert all(each.choice.panic for each in bench.decisions.latest())


def warming(score: float) -> TargetView:
    """Return a target on its way to 100 points."""
    return target(
        "warm:1", score=score, warmup_ratio=score / 100.0, state=State.WARMUP, raw_score=100.0,
        points_lost=losses(warmup=100.0 - score),
    )  # fmt: skip


def warm_share(score: float) -> float:
    """Return the share of a warming target beside three warm ones, N=4,000, seed 1."""
    others = [target(f"t{index}:1", score=100.0) for index in range(3)]
    bench = Bench(pool(warming(score), *others))
    bench.inflight.load("chat", "warm:1").probed_at = NOW
    return bench.burst(4000, Ask(10), over=400.0, ends=True)["warm:1"] / 4000


def test_share_of_a_warming_target_grows_with_its_score() -> None:
    """From 0 to 100 points in steps of 20: a quarter of the score, ± 4 points of share."""
    for score in range(0, 101, 20):
        assert warm_share(float(score)) == pytest.approx(score / 400.0, abs=0.04)


def test_warming_target_ranks_as_what_it_rises_to() -> None:
    """Points that the ramp holds back do not make it lose every comparison."""
    assert losses(warmup=50.0)[Cause.WARMUP] == 50.0
    assert 0.06 <= warm_share(50.0) <= 0.17


def sick_pool() -> PoolView:
    """Return two good targets and one that only probes reach."""
    sick = target("sick:1", score=20.0, eligible=False, probe_only=True)
    return pool(target("t0:1"), target("t1:1"), sick)


def test_sick_target_is_probed_with_a_twentieth_of_the_picks() -> None:
    """100 picks over 100 s without feedback: probes expire after 30 s, so four at most."""
    bench = Bench(sick_pool())
    assert 3 <= bench.burst(100, over=100.0)["sick:1"] <= 4


def test_probe_names_the_normal_choice_next_and_is_marked() -> None:
    """The probed request has somewhere to go if it fails."""
    bench = Bench(sick_pool())
    bench.burst(25)
    [probe] = [each for each in bench.decisions.latest() if each.choice.reason == "probe"]
    assert probe.choice.row.target == "sick:1"
    assert probe.choice.alternates[0].target in {"t0:1", "t1:1"}


def test_answered_probe_lets_the_next_one_come() -> None:
    """A probe whose request is over is no longer open."""
    bench = Bench(sick_pool())
    bench.burst(25)
    [probe] = [each for each in bench.decisions.latest() if each.choice.reason == "probe"]
    bench.inflight.done(probe.pick_id, bench.now, fault=True)
    assert bench.burst(400, over=10.0)["sick:1"] == 1


def test_starved_target_is_probed() -> None:
    """A target that loses every comparison is asked once in a while."""
    bench = Bench(near(20.0, 100.0, 100.0))
    bench.burst(200, Ask(10), over=40.0, ends=True)
    bench.inflight.prepare(bench.view, bench.now)
    bench.burst(40, Ask(10), over=8.0, ends=True)
    reasons = {each.choice.reason for each in bench.decisions.latest(target="t0:1")}
    assert "probe" in reasons


def test_lease_is_opened_for_the_winner() -> None:
    """A pick is in flight at once, with the length it was asked with."""
    bench = Bench(near(100.0))
    _, pick_id = bench.picker.pick(bench.view, Ask(5000), NOW)
    lease = bench.inflight.find(pick_id)
    assert lease is not None
    assert (lease.target, lease.tokens, lease.opened_at) == ("t0:1", 5000, NOW)


def test_unknown_length_counts_as_the_mean() -> None:
    """Without a length the mean of the pool's known prompts is reckoned with."""
    bench = Bench(near(100.0))
    bench.burst(1, Ask(3000))
    bench.burst(1, Ask())
    assert [each.tokens for each in bench.decisions.latest()] == [3000, 3000]


def test_room_is_used_up_between_two_scrapes() -> None:
    """Of 10,000 tokens of KV, 85 % may be filled: eight prompts of 1,000, not nine."""
    full = target("full:1", kv_capacity=10_000.0, signals=target().signals | no_kv())
    bench = Bench(pool(full))
    bench.burst(9, Ask(1000))
    assert [each.choice.relaxed for each in bench.decisions.latest()] == ["kv_guard"] + [""] * 8


def no_kv() -> dict[str, object]:
    return {SignalName.KV_CACHE: SignalView(0.0, NOW)}


def test_decisions_are_the_last_thousand() -> None:
    """Older ones make room."""
    bench = Bench(near(100.0, 100.0))
    bench.burst(1100)
    ids = [each.pick_id for each in bench.decisions.latest()]
    assert len(ids) == len(set(ids)) == 1000


def test_decisions_can_be_asked_for_by_target_and_pool() -> None:
    """Of one target: where it was compared or named; of another pool: none."""
    bench = Bench(near(100.0, 100.0))
    bench.burst(10)
    assert len(list(bench.decisions.latest(target="t1:1"))) == 10
    assert list(bench.decisions.latest(target="t9:1")) == []
    assert list(bench.decisions.latest(pool="other")) == []


def test_departed_target_leaves_no_lease_behind() -> None:
    """A pick from a view that is just being replaced opens nothing that stays."""
    bench = Bench(near(100.0))
    bench.burst(1)
    bench.inflight.forget("chat", "t0:1")
    _, pick_id = bench.picker.pick(bench.view, Ask(), NOW)
    assert bench.inflight.find(pick_id) is None or bench.inflight.count("chat", "t0:1") == 1
