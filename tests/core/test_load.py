"""Leases and the load they make of a target."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.core.leases import Lease, Mark
from scorer.core.load import MOST_LEASES, SLACK, TargetLoad
from scorer.core.prefill import work
from tests.core.picking import load


def opened(target: TargetLoad, name: str, tokens: int = 8000, now: float = 0.0) -> Lease:
    """Open a lease of ``tokens``."""
    return target.open(name, tokens, work(tokens), now)


def size(target: TargetLoad) -> int:
    """Return how many leases the target's queues hold, closed ones included."""
    return len(target._young) + len(target._old) + len(target._queue)


def test_pick_waits_for_the_work_ahead_and_its_own() -> None:
    """8,000 tokens at 8,000 a second are 1.16 s of prefill, and as much for the next one."""
    target = load()
    assert target.wait(8000, 0.0) == pytest.approx(1.16)
    opened(target, "1")
    decode = (32.0 + 0.05 * 8000) / 8000.0
    assert target.wait(8000, 0.0) == pytest.approx(2.32 + decode)


def test_untold_prompts_are_worked_off_one_after_the_other() -> None:
    """Without first tokens the work ahead shrinks with time, whatever the queue says."""
    target = load()
    opened(target, "1")
    opened(target, "2")
    assert target.outstanding(0.0) == pytest.approx(18_560.0)
    assert target.outstanding(1.0) == pytest.approx(10_560.0)
    assert target.outstanding(9.0) == 0.0


def test_told_prompts_wait_until_their_first_token() -> None:
    """With first tokens told, work stays until it is told, less progress on the first."""
    target = load(told=True)
    first = opened(target, "1")
    opened(target, "2")
    assert target.outstanding(0.5) == pytest.approx(18_560.0 - 4000.0)
    target.tell(first, 2.0)
    assert target.outstanding(2.0) == pytest.approx(9280.0)


def test_progress_on_the_first_prompt_is_at_most_nine_tenths() -> None:
    """A first token that does not come never makes the target look idle."""
    target = load(told=True)
    opened(target, "1")
    assert target.outstanding(60.0) == pytest.approx(928.0)


def test_first_token_out_of_order_leaves_the_head() -> None:
    """A prompt that overtakes another one takes only its own work away."""
    target = load(told=True)
    opened(target, "1")
    second = opened(target, "2", 1000)
    target.tell(second, 0.0)
    assert target.outstanding(0.0) == pytest.approx(9280.0)


def test_done_releases_the_request() -> None:
    """A request that is over leaves nothing behind."""
    target = load(told=True)
    lease = opened(target, "1")
    target.close(lease, 1.0)
    assert (target.in_flight, target.resident, target.pending, target.work) == (0, 0, 0, 0)
    assert target.wait(0, 1.0) == 0.0


def test_failed_work_counts_a_second_longer() -> None:
    """A fast failure never looks like an empty queue."""
    target = load(told=True)
    target.close(opened(target, "1"), 0.1, fault=True)
    assert target.outstanding(0.1) == pytest.approx(9280.0)
    target.release(1.0)
    assert target.outstanding(1.0) == pytest.approx(9280.0)
    target.release(1.1)
    assert target.outstanding(1.1) == 0.0


def test_failure_after_the_first_token_holds_nothing() -> None:
    """A stream that broke had its prompt worked off."""
    target = load(told=True)
    lease = opened(target, "1")
    target.tell(lease, 1.0)
    target.close(lease, 2.0, fault=True)
    assert target.outstanding(2.0) == 0.0


def test_long_prompts_teach_the_rate() -> None:
    """9,280 token-equivalents in 2 s, at 8,000 taken for granted, lower the rate."""
    target = load()
    target.tell(opened(target, "1"), 2.0)
    assert target.rate == pytest.approx(8000.0 + 0.05 * (4640.0 - 8000.0))


def test_short_prompts_teach_no_rate() -> None:
    """Up to 2,000 tokens overhead decides."""
    target = load()
    target.tell(opened(target, "1", 2000), 9.0)
    assert target.rate == 8000.0


def test_rate_is_learned_from_the_end_when_only_that_is_told() -> None:
    """A report of a finished request carries its time to first token."""
    target = load()
    target.close(opened(target, "1"), 30.0, ttft=2.0)
    assert target.rate < 8000.0


def test_moved_lease_loads_its_new_target() -> None:
    """What went to the alternate is in flight there, and teaches no rate."""
    one, other = load("a:1"), load("b:1")
    lease = opened(one, "1")
    other.move(lease, 1.0)
    assert (one.in_flight, other.in_flight) == (0, 1)
    other.tell(lease, 9.0)
    assert other.rate == 8000.0
    assert lease.ref.target == "b:1"


def test_scrape_closes_the_oldest_beyond_what_the_engine_has() -> None:
    """Of five old leases and three requests at the engine, the two oldest are lost."""
    target = load()
    leases = [opened(target, str(number), now=float(number)) for number in range(5)]
    target.reconcile(2.0, 1.0, 10.0, 10.1, Mark())
    assert [lease.open for lease in leases] == [False, False, True, True, True]
    assert target.lost == 2


def test_young_leases_outlive_a_scrape() -> None:
    """What was picked less than 2 s before the scrape began may be on its way."""
    target = load()
    lease = opened(target, "1", now=8.5)
    target.reconcile(0.0, 0.0, 10.0, 10.1, Mark())
    assert lease.open
    target.reconcile(0.0, 0.0, 11.0, 11.1, Mark())
    assert not lease.open


@pytest.mark.parametrize(("running", "waiting"), [(None, 0.0), (0.0, None), (None, None)])
def test_scrape_that_does_not_tell_closes_nothing(
    running: float | None, waiting: float | None
) -> None:
    """Missing is not zero."""
    target = load()
    lease = opened(target, "1")
    target.reconcile(running, waiting, 100.0, 100.1, Mark())
    assert lease.open


def test_strangers_are_those_who_wait_beyond_our_own() -> None:
    """Seven wait, of which five are ours: two were picked by others."""
    assert load().reconcile(0.0, 7.0, 10.0, 10.1, Mark(pending=5)) == 2.0
    assert load().reconcile(0.0, 3.0, 10.0, 10.1, Mark(pending=5)) == 0.0


def test_tokens_since_the_scrape_are_fresh() -> None:
    """A scrape contains what was picked before it began."""
    target = load()
    opened(target, "1", 500)
    mark = Mark(tokens=target.tokens_picked)
    opened(target, "2", 700)
    target.reconcile(1.0, 0.0, 1.0, 1.1, mark)
    assert target.fresh == 700


def test_lease_expires() -> None:
    """Without a scrape and without a word a lease ends by time."""
    target = load()
    opened(target, "1", now=0.0)
    opened(target, "2", now=5.0)
    target.expire(1.0, 601.0)
    assert (target.in_flight, target.lost) == (1, 1)


def test_restart_drops_what_the_old_process_had() -> None:
    """Leases from before are gone, those after it stay, and none counts as lost."""
    target = load()
    opened(target, "1", now=0.0)
    opened(target, "2", now=5.0)
    target.drop(4.0, 6.0)
    assert (target.in_flight, target.lost) == (1, 0)


def test_leases_of_a_target_are_bounded() -> None:
    """Picks without any word never hold more than the bound."""
    target = load()
    for number in range(MOST_LEASES + 10):
        opened(target, str(number), 1)
    assert target.in_flight == MOST_LEASES
    assert target.lost == 10


def test_departed_target_keeps_no_lease() -> None:
    """A pick that was under way while its target left is counted and forgotten."""
    target = load()
    target.gone = True
    opened(target, "1")
    assert (target.picks, target.in_flight) == (1, 0)


def test_answer_ends_a_row_of_losses() -> None:
    """Leases lost in a row count until something is heard."""
    target = load()
    opened(target, "1")
    target.expire(1.0, 2.0)
    assert target.lost_in_row == 1
    target.tell(opened(target, "2"), 3.0)
    assert target.lost_in_row == 0


def test_answer_ends_a_probe() -> None:
    """First token or end: the next probe may come."""
    target = load()
    target.probe_since = 0.0
    lease = opened(target, "1")
    lease.probe = True
    target.close(lease, 1.0)
    assert target.probe_since is None


def test_one_lost_lease_does_not_keep_those_behind_it() -> None:
    """Behind a lease that never ends, closed ones are swept out."""
    target = load(told=True)
    opened(target, "stays")
    for number in range(5000):
        target.close(opened(target, str(number), 10), 1.0)
    assert size(target) <= 4 * SLACK


@given(st.integers(0, 2**32), st.booleans())
def test_sums_are_those_of_the_open_leases(seed: int, told: bool) -> None:
    """After any sequence of events, counts and work are the sums over what is open."""
    dice, target, leases, now = random.Random(seed), load(told=told), [], 0.0
    for number in range(60):
        now += dice.random()
        leases.append(opened(target, str(number), dice.randrange(1, 20_000), now))
        chosen = dice.choice(leases)
        match dice.randrange(5):
            case 0 if chosen.waits:
                target.tell(chosen, now)
            case 1 if chosen.open:
                target.close(chosen, now, fault=dice.random() < 0.5)
            case 2:
                target.reconcile(3.0, 2.0, now, now, Mark())
            case 3:
                target.expire(now - 20.0, now)
            case _:
                target.release(now)
    waiting = [lease for lease in leases if lease.waits]
    assert target.in_flight == sum(lease.open for lease in leases)
    assert target.resident == sum(lease.tokens for lease in leases if lease.open)
    assert (target.pending, target.work) == (len(waiting), sum(lease.work for lease in waiting))
    assert target.head_work == (waiting[0].work if waiting else 0)
    assert target.outstanding(now) >= 0.0


def test_fast_engine_is_learned_to_be_fast() -> None:
    """23,000 a second, seen every time, is learned from 8,000 although it is beyond twice."""
    target = load()
    for number in range(400):
        lease = target.open(str(number), 5000, work(5000), 10.0 * number)
        target.tell(lease, 10.0 * number + work(5000) / 23_000)
        target.close(lease, 10.0 * number + 9.0)
    assert target.rate == pytest.approx(23_000, rel=0.05)


def test_cached_prefixes_do_not_make_an_engine_fast() -> None:
    """Nine answers in ten ten times as fast as the tenth: the tenth is believed, give or take."""
    target = load()
    for number in range(2000):
        lease = target.open(str(number), 5000, work(5000), 10.0 * number)
        speed = 8000 if number % 10 == 0 else 80_000
        target.tell(lease, 10.0 * number + work(5000) / speed)
        target.close(lease, 10.0 * number + 9.0)
    assert target.rate == pytest.approx(8000, rel=0.05)
