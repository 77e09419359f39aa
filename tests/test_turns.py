"""Changes by several threads: whoever may not wait leaves its change to the other."""

import threading

from scorer.core.load import TargetLoad
from scorer.inflight import InFlight
from scorer.pauses import MOST_PAUSES, PAUSE, WORK, Pauses
from scorer.turns import Turns


def test_change_is_made_at_once_when_nobody_is_at_it():
    """The usual case."""
    turns, made = Turns(), []
    turns.do(made.append, 1)
    assert made == [1]


def test_change_in_the_turn_of_another_is_made_at_its_end():
    """In the order of asking; who asks does not wait: a lock would wait for itself here."""
    turns, made = Turns(), []
    with turns:
        turns.do(made.append, 1)
        turns.do(made.append, 2)
        assert made == []
    turns.do(made.append, 3)
    assert made == [1, 2, 3]


def test_failed_change_ends_the_turn_too():
    """A fault of one change leaves nobody waiting for ever."""
    turns, made = Turns(), []
    for _ in range(2):
        try:
            with turns:
                turns.do(int, "no number")
                turns.do(made.append, 1)
        except ValueError:
            turns.settle()
    assert made == [1, 1]


def test_no_change_is_lost_between_threads():
    """One thread takes turns, others do not wait: every change is made, each thread's in order."""
    turns, made, each = Turns(), [], 3_000
    stop = threading.Event()

    def take_turns():
        while not stop.is_set():
            with turns:
                pass

    def ask(name):
        for number in range(each):
            turns.do(made.append, (name, number))

    busy = threading.Thread(target=take_turns)
    busy.start()
    asking = [threading.Thread(target=ask, args=(name,)) for name in "ab"]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    stop.set()
    busy.join()
    turns.settle()
    for name in "ab":
        assert [number for who, number in made if who == name] == list(range(each))


def test_pick_during_a_change_to_leases_is_a_lease_afterwards():
    """A pick does not wait for a scoring thread, and its report finds the lease."""
    inflight = InFlight()
    load: TargetLoad = inflight.load("chat", "a:1")
    with inflight._turns:
        inflight.lease(load, "1", 1020.0, 1000, 5.0)
        assert load.in_flight == 0
    assert (load.in_flight, load.picks) == (1, 1)
    with inflight._turns:
        inflight.lease(load, "2", 1020.0, 1000, 5.0)
    assert inflight.done("2", 6.0, fault=False) is True
    assert load.in_flight == 1


def test_long_work_pauses_and_short_work_does_not():
    """After each millisecond of work there is a pause, until there were enough of them."""
    now, slept = [0.0], []
    pauses = Pauses(lambda: now[0], slept.append)
    pauses()
    now[0] += 0.9 * WORK
    pauses()
    assert slept == []
    for _ in range(2 * MOST_PAUSES):
        now[0] += 1.1 * WORK
        pauses()
    assert slept == [PAUSE] * MOST_PAUSES
    pauses.begin()
    now[0] += 1.1 * WORK
    pauses()
    assert slept == [PAUSE] * (MOST_PAUSES + 1)


def test_change_that_comes_while_another_is_made_without_a_turn_follows_it():
    """Nobody need come along later for it: a quiet daemon has no next pick."""
    turns, made = Turns(), []

    def first():
        other = threading.Thread(target=turns.do, args=(made.append, 2))
        other.start()
        other.join()
        made.append(1)

    turns.do(first)
    assert made == [1, 2]
