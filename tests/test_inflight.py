"""In-flight counts: with full, lossy and no feedback, and without end."""

import resource
import threading

import pytest

from scorer.core.load import MOST_LEASES
from scorer.core.outstanding import NOTHING
from scorer.inflight import InFlight, Origin
from tests.emulated import World
from tests.http.builders import NOW, pool, target
from tests.untraced import untraced

RATE = 10.0
"""Requests a second for four engines: about half of what they can do."""


def pick_ids(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def opened(inflight: InFlight, *ids: str, tokens: int = 1000, now: float = NOW) -> None:
    for pick_id in ids:
        inflight.open("chat", target("a:1"), pick_id, tokens * 1.02, tokens, now)


@pytest.mark.slow
def test_full_feedback_counts_exactly() -> None:
    """Every event told, 60 s, seed 1: our count is the engine's at each scrape, none is lost."""
    world = World(heard=1.0)
    wrong: list[str] = []
    world.scraped = lambda name: wrong.extend(
        [name] if world.in_flight(name) != world.under_way(name) else []
    )
    world.run(60.0, RATE)
    assert world.inflight.pool("chat").mode.told
    assert (wrong, world.lost()) == ([], 0)
    world.run(30.0, 0.0)
    assert [world.in_flight(name) for name in world.engines] == [0] * 4


@pytest.mark.slow
def test_lossy_feedback_stays_near_the_truth() -> None:
    """One event in twenty lost, 120 s, seed 1: off by at most 5 requests; none stays for ever."""
    world = World(heard=0.95)
    off: list[int] = []
    world.scraped = lambda name: off.append(world.in_flight(name) - world.under_way(name))
    world.run(120.0, RATE)
    assert world.inflight.pool("chat").mode.told
    assert max(map(abs, off)) <= 5
    world.run(60.0, 0.0)
    assert [world.in_flight(name) for name in world.engines] == [0] * 4
    assert 0.5 * world.unheard_ends <= world.lost() <= 1.5 * world.unheard_ends


@pytest.mark.slow
def test_no_feedback_follows_the_scrapes() -> None:
    """Nothing told, 60 s, seed 1: what the engine has, and at most the picks of 4 s more."""
    world = World(heard=0.0)
    off: list[int] = []
    world.scraped = lambda name: off.append(world.in_flight(name) - world.under_way(name))
    world.run(60.0, RATE)
    mode = world.inflight.pool("chat").mode
    assert (mode.feedback, mode.told) == (False, False)
    assert min(off) >= 0
    assert max(off) <= 4 * RATE
    world.run(60.0, 0.0)
    assert [world.in_flight(name) for name in world.engines] == [0] * 4
    assert world.lost() == sum(world.inflight.count("chat", name) for name in world.engines)


@pytest.mark.slow
def test_a_million_picks_without_a_word_leak_nothing() -> None:
    """N=1,000,000 leases on 8 targets, no scrape, no feedback: bounded, then gone by time."""
    view = pool(*(target(f"t{number}:1") for number in range(8)))
    inflight = InFlight()
    inflight.prepare(view, 0.0)
    loads = [inflight.load("chat", each.target) for each in view.targets]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with untraced():
        for number in range(1_000_000):
            inflight.lease(loads[number % 8], f"1k{number:024x}", 505.0, 500, number / 10_000.0)
    assert sum(load.in_flight for load in loads) == 8 * MOST_LEASES == len(inflight._leases)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024
    inflight.prepare(view, 100.0 + view.pick.lease_ttl + 1.0)
    assert inflight._leases == {}
    assert [load.in_flight for load in loads] == [0] * 8


def test_nothing_else_resets_counts() -> None:
    """Views in which a target is bad, out, back or alone, and scrapes that say nothing."""
    inflight = InFlight()
    opened(inflight, *pick_ids(3))
    states = ({"eligible": False}, {"observed_dead": True}, {"cooling": True}, {"score": 0.0}, {})
    for second, changes in enumerate(states, 1):
        now = NOW + second
        inflight.prepare(pool(target("a:1", **changes), target("b:1")), now)
        inflight.reconcile("chat", "a:1", None, None, now, now)
        inflight.reconcile("chat", "a:1", 2.0, None, now, now)
        inflight.reconcile("chat", "a:1", 3.0, 0.0, now, now)
        inflight.release(now)
        inflight.forget("chat", "b:1")
    reading = inflight.reading("chat", "a:1", NOW + 6.0)
    assert (reading.in_flight, reading.resident, reading.lost) == (3, 3000, 0)


def test_unknown_ids_are_nobodys() -> None:
    """What was never picked, or is over, changes nothing."""
    inflight = InFlight()
    opened(inflight, "1")
    inflight.done("1", NOW, fault=False)
    assert inflight.done("1", NOW, fault=False) is False
    assert inflight.first_token("strange", NOW) is False
    assert inflight.move("strange", "a:1", NOW) is False
    assert inflight.reading("chat", "a:1", NOW).in_flight == 0


def test_lease_tells_its_story() -> None:
    """Pool, target, when it opened, its tokens, and its first token once told."""
    inflight = InFlight()
    opened(inflight, "1")
    assert inflight.first_token("1", NOW + 2.0) is True
    assert inflight.find("1") == ("chat", "a:1", NOW, 1000, NOW + 2.0)


def test_moved_lease_is_at_the_alternate() -> None:
    """Attempt two went to another target of the pool; one that is not known changes nothing."""
    inflight = InFlight()
    opened(inflight, "1")
    inflight.load("chat", "b:1")
    assert inflight.move("1", "c:1", NOW) is True
    assert inflight.find("1") == ("chat", "a:1", NOW, 1000, None)
    assert inflight.move("1", "b:1", NOW) is True
    assert inflight.find("1") == ("chat", "b:1", NOW, 1000, None)
    assert [inflight.reading("chat", each, NOW).in_flight for each in ("a:1", "b:1")] == [0, 1]


def test_failed_work_is_let_go_after_a_second() -> None:
    """It still counts at 0.9 s, and no more at 1.1 s."""
    inflight = InFlight()
    opened(inflight, "1", tokens=8000)
    inflight.done("1", NOW, fault=True)
    inflight.release(NOW + 0.9)
    assert inflight.reading("chat", "a:1", NOW + 0.9).outstanding > 8000.0
    inflight.release(NOW + 1.1)
    assert inflight.reading("chat", "a:1", NOW + 1.1).outstanding == 0.0


def test_strangers_wait_before_us() -> None:
    """Three waiting that are not ours count as the pool's mean prompt each."""
    inflight = InFlight()
    inflight.reconcile("chat", "a:1", 5.0, 3.0, NOW, NOW + 0.1)
    assert inflight.reading("chat", "a:1", NOW).outstanding == pytest.approx(3 * 1020.0)


def test_what_judging_needs() -> None:
    """Requests under way, the oldest wait once first tokens are told, the largest prefill."""
    inflight = InFlight()
    assert inflight.outstanding("chat", "a:1", 0, NOW) is NOTHING
    opened(inflight, *pick_ids(2), tokens=8000)
    seen = inflight.outstanding("chat", "a:1", 1, NOW + 1.0)
    assert (seen.requests, seen.oldest_wait) == (1, 0.0)
    assert seen.largest_prefill == pytest.approx(8160.0 / 8000.0)
    inflight.load("chat", "a:1").use(8000.0, told=True)
    assert inflight.outstanding("chat", "a:1", 2, NOW + 5.0).oldest_wait == 5.0


def test_picks_that_no_scrape_has_seen_are_requests() -> None:
    """A pick counts for judging even when its prompt should be through."""
    inflight = InFlight()
    opened(inflight, *pick_ids(3), tokens=1)
    assert inflight.outstanding("chat", "a:1", 1, NOW + 60.0).requests == 2


def test_losses_in_a_row_speak_in_feedback_mode_only() -> None:
    """Without feedback every lease ends as lost, which says nothing of its target."""
    inflight = InFlight()
    opened(inflight, *pick_ids(3))
    inflight.reconcile("chat", "a:1", 0.0, 0.0, NOW + 10.0, NOW + 10.1)
    assert inflight.outstanding("chat", "a:1", 0, NOW + 11.0).lost_in_row == 0
    opened(inflight, *pick_ids(9), now=NOW + 11.0)
    for pick_id in pick_ids(9):
        inflight.done(pick_id, NOW + 11.0, fault=False)
    opened(inflight, "last", now=NOW + 12.0)
    inflight.reconcile("chat", "a:1", 0.0, 0.0, NOW + 20.0, NOW + 20.1)
    inflight.pool("chat").mode.refresh(NOW + 20.1)
    assert inflight.outstanding("chat", "a:1", 0, NOW + 21.0).lost_in_row == 1


def test_restart_drops_leases() -> None:
    """What the old process had is gone; nothing was lost by the gateway."""
    inflight = InFlight()
    opened(inflight, "1")
    inflight.restarted("chat", "a:1", NOW + 1.0, NOW + 1.1)
    reading = inflight.reading("chat", "a:1", NOW)
    assert (reading.in_flight, reading.lost, reading.picks) == (0, 0, 1)


def test_departed_target_is_forgotten() -> None:
    """Its leases, counts and tag are gone, and the pool with its last target."""
    inflight = InFlight()
    opened(inflight, "1")
    inflight.forget("chat", "a:1")
    assert inflight.find("1") is None
    assert inflight.count("chat", "a:1") == 0
    assert inflight._pools == inflight._tags == {}


def test_id_of_another_replica_names_the_target() -> None:
    """Same configuration, same tag: an outcome finds its target without a lease."""
    inflight = InFlight()
    tag = inflight.load("chat", "a:1").tag
    assert inflight.origin(f"1k{tag}other-replica") == Origin("chat", "a:1", 768)
    assert inflight.origin("1kAAAAAAAAnobody") is None
    assert inflight.origin("nonsense") is None


def test_capacity_sets_the_rate_to_start_from() -> None:
    """A target twice as fast starts twice as fast; one that was picked keeps what it learned."""
    inflight = InFlight()
    inflight.start_rate("chat", "a:1", 2.0)
    assert inflight.speed("chat", "a:1") == 16_000.0
    opened(inflight, "1")
    inflight.start_rate("chat", "a:1", 1.0)
    assert inflight.speed("chat", "a:1") == 16_000.0


def test_alike_targets_share_their_rate() -> None:
    """8,000 and 9,000 reckon with 8,500 from the next view on."""
    inflight = InFlight()
    view = pool(target("a:1"), target("b:1"))
    inflight.load("chat", "b:1").rate = 9000.0
    inflight.prepare(view, NOW)
    assert inflight.speed("chat", "a:1") == inflight.speed("chat", "b:1") == 8500.0


def test_threads_lose_no_update() -> None:
    """Picks and ends on one thread, scrapes and views on another: counts add up."""
    view = pool(target("a:1"), target("b:1"))
    inflight, stop = InFlight(), threading.Event()

    def scrape() -> None:
        now = NOW
        while not stop.is_set():
            now += 0.001
            for each in view.targets:
                mark = inflight.mark("chat", each.target, now)
                inflight.reconcile("chat", each.target, 1.0, 1.0, now, now, mark)
            inflight.prepare(view, now)

    thread = threading.Thread(target=scrape)
    thread.start()
    for number in range(20_000):
        name = view.targets[number % 2]
        inflight.open("chat", name, str(number), 500.0, 500, NOW + number / 1000.0)
        if number % 3:
            inflight.done(str(number), NOW + number / 1000.0, fault=number % 5 == 0)
    stop.set()
    thread.join()
    loads = [inflight.load("chat", each.target) for each in view.targets]
    assert sum(load.in_flight for load in loads) == len(inflight._leases)
    for load in loads:
        waiting = [each for each in inflight._leases.values() if each.load is load and each.waits]
        assert (load.pending, load.work) == (len(waiting), sum(each.work for each in waiting))


def test_request_that_was_overtaken_is_not_taken_for_waiting():
    """One that nobody reports on is no lower bound of the TTFT once later ones are served."""
    inflight = InFlight()
    view = pool(target("a:1"))
    inflight.prepare(view, 0.0)
    load = inflight.load("chat", "a:1")
    for number in range(20):
        inflight.lease(load, f"told{number}", 100, 100, number * 0.1)
        inflight.first_token(f"told{number}", number * 0.1 + 0.05)
        inflight.done(f"told{number}", number * 0.1 + 0.06, fault=False)
    inflight.prepare(view, 2.0)
    inflight.lease(load, "silent", 100, 100, 2.0)
    assert inflight.outstanding("chat", "a:1", 20, 5.0).oldest_wait == 3.0
    inflight.lease(load, "later", 100, 100, 5.0)
    inflight.first_token("later", 5.1)
    assert inflight.outstanding("chat", "a:1", 20, 8.0).oldest_wait == 0.0
