"""The probe trickle: who gets a single request, when, and how often."""

from scorer.core.probe import ProbeTrickle, starved
from scorer.core.table import PickTable, Row
from tests.core.picking import load, row, table

LONG = 10_000


def sick(*names: str) -> PickTable:
    """Return a pool with one good target and some that only probes reach."""
    made = table(row("good:1"))
    made.probed = [row(name) for name in names]
    return made


def probes(
    trickle: ProbeTrickle, pool: PickTable, picks: int, now: float, tokens: int = 100
) -> list[Row]:
    """Return the probes among ``picks`` picks at one moment."""
    turns = (trickle.turn(pool, tokens, frozenset(), now) for _ in range(picks))
    return [each for each in turns if each is not None]


def test_first_probe_needs_twenty_picks() -> None:
    """A probe is at most a twentieth of the picks, from the start."""
    trickle, pool = ProbeTrickle(), sick("a:1")
    assert probes(trickle, pool, 19, 1.0) == []
    assert [each.target for each in probes(trickle, pool, 1, 1.0)] == ["a:1"]


def test_probes_are_at_most_a_twentieth_of_the_picks() -> None:
    """N=2,000 picks over 200 s in a pool of 30 sick targets that answer at once: at most 100."""
    trickle, pool = ProbeTrickle(), sick(*(f"s{number}:1" for number in range(30)))
    count = 0
    for number in range(2000):
        for each in probes(trickle, pool, 1, number / 10.0):
            each.load.probe_since = None
            count += 1
    assert 80 <= count <= 100


def test_one_probe_at_a_time() -> None:
    """While a probe has no answer, the target gets no other one, for 30 s."""
    trickle, pool = ProbeTrickle(), sick("a:1")
    assert len(probes(trickle, pool, 100, 1.0)) == 1
    assert probes(trickle, pool, 100, 30.9) == []
    assert len(probes(trickle, pool, 100, 31.3)) == 1


def test_answered_target_is_probed_again_after_ten_seconds() -> None:
    """An answer allows the next probe, not before 10 s after the last."""
    trickle, pool = ProbeTrickle(), sick("a:1")
    probes(trickle, pool, 100, 1.0)
    pool.probed[0].load.probe_since = None
    assert probes(trickle, pool, 100, 10.9) == []
    assert len(probes(trickle, pool, 100, 11.3)) == 1


def test_long_prompt_does_not_probe_while_short_ones_come() -> None:
    """A sick target is asked with something small; without any for 30 s with what there is."""
    trickle, pool = ProbeTrickle(), sick("a:1")
    probes(trickle, sick(), 20, 1.0)
    assert probes(trickle, pool, 5, 30.9, LONG) == []
    assert len(probes(trickle, pool, 5, 31.0, LONG)) == 1


def test_first_long_prompts_do_not_probe() -> None:
    """The 30 s without a short one begin with the first prompt, not with the clock."""
    trickle, pool = ProbeTrickle(), sick("a:1")
    assert probes(trickle, pool, 25, 1000.0, LONG) == []
    assert len(probes(trickle, pool, 5, 1030.0, LONG)) == 1


def test_excluded_target_is_not_probed() -> None:
    """A retry does not go where it came from."""
    trickle, pool = ProbeTrickle(), sick("a:1")
    probes(trickle, sick(), 20, 1.0)
    assert trickle.turn(pool, 100, frozenset({"a:1"}), 1.0) is None


def test_every_sick_target_gets_its_turn() -> None:
    """Of forty, more than one pick looks at, each is probed."""
    trickle, pool = ProbeTrickle(), sick(*(f"s{number}:1" for number in range(40)))
    seen = set()
    for number in range(2000):
        seen |= {each.target for each in probes(trickle, pool, 1, number / 10.0)}
    assert len(seen) == 40


def test_who_joins_late_is_not_starved_yet() -> None:
    """Picks and seconds count from when it could have been picked first."""
    late = load("late:1")
    assert late.due_from(1_000_000, 5000.0) == 5000.0
    assert (late.due_from(1_000_050, 5030.0), late.last_pick) == (5000.0, 1_000_000)


def test_starved_is_who_misses_ten_turns() -> None:
    """In a pool of four, 40 picks and 30 s without one; either alone is chance."""
    assert starved(0.0, 40, 4, 30.0)
    assert not starved(0.0, 39, 4, 30.0)
    assert not starved(0.0, 40, 4, 29.0)
